"""Dagster metadata for a table's address: ``dagster/table_name`` and ``dagster/storage_kind``.

Dagster shows both beside the asset and searches by them. A URI is not among them, because it
depends on the settings and definitions load without them. Some assets report their URI when they
materialize.
"""

DELTA, DUCKDB = "deltalake", "duckdb"
SINK_METADATA = "tidelog/database_table"
"""The label of an asset's table in a database."""


def table_address(table: str, storage_kind: str | None = None) -> dict[str, str]:
    """Return the metadata of the asset of ``table``.

    ``storage_kind`` is None if the settings decide which database has the table.
    """
    return {
        "dagster/table_name": table,
        **({} if storage_kind is None else {"dagster/storage_kind": storage_kind}),
    }
