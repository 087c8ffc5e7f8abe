"""The decorators ``@spark_sql_table`` and ``@spark_duckdb_table``.

They turn a DataFrame function into a table of a database, which has each record's rows once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from orchestration.project.names import names_of
from orchestration.quality import Rule, Suite
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.dagster_views.assets import Presentation
from orchestration.transforms.declarations import NO_SUITE, TopicTable, Transform, rules_of
from orchestration.transforms.to_database.assets import database_table_asset
from orchestration.transforms.to_database.declarations import DatabaseTable, Engine

Declare = Callable[[Transform], dg.AssetsDefinition]


def spark_sql_table(
    *,
    topic: TopicSpec,
    key: str | Sequence[str] = (),
    deleted_when: str | None = None,
    table: str | None = None,
    name: str | None = None,
    rules: Rule | Sequence[Rule] = (),
    suite: Suite = NO_SUITE,
    minimum_interval_s: int | None = None,
    records_per_run: int | None = None,
    has_headers: bool = False,
    max_failed: float | None = None,
    group_name: str = "sql",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Declare:
    """Turn a DataFrame function over ``topic`` into a table of the SQL database.

    Rows and offsets are one transaction of the database. The function gets the same columns as that
    of a lake table (``spark_table``) and has to return ``_topic_id, _partition, _offset``, too.
    Rows are appended, unless ``key`` names columns. With ``key`` the table keeps the newest row per
    key, updated in place, and the function has to return ``_timestamp`` as well. Then a record
    without value deletes the row of its key. So does a row that meets ``deleted_when``, a condition
    in Spark SQL over the result.

    ``table`` is the table's name in the database, and ``name`` that of the asset ``lake/NAME``,
    which records the commits. Both default to the function's name. No two assets of a project keep
    the same table. The database is that of the resource ``database`` (``TIDELOG_SQL_URL``).
    ``max_failed`` is as for a table of the lake (``spark_table``).

    :raises ValueError: the declaration makes no sense. The text says why.
    """
    shown = Presentation(
        group_name=group_name, tags=tags, owners=owners, freshness_policy=freshness_policy
    )
    return _declaring(
        "sql",
        table,
        shown,
        name=name,
        topic=topic,
        latest_by=names_of(key),
        deleted_when=deleted_when,
        rules=rules_of(rules),
        suite=suite,
        minimum_interval_s=minimum_interval_s,
        records_per_run=records_per_run,
        has_headers=has_headers,
        max_failed=max_failed,
    )


def spark_duckdb_table(
    *,
    topic: TopicSpec,
    key: str | Sequence[str] = (),
    deleted_when: str | None = None,
    table: str | None = None,
    name: str | None = None,
    rules: Rule | Sequence[Rule] = (),
    suite: Suite = NO_SUITE,
    minimum_interval_s: int | None = None,
    records_per_run: int | None = None,
    has_headers: bool = False,
    max_failed: float | None = None,
    group_name: str = "warehouse",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Declare:
    """Turn a DataFrame function over ``topic`` into a table in a DuckDB file of the warehouse.

    The parameters are those of ``spark_sql_table``. Rows and offsets are in one file of their own.
    A commit copies the file, changes the copy and renames it into place. So readers never block a
    commit, and see whole commits only. This suits tables of up to some gigabytes. Queries and marts
    name the table like any other.

    :raises ValueError: the declaration makes no sense. The text says why.
    """
    shown = Presentation(
        group_name=group_name, tags=tags, owners=owners, freshness_policy=freshness_policy
    )
    return _declaring(
        "duckdb",
        table,
        shown,
        name=name,
        topic=topic,
        latest_by=names_of(key),
        deleted_when=deleted_when,
        rules=rules_of(rules),
        suite=suite,
        minimum_interval_s=minimum_interval_s,
        records_per_run=records_per_run,
        has_headers=has_headers,
        max_failed=max_failed,
    )


def _declaring(kind: Engine, table: str | None, shown: Presentation, **follower: Any) -> Declare:
    """Return a decorator that declares a table of a database of the given ``kind``.

    The function becomes the transform of the table's follower.
    """

    def declare(function: Transform) -> dg.AssetsDefinition:
        own = {**follower, "name": follower["name"] or function.__name__}
        made = TopicTable(function=function, **own)
        return database_table_asset(
            DatabaseTable(follower=made, table=table or function.__name__, kind=kind), shown
        )

    return declare
