"""Assets of tables that follow topics: their specs, and the events of their commits.

A run with nothing new materializes nothing. A commit is a materialization, then its checks. If a
batch must not be committed, there are only its checks. The run fails then, and no retry policy
repeats it.
"""

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.days import NewDays
from orchestration.transforms.dagster_views.dead_letters import rejection_events
from orchestration.transforms.dagster_views.reporting import (
    DagsterReporter,
    Event,
    mirror,
    topic_events,
    with_verdicts,
)
from orchestration.transforms.declarations import TopicTable, Transform
from orchestration.transforms.run.context import RunContext, TopicRunResult

TABLE_KINDS = frozenset({"pyspark", "deltalake"})
COLUMNS_METADATA = "tidelog/columns"
"""The label of a lake table's columns in its asset's metadata, if the declaration names them."""


class ReplayRangeConfig(dg.Config):
    """Offsets [start, end) of one partition."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """The texts and groups with which an asset appears in Dagster."""

    group_name: str
    tags: Mapping[str, str] | None
    owners: Sequence[str] | None
    freshness_policy: dg.FreshnessPolicy | None


def commit_events(
    context: dg.AssetExecutionContext,
    table: TopicTable,
    run: RunContext,
    reporter: DagsterReporter,
    results: Iterable[TopicRunResult],
    *,
    has_days: bool = False,
) -> Iterator[Event | dg.AssetCheckEvaluation | dg.AssetMaterialization]:
    """Yield the events of each commit as it is made.

    Events of the first commit are outputs and checks of the step. Those of later commits are plain
    events. With ``has_days`` the table has an asset with its days, which are reported, too.
    """
    days = NewDays(context.instance, table)
    for number, result in enumerate(results):
        if result.version is not None:
            reporter.committed(result.ranges)
            mirror(context, table, run, result)
            if has_days and result.statistics is not None:
                days.add(result.statistics.days, run.now())
        outcomes = selected(context, topic_events(context, table, result))
        shown = outcomes if number == 0 else events.plain_events(context.instance, outcomes)
        yield from with_verdicts(context, run, table.name, [table.topic], shown)
        yield from rejection_events(table.name, result.letters)


def asset_spec(
    key: dg.AssetKey,
    deps: Sequence[dg.AssetKey],
    function: Transform,
    shown: Presentation,
    *,
    kinds: Collection[str] = TABLE_KINDS,
    **more: Any,
) -> dg.AssetSpec:
    """Return the spec of a table's asset.

    A run with nothing new yields neither materialization nor checks. So the asset is skippable, and
    its checks may be left out.
    """
    return dg.AssetSpec(
        key,
        deps=deps,
        description=inspect.getdoc(function),
        kinds=set(kinds),
        group_name=shown.group_name,
        tags=shown.tags,
        owners=shown.owners,
        freshness_policy=shown.freshness_policy,
        skippable=True,
        **more,
    )


def declared_columns(columns: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the metadata with the columns of a lake table. It is empty if they are not known."""
    return {} if columns is None else {COLUMNS_METADATA: list(columns)}


def is_asset_selected(context: dg.AssetExecutionContext, name: str) -> bool:
    """Return whether the run computes the table.

    A run of checks alone has nothing to do, and its log says so.
    """
    if context.selected_asset_keys:
        return True
    context.log.info(
        "the checks of %s are evaluated before each of its commits; there is nothing to do"
        " without one",
        name,
    )
    return False


def selected(context: dg.AssetExecutionContext, made: Iterator[Event]) -> Iterator[Event]:
    """Yield the events ``made``, without checks that the run's selection leaves out."""
    for event in made:
        if (
            isinstance(event, dg.MaterializeResult)
            or dg.AssetCheckKey(_key_of(event), event.check_name or "")
            in context.selected_asset_check_keys
        ):
            yield event


def _key_of(result: dg.AssetCheckResult) -> dg.AssetKey:
    assert result.asset_key is not None
    return result.asset_key
