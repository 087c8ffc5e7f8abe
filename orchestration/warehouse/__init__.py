"""The warehouse: DuckDB marts, and queries over tables, marts and topics.

- ``store``: marts and queries. ``topics_in_sql``: topics as relations of SQL.
"""
