"""The decorator ``@spark_join``: a DataFrame function over pairs of records of two topics becomes the asset of a lake table."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import dagster as dg

from orchestration.joins import RECORD_TIME, How
from orchestration.quality import Rule, Suite
from orchestration.topics import TopicSpec
from orchestration.transforms.assets import Presentation
from orchestration.transforms.declarations import NO_SUITE, Transform, rules_of
from orchestration.transforms.joining.assets import joined_table_asset
from orchestration.transforms.joining.declarations import DEFAULT_AHEAD, DEFAULT_STATE_ROWS, JoinedTable, shape_of


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
    group_name: str = "lake",
    tags: Mapping[str, str] | None = None,
    owners: Sequence[str] | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> Callable[[Transform], dg.AssetsDefinition]:
    """Make a lake table of a DataFrame function over the pairs of two topics that are equal ``on`` fields and near in event time.

    ``on`` names fields that both schemas have, or says which field of the left is which of the right (``{"id": "order_id"}``). A right
    record belongs to a left one if its event time is at most ``within`` earlier or later; ``within=(before, after)`` says each. The
    function gets a row per pair: the key columns, by the left's names, ``left`` and ``right``, structs of the fields of each topic's schema
    with ``_partition, _offset, _timestamp`` (with ``has_headers`` also ``_headers``), and ``_left`` and ``_right``, the places of the two
    records, which it has to return.

    ``event_time`` names a TIMESTAMP field of each side; the default is the time of the record. ``how`` is "inner", "left", "right" or
    "full": an outer join gives a row without partner, once none can come any more, with null in the place of the other side.

    The watermark is the lesser of both sides' greatest event time less ``lateness``. Records below the watermark that the last commit left
    are dead letters of the rule ``late``. Rows that may still find a partner are kept beside the table, at most ``state_rows`` of them.
    An event time more than ``ahead`` after the time of its record is refused, a dead letter of the rule ``event_time`` (None: none is).
    A topic that stands still holds back the watermark, unless ``idle_after`` says after how long it no longer does.

    Each run reads both topics from the checkpoint on; rows, both topics' offsets, what is kept and the watermark are one commit.
    ``records_per_run`` counts for each topic. Rules (warn and fail) and suite look at the rows that the function returns.

    :raises ValueError: the declaration makes no sense; the text says why.
    """
    shown = Presentation(group_name=group_name, tags=tags, owners=owners, freshness_policy=freshness_policy)
    shape = shape_of(on=on, event_time=event_time, within=within, lateness=lateness, how=how, idle_after=idle_after, ahead=ahead)

    def declare(function: Transform) -> dg.AssetsDefinition:
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
        return joined_table_asset(declared, shown)

    return declare
