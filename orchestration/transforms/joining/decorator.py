"""The decorator ``@spark_join``: a function over pairs of records becomes a lake table.

The function takes and returns a DataFrame. The table is a Dagster asset.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import dagster as dg

from orchestration.quality import Rule, Suite
from orchestration.rows.joins import RECORD_TIME, How
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.dagster_views.assets import Presentation
from orchestration.transforms.declarations import NO_SUITE, Transform, rules_of
from orchestration.transforms.joining.assets import joined_table_asset
from orchestration.transforms.joining.declarations import (
    DEFAULT_AHEAD,
    DEFAULT_STATE_ROWS,
    JoinedTable,
    shape_of,
    validate_no_max_failed,
)


def spark_join(
    *,
    left: TopicSpec,
    right: TopicSpec,
    on: str | Sequence[str] | Mapping[str, str],
    within: timedelta | tuple[timedelta, timedelta],
    lateness: timedelta,
    event_time: tuple[str, str] = (RECORD_TIME, RECORD_TIME),
    how: How = "inner",
    idle_after: timedelta | None = None,
    ahead: timedelta | None = DEFAULT_AHEAD,
    name: str | None = None,
    rules: Rule | Sequence[Rule] = (),
    suite: Suite = NO_SUITE,
    minimum_interval_s: int | None = None,
    records_per_run: int | None = None,
    state_rows: int = DEFAULT_STATE_ROWS,
    has_headers: bool = False,
    max_failed: float | None = None,
    group_name: str = "lake",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Turn a function over pairs of records of two topics into a lake table.

    ``on`` names equal fields, or maps a field of the left to one of the right (``{"id":
    "order_id"}``). A right record belongs to a left one if its event time is at most ``within``
    earlier or later, or ``within=(before, after)``. The function gets a row per pair: keys by the
    left's names, structs ``left`` and ``right`` of fields with ``_partition, _offset, _timestamp``
    (``has_headers``: ``_headers``), and places ``_left`` and ``_right``, which it has to return.

    ``event_time`` names a TIMESTAMP field of each side, by default the record's time. ``how`` is
    "inner", "left", "right" or "full". Outer joins give rows with nulls once no partner can come.

    The watermark is the lesser of both sides' greatest event time, less ``lateness``. Records below
    the watermark of the last commit are dead letters of the rule ``late``. Rows that may still find
    a partner are kept beside the table, at most ``state_rows`` of them. A record whose event time
    is more than ``ahead`` (None: no bound) after its own time is a dead letter of ``event_time``.
    A topic without new records holds back the watermark, but with ``idle_after`` only so long.
    Rows, offsets, kept rows and watermark are one commit. ``records_per_run`` is for each topic.
    Rules (warn, fail) and suite see the function's rows. ``max_failed`` is refused.
    :raises ValueError: the declaration makes no sense. The text says why.
    """
    shape = shape_of(
        on=on,
        event_time=event_time,
        within=within,
        lateness=lateness,
        how=how,
        idle_after=idle_after,
        ahead=ahead,
    )
    build = partial(
        JoinedTable,
        left=left,
        right=right,
        shape=shape,
        rules=rules_of(rules),
        suite=suite,
        minimum_interval_s=minimum_interval_s,
        records_per_run=records_per_run,
        state_rows=state_rows,
        has_headers=has_headers,
    )
    shown = Presentation(
        group_name=group_name, tags=tags, owners=owners, freshness_policy=freshness_policy
    )
    return partial(_declared, name, max_failed, build, shown)


def _declared(
    name: str | None,
    max_failed: float | None,
    build: Callable[..., JoinedTable],
    shown: Presentation,
    function: Transform,
) -> dg.AssetsDefinition:
    """Return the asset of a function. ``build`` makes its declaration from name and function."""
    table = name or function.__name__
    validate_no_max_failed(table, max_failed)
    return joined_table_asset(build(name=table, function=function), shown)
