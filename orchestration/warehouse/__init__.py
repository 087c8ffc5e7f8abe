"""The warehouse: DuckDB marts, and questions over tables, marts and topics.

- ``store``: marts and questions. ``topics_in_sql``: topics as relations of SQL.
"""
