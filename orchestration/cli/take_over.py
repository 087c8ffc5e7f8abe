"""``tidelog take-over``: gives the project a database table that belongs to another owner.

Without ``--execute`` it only shows the owner.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from log_service.cli.output import json_option, print_json

if TYPE_CHECKING:
    import dagster as dg

    from orchestration.transforms.kinds import Ownership

PLACES = ("lake", "sql", "warehouse", "database")
"""The resources that a takeover opens. The first two are the first parts of assets' keys, too."""


@click.command("take-over")
@click.argument("table")
@click.option("--execute", is_flag=True, help="Do it; without this the owner is only shown.")
@json_option
def take_over(*, table: str, execute: bool, as_json: bool) -> None:
    """Take over TABLE of a database from another lake, deployment or asset.

    TABLE is an asset: a sql_table, @spark_sql_table or @spark_duckdb_table of the project of this
    folder (sql/NAME or lake/NAME if both exist). Rows and progress stay as they are. The former
    owner commits nothing from then on. Its runs fail and name the new owner. A sql_table replaces
    all rows with its next run.

    \b
      tidelog take-over accounts_now
      tidelog take-over accounts_now --execute
    """
    from orchestration.cli.surroundings import (  # noqa: PLC0415 - with the command
        explained,
        found_settings,
        loaded_project,
        project_folder,
    )
    from orchestration.databases.refusals import StoreError  # noqa: PLC0415

    found_settings()
    project_folder()
    definitions = loaded_project()
    try:
        with explained(), opened_table(definitions, table) as (asset, owner):
            held = owner.holder()
            if held is not None and execute:
                owner.take()
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json({"table": asset, "held_by": held, "executed": held is not None and execute})
    elif held is None:
        click.echo(f"{asset}: the table is no one else's; there is nothing to take over")
    elif execute:
        click.echo(f"{asset}: the table belonged to {held}. It is this project's own now")
    else:
        click.echo(f"{asset}: the table belongs to {held}")
        click.echo(
            "nothing was done; --execute takes it over, and its owner then commits nothing any more"
        )


@contextmanager
def opened_table(definitions: "dg.Definitions", table: str) -> Iterator[tuple[str, "Ownership"]]:
    """Yield the asset that keeps ``table`` in a database, and the table's owner.

    :raises ClickException: the project has no such asset, or two.
    """
    import dagster as dg  # noqa: PLC0415 - with the command, not with its help

    from orchestration.databases.owners import owner_of  # noqa: PLC0415
    from orchestration.databases.refusals import refusals_translated  # noqa: PLC0415
    from orchestration.databases.urls import shown_url  # noqa: PLC0415
    from orchestration.marts import database_copy  # noqa: PLC0415
    from orchestration.transforms.kinds import Ownership, all_declared  # noqa: PLC0415

    assets = definitions.get_repository_def().assets_defs_by_key
    of_sql = {
        key.to_user_string(): key
        for key in assets
        if key.path[0] == database_copy.SQL_PREFIX and len(key.path) > 1
    }
    of_topics = {f"lake/{kind.name}": kind for kind in all_declared() if kind.has_owner}
    asset = chosen(table, [*of_topics, *of_sql])
    with ExitStack() as stack:
        given = {name: one for name, one in (definitions.resources or {}).items() if name in PLACES}
        resources: Any = stack.enter_context(dg.build_resources(given))
        lake = resources.lake.open()
        if asset in of_topics:
            kind = of_topics[asset]
            owner = stack.enter_context(
                kind.ownership(resources.database, resources.warehouse, lake)
            )
            assert owner is not None, "a kind with an owner yields it"
            yield asset, owner
            return
        key, engine = of_sql[asset], stack.enter_context(resources.database.open())
        stack.enter_context(refusals_translated(shown_url(engine.url)))
        sources = [one.path[-1] for one in assets[key].asset_deps[key]]
        snapshot = lake.snapshot(sources[0]) if sources else None
        own, name = owner_of(lake.root, asset), key.path[-1]
        known = None if snapshot is None else snapshot.table_id
        yield (
            asset,
            Ownership(
                holder=partial(database_copy.holder, engine, name, known, own),
                take=partial(database_copy.take_over, engine, name, own),
            ),
        )


def chosen(table: str, known: list[str]) -> str:
    """Return the asset among ``known`` that ``table`` names, with or without its prefix (``sql/``).

    :raises ClickException: no asset has that name, or two have it.
    """
    found = [one for one in sorted(known) if table in {one, one.rpartition("/")[2]}]
    if len(found) > 1:
        raise click.ClickException(f"the project has {' and '.join(found)}: name one of them whole")
    if not found:
        raise click.ClickException(
            f"the project keeps no table {table} in a database; it has"
            f" {', '.join(sorted(known)) or 'none'}"
        )
    return found[0]
