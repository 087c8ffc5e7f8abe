"""From topic to database: a transform whose rows a database table gets exactly once.

The transform is a ``DataFrame -> DataFrame`` function. The database is a SQL database or a DuckDB
file.

- ``declarations``: the declaration of a table. ``decorator``: the decorators that users write.
- ``stores``: the protocol of a database. ``sql_store`` and ``duckdb_store`` implement it.
- ``bulk``: many rows at once in a SQL database.
- ``run``, ``replay``: runs without Dagster.
- ``assets``, ``history``: the asset and its replays in Dagster. ``opening``: opens the database.
- ``kind``: implements the protocol of ``transforms.kinds``.

A ledger in the lake records the commits, as for a transform to a topic (``transforms.ledger``).
"""
