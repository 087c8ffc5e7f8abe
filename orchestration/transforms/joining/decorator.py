"""The decorator ``@spark_join``: a function over pairs of records becomes a lake table.

The function takes and returns a DataFrame. The table is a Dagster asset.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

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
    """Make a lake table of a function over pairs of records of two topics.

    A pair has equal ``on`` fields and near event times. ``on`` names fields that both schemas have,
    or maps a field of the left to one of the right (``{"id": "order_id"}``). A right record belongs
    to a left one if its event time is at most ``within`` earlier or later. ``within=(before,
    after)`` gives each bound. The function gets a row per pair. It holds the key columns, by the
    left's names, then ``left`` and ``right``, structs of each topic's fields with ``_partition,
    _offset, _timestamp`` (with ``has_headers`` also ``_headers``), and ``_left`` and ``_right``,
    the places of the records, which the function has to return.

    ``event_time`` names a TIMESTAMP field of each side, by default the record's time. ``how`` is
    "inner", "left", "right" or "full". An outer join gives a row with nulls once no partner can
    come.

    The watermark is the lesser of both sides' greatest event time, less ``lateness``. Records below
    the watermark of the last commit are dead letters of the rule ``late``. Rows that may still find
    a partner are kept beside the table, at most ``state_rows`` of them. A record whose event time
    is more than ``ahead`` (None: no bound) after its own time is a dead letter of ``event_time``.
    An idle topic holds back the watermark, with ``idle_after`` only for that time.

    Rows, offsets, kept rows and watermark are one commit. ``records_per_run`` counts for each
    topic. Rules (warn and fail) and suite see the function's rows. ``max_failed`` is refused.

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

    def declare(function: Transform) -> dg.AssetsDefinition:
        validate_no_max_failed(name or function.__name__, max_failed)
        declared = JoinedTable(
            name=name or function.__name__,
            left=left,
            right=right,
            function=function,
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
        return joined_table_asset(declared, shown)

    return declare
