"""Events and reports of a join's run, for Dagster.

They hold rows, offsets of both topics, the watermark, and counts of kept rows and late records.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from orchestration.offsets.ranges import OffsetRanges, table_of_offsets
from orchestration.rows.joins import LATE_RULE, LEFT, RIGHT, SIDES, Side
from orchestration.transforms.dagster_views import events
from orchestration.transforms.dagster_views.reporting import (
    Context,
    Event,
    raise_failures,
    run_tags,
)
from orchestration.transforms.declarations import table_key
from orchestration.transforms.joining.declarations import JoinedTable
from orchestration.transforms.joining.run import JoinRunResult

OFFSETS_SCHEMA = dg.TableSchema(
    columns=[
        dg.TableColumn("topic", "string"),
        *(dg.TableColumn(name, "int") for name in events.OFFSET_COLUMNS),
    ]
)


class JoinReporter:
    """Reports the progress of a run in its log and tags, for both topics."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._name = name
        self._pinned: dict[str, OffsetRanges] = {}

    def note(self, sentence: str) -> None:
        """Log a sentence for a person as a warning."""
        self._context.log.warning(sentence)

    def pin(self, kind: str, ranges: OffsetRanges) -> None:
        """Write the table's name, the topic and its ranges into the run's log and tags.

        The tag of a run with several batches has the span of all of them.
        """
        known = self._pinned.get(ranges.topic)
        self._pinned[ranges.topic] = ranges if known is None else known.spanning(ranges)
        self._context.log.info(
            "%s: %s of topic %s (id %s), offsets %s",
            self._name,
            kind,
            ranges.topic,
            ranges.topic_id,
            ranges,
        )
        topics, span = (
            " ".join(sorted(self._pinned)),
            " ".join(f"{topic} {one}" for topic, one in sorted(self._pinned.items())),
        )
        self._context.instance.add_run_tags(
            self._context.run.run_id, run_tags(self._name, topics, kind, span)
        )


def join_events(context: Context, table: JoinedTable, result: JoinRunResult) -> Iterator[Event]:
    """Yield the materialization and then the checks of a batch.

    :raises Failure: the batch must not be committed, and was not. Its checks were yielded.
    """
    key = table_key(table.name)
    if result.rows is None:
        left, right = result.sides[LEFT].state, result.sides[RIGHT].state
        if events.is_announced(
            context.instance, key, left.topic_id, left.committed, {right.topic_id: right.committed}
        ):
            context.log.info(
                "%s: nothing new in the topics %s and %s",
                table.name,
                table.left.name,
                table.right.name,
            )
        else:
            context.log.info(
                "%s: an earlier run committed and could not tell; telling now", table.name
            )
            yield recovered_join(key, result)
        return
    checks = events.check_results(key, table.rules, result.violations or {}, result.outcomes)
    if result.failures:
        yield from checks
        ranges = " and ".join(
            f"offsets {one.ranges} of topic {one.topic}" for one in result.sides.values()
        )
        raise_failures(table.name, result.failures, ranges)
    yield join_materialization(key, result, datetime.now(UTC))
    yield from checks


def join_materialization(
    key: dg.AssetKey, result: JoinRunResult, now: datetime
) -> dg.MaterializeResult[None]:
    """Return the event of a committed batch."""
    assert result.rows is not None
    assert result.held is not None
    watermark = result.held.clock.watermark
    lags = {side: lag_of(result, side) for side in SIDES}
    newest = [
        one.statistics.newest_timestamp_ms
        for one in result.sides.values()
        if one.statistics is not None
    ]
    rejections = [rejection for one in result.sides.values() for rejection in one.rejections]
    metadata: dict[str, Any] = {
        "rows": result.rows.num_rows,
        **({} if result.row_count is None else {"dagster/row_count": result.row_count}),
        "dagster/column_schema": events.column_schema(result.rows.schema),
        "records": sum(
            one.statistics.records for one in result.sides.values() if one.statistics is not None
        ),
        "bytes": sum(
            one.statistics.bytes for one in result.sides.values() if one.statistics is not None
        ),
        **{
            f"records_{side}": one.statistics.records
            for side, one in result.sides.items()
            if one.statistics is not None
        },
        "dead_letters": len(rejections),
        "late_records": sum(one.rule == LATE_RULE for one in rejections),
        **{f"kept_{side}": result.held.kept[side].num_rows for side in SIDES},
        "kept_bytes": result.held_bytes,
        "watermark": _time(watermark),
        **{f"newest_event_{side}": _time(result.held.clock.newest(side)) for side in SIDES},
        **(
            {}
            if watermark is None
            else {"watermark_seconds_behind": round((now - watermark).total_seconds(), 3)}
        ),
        "lag": sum(lags.values()),
        **{f"lag_{side}": lag for side, lag in lags.items()},
        "seconds_behind": events.seconds_behind(
            sum(lags.values()), max((one for one in newest if one is not None), default=None), now
        ),
        events.VERSION_METADATA: result.version,
        "kind": result.kind,
        "offsets": dg.MetadataValue.table(_offset_rows(result), schema=OFFSETS_SCHEMA),
        events.CHECKPOINT_METADATA: checkpoint_text(result),
    }
    return dg.MaterializeResult(asset_key=key, metadata=metadata)


def recovered_join(key: dg.AssetKey, result: JoinRunResult) -> dg.MaterializeResult[None]:
    """Return the event for a commit of an earlier run that was killed before it could report it."""
    snapshot = result.sides[LEFT].state.snapshot
    assert snapshot is not None
    metadata: dict[str, Any] = {
        "rows": 0,
        "lag": sum(lag_of(result, side) for side in SIDES),
        events.VERSION_METADATA: snapshot.version,
        "kind": "recovered",
        events.CHECKPOINT_METADATA: checkpoint_text(result),
    }
    return dg.MaterializeResult(asset_key=key, metadata=metadata)


def checkpoint_text(result: JoinRunResult) -> str:
    """Return the checkpoints of both topics as the text that the topic sensor compares."""
    return events.checkpoints_text(
        {one.state.topic_id: result.next_offsets(side) for side, one in result.sides.items()}
    )


def lag_of(result: JoinRunResult, side: Side) -> int:
    """Return how many offsets of one topic are not committed."""
    return events.lag_after(result.sides[side].state.log, result.next_offsets(side))


def _time(moment: datetime | None) -> dg.MetadataValue[Any]:
    return (
        dg.MetadataValue.text("none yet") if moment is None else dg.MetadataValue.timestamp(moment)
    )


def _offset_rows(result: JoinRunResult) -> list[dg.TableRecord]:
    return [
        dg.TableRecord({"topic": one.topic, **row})
        for one in result.sides.values()
        for row in table_of_offsets(one.ranges, one.state.high_watermarks)
    ]
