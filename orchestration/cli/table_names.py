"""Names of tables as people give them to commands: bare, or as the Dagster UI shows the asset.

Decides which names a command knows, and what it says about others. The project is loaded only for a
name that is neither in the lake nor in the dead letters.
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from orchestration.dead_letters.table import DeadLetters

TABLE_PREFIXES = ("lake", "marts", "sql")
"""The first parts of the keys of assets that are tables, as the Dagster UI shows them."""
DAYS_PREFIX, DAYS_SUFFIX = "history", "_by_day"


class TableParameter(click.ParamType[str]):
    """A table's name, or its asset key as the Dagster UI shows it: ``lake/clean_orders``."""

    name = "table"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,  # noqa: ARG002 - click's signature
        ctx: click.Context | None,  # noqa: ARG002 - click's signature
    ) -> str:
        """Return the table's name."""
        return table_named(str(value))


def table_named(given: str) -> str:
    """Return the name of a table that is given by its name or by its asset key.

    >>> [table_named(given) for given in ("lake/orders", "history/orders_by_day", "topics/orders")]
    ['orders', 'orders', 'topics/orders']
    """
    prefix, _, name = given.replace(" / ", "/").rpartition("/")
    if prefix in TABLE_PREFIXES:
        return name
    return name.removesuffix(DAYS_SUFFIX) if prefix == DAYS_PREFIX else given


def refuse_unknown(table: str, letters: "DeadLetters") -> None:
    """Refuse the name of a table that is unknown to the lake, the dead letters and the project.

    :raises ClickException: lists the known tables. If ``table`` is a topic, it lists the tables
        that follow it.
    """
    targets = {str(row["target"]) for row in letters.summary()}
    if table in targets or table in letters.lake.names():
        return
    declared, of_topic = declared_here(table.removeprefix("topics/"))
    if table in declared:
        return
    if of_topic:
        raise click.ClickException(
            f"{table} is a topic, and dead letters belong to tables: name"
            f" {' or '.join(sorted(of_topic))}"
        )
    known = ", ".join(sorted({*targets, *declared})) or "none"
    raise click.ClickException(f"there is no table or topic {table}; there are {known}")


def declared_here(topic: str) -> tuple[Collection[str], Collection[str]]:
    """Return the tables of this folder's project that may have dead letters.

    The second result contains those of them that follow ``topic``. Both are empty if there is no
    project.
    """
    if not is_project_here():
        return (), ()
    from orchestration.cli.surroundings import (  # noqa: PLC0415 - with the command, not with its help
        loaded_project,
    )
    from orchestration.transforms.kinds import kinds_of  # noqa: PLC0415

    assets = loaded_project().get_repository_def().assets_defs_by_key.values()
    kinds = [kind for kind in kinds_of(assets) if kind.has_dead_letters]
    return {kind.name for kind in kinds}, {kind.name for kind in kinds if topic in kind.feed.topics}


def is_project_here() -> bool:
    """Whether the current folder is a project."""
    from orchestration.project.location import (  # noqa: PLC0415 - with the command, not with its help
        ASSETS,
    )

    return (Path.cwd() / ASSETS / "__init__.py").is_file()
