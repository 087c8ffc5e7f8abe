"""A replay of a join: all committed records in logs or archives are joined once more.

A join is replayed whole, because the partners of a range may be anywhere in the other topic. No
record is late in a replay, so a record that was late meets its partners. Rows of records that
neither log nor archive holds are kept, and the replay names these records. All other rows are
replaced, together with the dead letters of both topics and the rows that wait for a partner, in one
commit that moves no checkpoint. Knows no Dagster. Both topics are in the memory of the run at once.
Invariant: a pair of records that are both readable appears once if they belong together, else not
at all.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orchestration.dead_letters.fixes import FixedReader, Fixes
from orchestration.dead_letters.table import DeadLetters, naming
from orchestration.lake.schemas import conform
from orchestration.lake.tables import TableSnapshot
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRanges
from orchestration.retained.readable_records import HeldTopic, held_topic
from orchestration.rows.join_state import JoinState, fitted, read_state, validate_joined
from orchestration.rows.joins import MATCHED, OTHER, PLACE, PLACES, SIDES, Flags, JoinStep, Side
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.joining.declarations import JoinedTable, why_only_everything
from orchestration.transforms.joining.run import (
    JoinBatch,
    JoinRunResult,
    JoinStart,
    SideResult,
    cleaned_letters,
    commit_join,
    compute,
    origin_of,
    validate_unmoved,
)
from orchestration.transforms.replay.lost_records import decide_lost, lost_sentence
from orchestration.transforms.replay.plan import ReplayRequest, everything_of, record_counts
from orchestration.transforms.replay.steps import Replayed
from orchestration.transforms.run.context import RunContext, TopicState
from orchestration.transforms.run.steps import attempted, topic_state

Ranges = Mapping[Side, OffsetRanges]


def run_join_replay(
    table: JoinedTable, context: RunContext, request: ReplayRequest
) -> JoinRunResult:
    """Join everything once more.

    :raises ProgressError: less than everything is requested.
    :raises NotReadyError: there is nothing to replay.
    :raises CommitConflictError: in every attempt another writer was faster.
    """
    if not request.is_everything:
        raise ProgressError(why_only_everything(table.name))
    result = attempted(context, lambda: _attempt(table, context))
    if lost := lost_of(result.sides):
        context.reporter.note(f"the replay of {table.name} is not whole: {lost}")
    return result


def planned_replay(
    table: JoinedTable, context: RunContext, snapshot: TableSnapshot | None = None
) -> dict[Side, SideResult]:
    """Return the ranges that a replay of ``table`` would read from each of its topics.

    They are the committed offsets whose records the topic's log or archive still holds. ``lost``
    of a result describes the other committed offsets.

    :raises NotReadyError: the table does not exist yet.
    """
    snapshot = snapshot or context.lake.snapshot(table.name)
    if snapshot is None:
        raise NotReadyError(
            f"the table {table.name} does not exist yet: there is nothing to replay"
        )
    sides = {}
    for side in SIDES:
        topic = table.topic(side).name
        state = topic_state(topic, context, snapshot)
        held = held_side(context, topic, state)
        ranges = OffsetRanges(
            topic=topic,
            topic_id=state.topic_id,
            ranges=tuple(everything_of(held.ranges, state.committed)),
        )
        lost = lost_sentence(
            decide_lost(held.ranges, state.committed, None), held, is_of_time=False
        )
        archived_count = held.archived_count(ranges)
        sides[side] = SideResult(
            topic=topic,
            state=state,
            ranges=ranges,
            backlog=0,
            lost=lost,
            archived_count=archived_count,
        )
    return sides


def planned_metadata(sides: Mapping[Side, SideResult]) -> dict[str, str | int]:
    """Return the plan as labelled metadata, for a dry run."""
    ranges = [one.ranges for one in sides.values() if not one.ranges.is_empty]
    return {
        "offsets": " ".join(f"{one.topic} {one}" for one in ranges) or "none",
        "offset_count": sum(one.count for one in ranges),
        **record_counts(lost_of(sides), archived_count_of(sides)),
    }


def lost_of(sides: Mapping[Side, SideResult]) -> str:
    """Return a text on the records of both topics that neither log nor archive holds.

    It is empty if nothing is missing.
    """
    return "; ".join(one.lost for one in sides.values() if one.lost)


def archived_count_of(sides: Mapping[Side, SideResult]) -> int:
    """Return how many offsets of both topics are read from archives."""
    return sum(one.archived_count for one in sides.values())


def held_side(context: RunContext, topic: str, state: TopicState) -> HeldTopic:
    """Return the ranges of one topic that archive and log hold."""
    return held_topic(topic, state.topic_id, context.log, state.log, context.lake)


def summed(result: JoinRunResult) -> Replayed:
    """Return the totals of a replay."""
    sides = result.sides.values()
    if result.version is None or result.rows is None:
        return Replayed()
    return Replayed(
        ranges=[one.ranges for one in sides if one.ranges.ranges],
        records=sum(one.statistics.records for one in sides if one.statistics is not None),
        rows=result.rows.num_rows,
        dead_letters=sum(len(one.rejections) for one in sides),
        commits=1,
        lost=lost_of(result.sides),
        archived_count=archived_count_of(result.sides),
    )


def _attempt(table: JoinedTable, context: RunContext) -> JoinRunResult:
    letters = DeadLetters(context.lake).snapshot()
    snapshot = context.lake.existing(table.name)
    validate_joined(snapshot, table.declared)
    held = read_state(snapshot)
    if held is None:
        raise NotReadyError(
            f"nothing was committed to the table {table.name} yet: there is nothing to replay"
        )
    sides = planned_replay(table, context, snapshot)
    ranges = {side: one.ranges for side, one in sides.items()}
    for one in ranges.values():
        context.reporter.pin("replay", one)
    before = snapshot.dataset().to_table()
    staying = before.filter(
        pa.array(~(_is_within(before, "left", ranges) & _is_within(before, "right", ranges)))
    )
    fixes = Fixes(context.lake)
    held_sides = {side: held_side(context, one.topic, one.state) for side, one in sides.items()}
    readers = {
        side: FixedReader(held_sides[side].reader, fixes.of(table.name, one.topic_id))
        for side, one in ranges.items()
    }
    amended = partial(_beside, held, staying, ranges, table.name)
    start = JoinStart(
        letters=letters, table=snapshot, held=held, sides=sides, readers=readers, amended=amended
    )
    batch = compute(table, context, start)
    return batch.result if batch.result.failures else _commit(table, context, start, batch, staying)


def _commit(
    table: JoinedTable, context: RunContext, start: JoinStart, batch: JoinBatch, staying: pa.Table
) -> JoinRunResult:
    """Commit the new dead letters beside those that they replace, then replace the table's rows.

    The commit of the rows decides which dead letters count.
    """
    sides, target = batch.result.sides, start.table
    assert target is not None
    rows, _ = conform(batch.rows, table.name, target.arrow_schema)
    validate_unmoved(table, context, sides, target)
    letters = DeadLetters(context.lake)
    origins = {side: origin_of(table, context, one) for side, one in sides.items()}
    letters_snapshot = cleaned_letters(letters, start.letters, origins, target)
    attempts = {
        side: letters.begin_replay(
            letters_snapshot,
            origins[side],
            one.ranges,
            pa.concat_tables([batch.rejected[side], batch.staying[side]]),
        )
        for side, one in sides.items()
    }
    transactions: dict[str, int] = {}
    for side, one in sides.items():
        transactions |= naming(one.state.topic_id, attempts[side])
    whole = pa.concat_tables([staying.cast(rows.schema), rows])
    notes = {
        "replay": " ".join(f"{one.topic} {one.ranges}" for one in sides.values()),
        "run_id": context.run_id,
    }
    after, held_bytes = commit_join(
        target, whole, batch.held, transactions, notes, mode="overwrite"
    )
    for side, one in sides.items():
        attempt = attempts[side]
        if attempt is not None:
            letters.settle_replay(origins[side], one.ranges, attempt)
    return replace(
        batch.result,
        kind="replay",
        version=after.version,
        row_count=after.row_count,
        letters=pa.concat_tables(list(batch.rejected.values())),
        held=batch.held,
        held_bytes=held_bytes,
    )


def _beside(
    held: JoinState, staying: pa.Table, ranges: Ranges, name: str, step: JoinStep
) -> JoinStep:
    """Amend the joined rows by ``staying``, rows of records that log and archive no longer hold.

    A joined row without partner is dropped if its record has a partner in ``staying``. Rows of
    unreadable records that wait for a partner keep waiting.
    """
    rows, kept = step.rows, {}
    for side in SIDES:
        partnered = _keys(staying, side)
        is_alone = rows[PLACES[OTHER[side]]].is_null().to_numpy(zero_copy_only=False)
        rows = rows.filter(pa.array(~(is_alone & _is_among(_keys(rows, side), partnered))))
        mine = step.kept[side]
        flags = mine[MATCHED].to_numpy(zero_copy_only=False) | _is_among(
            _keys_of(*(mine[column] for column in PLACE)), partnered
        )
        mine = mine.set_column(mine.schema.get_field_index(MATCHED), MATCHED, pa.array(flags))
        older = fitted(
            held.kept[side], mine.schema.remove(mine.schema.get_field_index(MATCHED)), name
        )
        is_gone = ~_is_inside(ranges[side], *(older[column] for column in PLACE))
        kept[side] = pa.concat_tables(
            [older.filter(pa.array(is_gone)).select(mine.column_names), mine]
        )
    return replace(step, rows=rows, kept=kept)


def _is_within(rows: pa.Table, side: Side, ranges: Ranges) -> Flags:
    """Return which rows have a record of ``side`` in its ranges, or no record of that side."""
    places = rows[PLACES[side]]
    is_nobody = np.asarray(places.is_null().to_numpy(zero_copy_only=False), np.bool_)
    return is_nobody | _is_inside(ranges[side], *_fields(places))


def _is_inside(
    ranges: OffsetRanges,
    topic_ids: pa.ChunkedArray,
    partitions: pa.ChunkedArray,
    offsets: pa.ChunkedArray,
) -> Flags:
    found = np.zeros(len(offsets), np.bool_)
    numbers, places = (
        np.asarray(pc.fill_null(column, -1).to_numpy(), np.int64)
        for column in (partitions, offsets)
    )
    for one in ranges:
        found |= (numbers == one.partition) & (places >= one.start) & (places < one.end)
    return found & np.asarray(
        pc.fill_null(pc.equal(topic_ids, ranges.topic_id), False).to_numpy(), np.bool_
    )


def _is_among(keys: pa.ChunkedArray, others: pa.ChunkedArray) -> Flags:
    return np.asarray(
        pc.is_in(keys, value_set=others, skip_nulls=True).to_numpy(zero_copy_only=False), np.bool_
    )


def _keys(rows: pa.Table, side: Side) -> pa.ChunkedArray:
    """Return the places of one side as texts.

    A place is null if there is no record of that side.
    """
    return _keys_of(*_fields(rows[PLACES[side]]))


def _keys_of(
    topic_ids: pa.ChunkedArray, partitions: pa.ChunkedArray, offsets: pa.ChunkedArray
) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(
        topic_ids, partitions.cast(pa.string()), offsets.cast(pa.string()), "/"
    )


def _fields(places: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    return [pc.struct_field(places, name) for name in ("topic_id", "partition", "offset")]
