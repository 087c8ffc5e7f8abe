"""A replay of the dead letters of a transform to a topic: records that fit now are sent once.

A record that was sent to a topic cannot be withdrawn, so sent records are not sent again. Only
rejected records are read once more, at their places in the source, with their fixes if there are
any. Their rows are sent in one transaction with the group's offsets, which do not change. The note
of the offsets names the attempt that ends the dead letters (``orchestration.dead_letters.table``).
So the records stop being dead letters in the moment in which readers of committed records find the
rows. A killed replay has sent nothing, or finds nothing left to send. A record that still does not
fit is a dead letter again, with its new reason. If one transaction, or the byte limit of a run, is
not enough, the records are replayed in parts, each exact by itself. Knows no Dagster.

Invariant: a dead letter leaves the table of dead letters in the transaction that sends its rows. If
neither the log nor an archive holds its record, the dead letter stays.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.places import removed_note
from orchestration.dead_letters.table import DeadLetters, Origin
from orchestration.lake.tables import CommitConflictError, TableSnapshot
from orchestration.offsets.planning import Checkpoint, ProgressError
from orchestration.offsets.ranges import (
    OffsetRange,
    OffsetRanges,
    Places,
    places_within,
    ranges_of_offsets,
)
from orchestration.retained.readable_records import HeldTopic, held_topic
from orchestration.transforms.batch.batch import ComputedBatch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.ledger import ledger
from orchestration.transforms.ledger.progress import Progress, Route, note_of, offsets_to_commit
from orchestration.transforms.replay.pieces import pieces, read_held, rest_of
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.run.context import RunContext, TopicRunResult, TopicState
from orchestration.transforms.run.steps import (
    attempted,
    checked_result,
    dead_letter_rows,
    letters_that_stay,
)
from orchestration.transforms.to_topic import outgoing
from orchestration.transforms.to_topic.declarations import TopicTransform, why_only_dead_letters
from orchestration.transforms.to_topic.run import (
    Sending,
    computed_batch,
    described_route,
    followed_ledger,
    sent_counts,
    validate_unmoved,
)

MAX_RANGES = 50
"""Most ranges per partition.

