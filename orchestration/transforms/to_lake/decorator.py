"""The decorator ``@spark_table``: a DataFrame function becomes the asset of a lake table.

Decides which of the two kinds of table is declared, and refuses arguments of the other kind. Knows
no run.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date

import dagster as dg

from orchestration.project.names import names_of
from orchestration.quality import Rule, Suite
from orchestration.rows.aggregates import Aggregate
from orchestration.topics.inputs import input_name
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.dagster_views.assets import Presentation
from orchestration.transforms.dagster_views.failures import FAILED_AGAIN_MINUTES
from orchestration.transforms.declarations import (
    DEFAULT_HISTORY_FROM,
    NO_SUITE,
    DerivedTable,
    TopicTable,
    Transform,
    one_or_more,
    rules_of,
)
from orchestration.transforms.to_lake.assets import derived_table_asset, topic_table_asset

FAILED_AGAIN_CRON = f"*/{FAILED_AGAIN_MINUTES} * * * *"
OF_TOPICS = (
    "unique_by",
    "latest_by",
    "deleted_when",
    "is_evolving",
    "minimum_interval_s",
    "records_per_run",
    "history_from",
    "has_headers",
    "max_failed",
)
"""Arguments that only tables from topics accept."""


def spark_table(
    *,
    topic: TopicSpec | None = None,
    tables: str | dg.AssetsDefinition | Sequence[str | dg.AssetsDefinition] = (),
    name: str | None = None,
    unique_by: str | Sequence[str] = (),
    latest_by: str | Sequence[str] = (),
    deleted_when: str | None = None,
    rules: Rule | Sequence[Rule] = (),
    suite: Suite = NO_SUITE,
    is_evolving: bool = False,
    minimum_interval_s: int | None = None,
    records_per_run: int | None = None,
    history_from: date | None = None,
    has_headers: bool = False,
    max_failed: float | None = None,
    is_automated: bool = True,
    group_name: str = "lake",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a DataFrame function into a lake table, from a ``topic`` or from ``tables``.

    A table from ``tables`` is computed anew when one changes. One from a topic grows batch by
    batch. Its function gets the fields of the schema with ``_topic_id, _partition, _offset,
    _timestamp, _key``, and returns at least the first three. ``has_headers`` adds ``_headers``
    (``ARRAY<STRUCT<key: STRING, value: BINARY>>``, maybe empty). ``OF_TOPICS`` and quarantine rules
    are for tables from topics, ``is_automated`` for others. ``is_evolving`` allows results with new
    columns, and without some. With ``minimum_interval_s=0`` a run follows its topic for minutes, a
    commit at a time. The backfill begins at the day ``history_from``, in record time. A table keeps
    every row, or with ``latest_by`` the newest per value of these columns. Then the function
    returns ``_timestamp``, too, and a record without value, or a row that meets ``deleted_when``
    (Spark SQL), removes the row of its key. The function may throw on ``max_failed`` records of a
    batch (a count, or a share up to 1.0). They become dead letters of the rule ``transform``.
    :raises ValueError: the declaration makes no sense. The text says why.
    """
    _validate_origin(topic, tables)
    shown = Presentation(
        group_name=group_name, tags=tags, owners=owners, freshness_policy=freshness_policy
    )

    def declare(function: Transform) -> dg.AssetsDefinition:
        table_name = name or function.__name__
        if topic is not None:
            declared = TopicTable(
                name=table_name,
                topic=topic,
                function=function,
                unique_by=names_of(unique_by),
                latest_by=names_of(latest_by),
                deleted_when=deleted_when,
                rules=rules_of(rules),
                suite=suite,
                is_evolving=is_evolving,
                minimum_interval_s=minimum_interval_s,
                records_per_run=records_per_run,
                history_from=history_from or DEFAULT_HISTORY_FROM,
                has_headers=has_headers,
                max_failed=max_failed,
            )
            return topic_table_asset(declared, shown)
        is_of_topic = bool(unique_by or latest_by or is_evolving or has_headers)
        limits = (deleted_when, minimum_interval_s, records_per_run, history_from, max_failed)
        _refuse_of_topics(table_name, limits, is_given=is_of_topic)
        derived = _derived(table_name, tables, function, rules, suite)
        condition = on_fresh_inputs() if is_automated else None
        return derived_table_asset(derived, shown, automation_condition=condition)

    return declare


