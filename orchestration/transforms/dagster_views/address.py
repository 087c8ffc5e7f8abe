"""Tells where a table is, as ``dagster/table_name`` and ``dagster/storage_kind`` of its asset.

Dagster shows them beside the asset and finds an asset by them. Definitions load without reading the
environment. So a URI, which the settings decide, is told with a materialization, where it is told.
"""

DELTA, DUCKDB = "deltalake", "duckdb"


def table_address(table: str, storage_kind: str | None = None) -> dict[str, str]:
    """Return the metadata of the asset that stands for ``table``.

    ``storage_kind`` is None where the settings decide which database has the table.
    """
    return {"dagster/table_name": table, **({} if storage_kind is None else {"dagster/storage_kind": storage_kind})}