If more are needed, records between dead letters are read, too, and left out.
"""


def planned_letters(
    transform: TopicTransform, context: RunContext, request: ReplayRequest
) -> tuple[OffsetRanges, int]:
    """Return ranges that cover the dead letters of ``request``, and the number of dead letters.

    It writes nothing.

    :raises ProgressError: other records than dead letters are requested.
    :raises NotReadyError: there is no such topic.
    """
    if request.is_everything or request.from_ms is not None or request.to_ms is not None:
        raise ProgressError(why_only_dead_letters(transform))
    topic = context.log.describe_topic(transform.source.name)
    if topic is None:
        raise NotReadyError(
            f"there is no topic {transform.source.name}: there is nothing to replay"
        )
    found = DeadLetters(context.lake).places(transform.name, topic.topic_id)
    if not request.is_of_dead_letters:
        found = places_within(found, request.ranges)
    log = context.log.partition_offsets(transform.source.name)
    kept = _held_places(
        found, held_topic(topic.topic, topic.topic_id, context.log, log, context.lake)
    )
    gone = _count(found) - _count(kept)
    if gone:
        context.reporter.note(removed_note(gone, transform.name))
    return _covering(topic.topic, topic.topic_id, kept), _count(kept)


def run_letters_replay(
    work: Sending, table: TopicTable, context: RunContext, request: ReplayRequest
) -> Iterator[TopicRunResult]:
    """Replay the dead letters of ``request`` and yield the result of each part.

    If a check forbids to send a part, that part is the last. A range of the request selects the
    dead letters in it. ``table`` is the transform's own.

    :raises SenderFencedError: another run took over. Dead letters that were not sent yet stay as
        they were.
    :raises ProgressError: as ``planned_letters``, or the group's offsets are gone.
    :raises CommitConflictError: in every attempt somebody changed the group's offsets.
    """
    ranges, count = planned_letters(work.transform, context, request)
    if not count:
        context.reporter.note(f"{table.name} has no dead letters there: there is nothing to replay")
        return
    context.reporter.pin("replay", ranges)
    for piece in pieces(ranges, table.records_per_run or context.records_per_run):
        yield from _replayed(work, table, context, piece)


def _replayed(
    work: Sending, table: TopicTable, context: RunContext, piece: OffsetRanges
) -> Iterator[TopicRunResult]:
    """Replay the dead letters in ``piece``, a transaction at a time."""
    left = piece
    while not left.is_empty:
        wanted = left
        result = attempted(context, lambda: _attempt(work, table, context, wanted))  # noqa: B023 - called before the next turn
        if result is None:
            return
        yield result
        if result.failures:
            return
        left = rest_of(left, result.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The state at the beginning of an attempt.

    ``letters`` is the snapshot of the dead letters, loaded before the group was read. ``places``
    are those of the dead letters that are replayed.
    """

    letters: TableSnapshot
    route: Route
    account: TableSnapshot
    progress: Progress
    state: TopicState
    held: HeldTopic
    places: Places

    @property
    def ranges(self) -> OffsetRanges:
        return _covering(self.route.source.topic, self.route.source.topic_id, self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The content of one transaction.

    It has the rows (``outgoing.OUTGOING``), the ranges whose dead letters it ends, and the dead
    letters that are left afterwards.
    """

    rows: pa.Table
    ranges: OffsetRanges
    letters: pa.Table


def _attempt(
    work: Sending, table: TopicTable, context: RunContext, within: OffsetRanges
) -> TopicRunResult | None:
    start = _started(work, table, context, within)
    if not start.places:
        return None
    fixes = Fixes(context.lake).of(table.name, start.state.topic_id)
    source = read_held(
        table, context, start.held, start.ranges, fixes=fixes, places=start.places, is_whole=False
    )
    try:
        computed, rows = computed_batch(work, table, context, source, forgiven=start.places)
        result = checked_result(table, context, source, start.state, computed)
        if result.failures:
            return replace(result, kind="replay")
        origin = _origin(table.name, context, start)
        rejected = dead_letter_rows(origin, source, computed.rejections, context.now())
        staying = letters_that_stay(origin, context, source, source.ranges)
    finally:
        source.release()
    ends = outgoing.cut(rows, source.ranges, work.transaction_bytes)[0].ends
    part = _Part(
        rows=_until(rows, ends),
        ranges=_before(source.ranges, ends),
        letters=_until(pa.concat_tables([rejected, staying]), ends),
    )
    account = _settle(work, context, start, part)
    return replace(
        result,
        kind="replay",
        ranges=part.ranges,
        version=account.version,
        statistics=replace(
            source.statistics, records=_count(places_within(start.places, part.ranges))
        ),
        batch=_batch_until(computed, ends),
        letters=_until(rejected, ends),
        sent=sent_counts(start.route, part.rows, 1),
    )


def _started(work: Sending, table: TopicTable, context: RunContext, within: OffsetRanges) -> _Start:
    letters = DeadLetters(context.lake)
    snapshot = letters.snapshot()
    route = described_route(work, context)
    if route.source.topic_id != within.topic_id:
        raise NotReadyError(
            f"the topic {route.source.topic} was made anew while dead letters of {table.name} were"
            " replayed"
        )
    log = context.log.partition_offsets(route.source.topic)
    account, progress = followed_ledger(work, context, route, [one.partition for one in log])
    state = TopicState(
        topic_id=route.source.topic_id, log=log, snapshot=account, committed=progress.checkpoints
    )
    found = places_within(letters.places(table.name, state.topic_id), within)
    held = held_topic(route.source.topic, route.source.topic_id, context.log, log, context.lake)
    places = _held_places(_committed(found, progress.checkpoints), held)
    return _Start(
        letters=snapshot,
        route=route,
        account=account,
        progress=progress,
        state=state,
        held=held,
        places=places,
    )


def _settle(work: Sending, context: RunContext, start: _Start, part: _Part) -> TableSnapshot:
    """Send the rows and end their dead letters in one transaction. Return the ledger afterwards."""
    route, progress, letters = start.route, start.progress, DeadLetters(context.lake)
    origin = _origin(work.transform.name, context, start)
    validate_unmoved(work, context, route, [one.partition for one in start.state.log], progress)
    attempt = letters.begin_replay(
        letters.cleaned(start.letters, origin, start.account), origin, part.ranges, part.letters
    )
    after = replace(progress, letters=progress.letters if attempt is None else attempt)
    account = ledger.open_ledger(context.lake, work.transform.name, "")
    work.sender.send(
        route.target.topic,
        outgoing.outgoing_records(part.rows),
        group_id=route.group_id,
        source=route.source.topic,
        offsets=offsets_to_commit(after.checkpoints, note_of(route, after.letters, context.run_id)),
    )
    counts = Counter(part.rows["_partition"].to_pylist())
    entry = ledger.Entry(
        before=after.checkpoints,
        records=counts,
        run_id=context.run_id,
        at=context.now(),
        replayed=_spans(part.ranges),
    )
    try:
        account = ledger.write(account, route, after, entry)
    except CommitConflictError:  # maintenance, or an older run that is fenced, committed
        account, _ = followed_ledger(work, context, route, list(after.checkpoints))
    if attempt is not None:
        letters.settle_replay(origin, part.ranges, attempt)
    return account


def _origin(name: str, context: RunContext, start: _Start) -> Origin:
    return Origin(
        target=name,
        topic=start.route.source.topic,
        topic_id=start.state.topic_id,
        run_id=context.run_id,
    )


def _held_places(places: Places, held: HeldTopic) -> dict[int, list[int]]:
    return places_within(places, [part for found in held.ranges.values() for part in found])


def _committed(places: Places, checkpoints: Mapping[int, Checkpoint]) -> dict[int, list[int]]:
    """Return the places whose offsets the group has committed.

    A run is going to read the others anyway.
    """
    return places_within(
        places,
        [
            OffsetRange(partition=number, start=0, end=one.next_offset)
            for number, one in checkpoints.items()
        ],
    )


def _count(places: Places) -> int:
    return sum(map(len, places.values()))


def _covering(topic: str, topic_id: str, places: Places) -> OffsetRanges:
    ranges = [
        one
        for partition in sorted(places)
        for one in ranges_of_offsets(partition, places[partition], MAX_RANGES)
    ]
    return OffsetRanges(topic=topic, topic_id=topic_id, ranges=tuple(ranges))


def _spans(ranges: OffsetRanges) -> list[OffsetRange]:
    """Return one range per partition that spans all of its ranges."""
    return list(ranges.spanning(ranges))


def _before(ranges: OffsetRanges, ends: Mapping[int, int]) -> OffsetRanges:
    cut = (
        replace(one, end=max(one.start, min(one.end, ends.get(one.partition, 0)))) for one in ranges
    )
    return replace(ranges, ranges=tuple(cut)).without_empty()


def _until(rows: pa.Table, ends: Mapping[int, int]) -> pa.Table:
    """Return the rows that came from offsets before ``ends``."""
    partitions, offsets = rows["_partition"].to_numpy(), rows["_offset"].to_numpy()
    is_done = np.zeros(rows.num_rows, np.bool_)
    for partition, end in ends.items():
        is_done |= (partitions == partition) & (offsets < end)
    return rows.filter(pa.array(is_done))


def _batch_until(batch: ComputedBatch, ends: Mapping[int, int]) -> ComputedBatch:
    rejections = tuple(one for one in batch.rejections if one.offset < ends.get(one.partition, 0))
    return replace(batch, rows=_until(batch.rows, ends), rejections=rejections)