def _validate_origin(topic: TopicSpec | None, tables: object) -> None:
    """Raise ValueError if a table has neither a topic nor tables, or both."""
    if (topic is None) == (not tables):
        raise ValueError(
            "a table comes either from a topic or from tables: @spark_table(topic=...) or"
            " @spark_table(tables=[...])"
        )


def _refuse_of_topics(table: str, limits: Sequence[object], *, is_given: bool) -> None:
    """Raise ValueError if a table from tables has arguments that need a topic.

    ``limits`` are such arguments, None if not given. ``is_given`` is True if another one is given.
    """
    if is_given or any(one is not None for one in limits):
        raise ValueError(f"{', '.join(OF_TOPICS)} need a topic; {table} comes from tables")


def _derived(
    name: str,
    tables: str | dg.AssetsDefinition | Sequence[str | dg.AssetsDefinition],
    function: Transform,
    rules: Rule | Sequence[Rule],
    suite: Suite,
) -> DerivedTable:
    names = tuple(input_name(f"the table {name}", one) for one in one_or_more(tables))
    return DerivedTable(
        name=name, inputs=names, function=function, rules=rules_of(rules), suite=suite
    )


def spark_aggregate(
    *,
    topic: TopicSpec,
    by: str | Sequence[str],
    aggregates: Aggregate | Sequence[Aggregate],
    name: str | None = None,
    rules: Rule | Sequence[Rule] = (),
    suite: Suite = NO_SUITE,
    minimum_interval_s: int | None = None,
    records_per_run: int | None = None,
    has_headers: bool = False,
    max_failed: float | None = None,
    group_name: str = "lake",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a DataFrame function over ``topic`` into a lake table of running aggregates.

    The table has a row per value of the columns ``by``.

    The function gets the same columns as the function of a table (``spark_table``). It returns rows
    with the columns ``by``, the aggregated columns, and ``_topic_id, _partition, _offset``.
    ``aggregates`` are made with ``count``, ``total``, ``smallest`` and ``largest`` of
    ``orchestration.rows.aggregates``. A single one may be given without a list. Each run merges its
    rows into the groups that they touch, and the offsets move in the same commit. So each record
    counts once, even if runs are killed. Rules and suite see the rows before they are aggregated.
    ``max_failed`` is as for a table.

    :raises ValueError: the declaration makes no sense. The text says why.
    """
    shown = Presentation(
        group_name=group_name, tags=tags, owners=owners, freshness_policy=freshness_policy
    )

    def declare(function: Transform) -> dg.AssetsDefinition:
        declared = TopicTable(
            name=name or function.__name__,
            topic=topic,
            function=function,
            aggregate_by=names_of(by),
            aggregates=(aggregates,) if isinstance(aggregates, Aggregate) else tuple(aggregates),
            rules=rules_of(rules),
            suite=suite,
            minimum_interval_s=minimum_interval_s,
            records_per_run=records_per_run,
            has_headers=has_headers,
            max_failed=max_failed,
        )
        return topic_table_asset(declared, shown)

    return declare


def on_fresh_inputs() -> dg.AutomationCondition[dg.AssetKey]:
    """Return the condition that starts runs of tables, marts and copies that are made of tables.

    It is true when an input changed and the blocking checks of the inputs passed.

    Runs in progress upstream do not hold it back, because under a steady stream there is always
    one. If an input changes after a run was requested, another run is requested, even if the first
    one ends later. The first one may have read the input before the change, while Dagster's own
    condition would count the end of the first run as enough. A failed run is tried again from time
    to time without a change of an input, because Spark or the disk may have caused the failure.
    """
    changed = dg.AutomationCondition.newly_missing() | dg.AutomationCondition.any_deps_updated()
    answered = (
        dg.AutomationCondition.newly_requested() & ~changed
    ) | dg.AutomationCondition.initial_evaluation()
    eager = dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_in_progress())
    eager_until_answered = eager.replace("handled", answered.with_label("handled"))
    failed = dg.AutomationCondition.execution_failed() & ~dg.AutomationCondition.in_progress()
    again = failed & dg.AutomationCondition.cron_tick_passed(FAILED_AGAIN_CRON)
    return (
        eager_until_answered & dg.AutomationCondition.all_deps_blocking_checks_passed()
    ) | again.with_label("failed and due again")
