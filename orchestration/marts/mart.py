"""Marts as assets: SQL over lake tables and other marts becomes a DuckDB file.

The file is built anew when an input changed. Decides which results of a build are reported to
Dagster. The ``warehouse`` builds the file.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc

import dagster as dg
import duckdb

from orchestration.lake.tables import LAKE_PREFIX, TABLE_NAME
from orchestration.marts.database_copy import SQL_PREFIX
from orchestration.marts.questions import SQL_METADATA
from orchestration.resources.warehouse import WarehouseResource
from orchestration.topics.inputs import MART_PREFIX, input_name
from orchestration.transforms import on_fresh_inputs, table_key
from orchestration.transforms.dagster_views.address import DUCKDB, table_address
from orchestration.transforms.declarations import one_or_more
from orchestration.warehouse.store import Warehouse, WarehouseError

QUESTIONS = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.MULTI})
"""The kinds of statements that a mart may consist of.

DuckDB parses a PIVOT without listed values as several statements.
"""
PREVIEW_ROWS = 20
BUILT_ANEW = {
    MART_PREFIX: "a mart",
    LAKE_PREFIX: "a table from tables",
    SQL_PREFIX: "a copy in the SQL database",
}
"""The assets that are built anew from tables and marts, by the beginning of their keys."""


def mart_key(name: str) -> dg.AssetKey:
    """Return the asset key of the mart ``name``."""
    return dg.AssetKey([MART_PREFIX, name])


def mart(
    name: str,
    *,
    sql: str,
    tables: str | dg.AssetsDefinition | Sequence[str | dg.AssetsDefinition],
    marts: str | dg.AssetsDefinition | Sequence[str | dg.AssetsDefinition] = (),
    description: str = "",
    is_automated: bool = True,
    group_name: str = "marts",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> dg.AssetsDefinition:
    """Return the asset of a mart.

    The mart holds the answer of ``sql``, one SELECT over the lake ``tables`` and ``marts`` that it
    names. Both are named by their assets or by their names.

    :raises ValueError: the name cannot be a mart's, ``sql`` is not one SELECT, or an asset of
        ``tables`` or ``marts`` is of another kind.
    """
    if not TABLE_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a mart's name: letters, digits and underscores, not starting with"
            " a digit"
        )
    validate_question(name, sql)
    inputs = [input_name(f"the mart {name}", one) for one in one_or_more(tables)]
    others = [input_name(f"the mart {name}", one, MART_PREFIX) for one in one_or_more(marts)]

    @dg.asset(
        key=mart_key(name),
        deps=[*(table_key(one) for one in inputs), *(mart_key(one) for one in others)],
        description=described(
            description or f"Built anew whenever {' or '.join([*inputs, *others])} changes.", sql
        ),
        kinds={"duckdb", "sql"},
        metadata={**table_address(name, DUCKDB), SQL_METADATA: sql},
        pool=f"mart_{name}",
        output_required=False,
        automation_condition=on_fresh_inputs() if is_automated else None,
        retry_policy=dg.RetryPolicy(max_retries=2, delay=3),
        group_name=group_name,
        tags=tags,
        owners=owners,
        freshness_policy=freshness_policy,
    )
    def build_mart(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        opened = warehouse.open()
        missing = [one for one in inputs if one not in opened.lake.names()] + [
            one for one in others if one not in opened.names()
        ]
        if missing:
            context.log.info("%s: waiting for %s, which do not exist yet", name, ", ".join(missing))
            return
        yield _built(opened, name, sql)

    return build_mart


def validate_question(name: str, sql: str) -> None:
    """Check that the SQL of a mart is a single SELECT.

    The SQL is parsed and not run, because its tables and columns may not exist yet.

    :raises ValueError: with the parser's error, or the kinds of statements found.
    """
    try:
        kinds = [one.type for one in duckdb.extract_statements(sql)]
    except duckdb.Error as error:
        raise ValueError(f"the sql of the mart {name} cannot be parsed: {error}") from error
    if len(kinds) != 1 or kinds[0] not in QUESTIONS:
        found = " and ".join(kind.name for kind in kinds) or "nothing"
        raise ValueError(f"the sql of the mart {name} has to be one SELECT, and it is {found}")


def validate_inputs(assets: Iterable[dg.AssetsDefinition], known: Collection[dg.AssetKey]) -> None:
    """Refuse a mart, a table from tables or a SQL table with an input that no asset makes.

    The asset would wait for that input for ever. ``known`` are the project's assets.

    :raises ValueError: names the asset, the input, and the existing inputs.
    """
    kinds = {LAKE_PREFIX: "table", MART_PREFIX: "mart"}
    for asset in assets:
        for key, needed in asset.asset_deps.items():
            missing = (
                sorted(one for one in needed - set(known) if one.path[0] in kinds)
                if key.path[0] in BUILT_ANEW
                else []
            )
            for one in missing:
                kind = kinds[one.path[0]]
                there = (
                    ", ".join(
                        sorted(other.path[-1] for other in known if other.path[0] == one.path[0])
                    )
                    or "none"
                )
                raise ValueError(
                    f"{key.to_user_string()} reads the {kind} {one.path[-1]}, which no asset of the"
                    f" project makes; {kind}s that one makes: {there}. Where it comes from"
                    f" elsewhere, say so in a module: NAME = dg.AssetSpec({one.path})"
                )


def described(prose: str, sql: str) -> str:
    """Return ``prose``, followed by the SQL with its indentation."""
    return f"{cleandoc(prose)}\n\n```sql\n{cleandoc(sql)}\n```"


def _built(warehouse: Warehouse, name: str, sql: str) -> dg.MaterializeResult[None]:
    try:
        build = warehouse.build(name, sql)
        preview = warehouse.query(f'SELECT * FROM "{name}" LIMIT {PREVIEW_ROWS}')  # noqa: S608 - a validated name
    except WarehouseError as error:
        raise dg.Failure(
            description=f"the mart {name} was not built, the old one stays: {error}",
            allow_retries=False,
        ) from error
    columns = [dg.TableColumn(column, kind) for column, kind in build.columns]
    rows = [
        dg.TableRecord({key: _shown(value) for key, value in row.items()})
        for row in preview.to_pylist()
    ]
    return dg.MaterializeResult(
        asset_key=mart_key(name),
        metadata={
            "rows": build.rows,
            "dagster/row_count": build.rows,
            "bytes": build.size_bytes,
            "file": dg.MetadataValue.path(str(build.path)),
            "dagster/uri": build.path.absolute().as_uri(),
            "inputs": " ".join(f"{table}:{version}" for table, version in build.inputs.items()),
            "first_rows": (
                dg.MetadataValue.table(rows, schema=dg.TableSchema(columns=columns))
                if rows
                else "none"
            ),
            "dagster/column_schema": dg.TableSchema(columns=columns),
        },
    )


def _shown(value: object) -> str | int | float | bool | None:
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
