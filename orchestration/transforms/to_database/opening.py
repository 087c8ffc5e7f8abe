"""Opens the table of a database, and turns errors of the database into failed runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from orchestration.databases.owners import owner_of
from orchestration.databases.refusals import StoreError
from orchestration.lake.tables import Lake
from orchestration.resources.database import DatabaseResource
from orchestration.resources.warehouse import WarehouseResource
from orchestration.settings import load_settings
from orchestration.transforms.declarations import table_key
from orchestration.transforms.to_database.declarations import DatabaseTable
from orchestration.transforms.to_database.duckdb_store import DuckdbStore
from orchestration.transforms.to_database.sql_store import SqlStore, follower_of
from orchestration.transforms.to_database.stores import Store


@contextmanager
def opened(
    declared: DatabaseTable, database: DatabaseResource, warehouse: WarehouseResource, lake: Lake
) -> Iterator[Store]:
    """Yield the store with the table.

    Its owner is the asset of this lake. In a SQL database its progress is stored under a name that
    contains the deployment's name, too.
    """
    keys = declared.follower.latest_by
    asset = table_key(declared.name).to_user_string()
    if declared.kind == "duckdb":
        owner = owner_of(lake.root, asset)
        yield DuckdbStore(
            directory=warehouse.open().directory, table=declared.table, owner=owner, keys=keys
        )
        return
    deployment = load_settings().deployment
    follower, owner = follower_of(declared.name, deployment), owner_of(lake.root, asset, deployment)
    with database.open() as engine:
        yield SqlStore(
            engine=engine, table=declared.table, follower=follower, owner=owner, keys=keys
        )


@contextmanager
def refusals_as_failures(name: str) -> Iterator[None]:
    """Turn errors of the database into a failed run."""
    try:
        yield
    except StoreError as error:
        raise dg.Failure(
            description=f"{name}: {error}; the next run tries again", allow_retries=error.is_passing
        ) from error
