"""Tables of the lake: from a topic, or from other tables.

- ``decorator``: ``@spark_table``. ``statements``: transforms written in SQL.
- ``run``, ``derived``: a run of a table from a topic, and from tables.
- ``replay``: a replay. ``rebuilding``: the replay of a table of aggregates.
- ``assets``, ``history``: the table and its replays in Dagster. ``kind``: implements the protocol
  of ``transforms.kinds``.
"""
