"""From topic to database: a ``DataFrame -> DataFrame`` function that keeps a table of a SQL database, or of a DuckDB file, exactly once.

``declarations`` holds what is declared, ``stores`` what a database has to do, ``sql_store`` and ``duckdb_store`` do it, ``bulk`` for many
rows at once. ``run`` and ``replay`` are runs without Dagster, ``assets`` and ``history`` what Dagster is told, ``decorator`` what users
write. The lake keeps an account of what was committed, the same ledger as that of a transform to a topic (``to_topic.ledger``).
"""
