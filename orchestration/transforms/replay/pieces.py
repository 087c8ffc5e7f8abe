"""A replay cut into pieces, and the records of a piece read from archive and log.

Decides how many offsets are replayed at a time, and whether this process or Spark's workers read
them. Writes nothing and knows no Dagster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from orchestration.dead_letters.fixes import At, ChosenReader, FixedReader
from orchestration.offsets.planning import share_limit
from orchestration.offsets.ranges import OffsetRange, OffsetRanges, Places, outside
from orchestration.retained.readable_records import HeldTopic
from orchestration.transforms.batch.batch import Batch
from orchestration.transforms.batch.reading import read_batch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.run.context import RunContext


def pieces(ranges: OffsetRanges, limit: int) -> Iterator[OffsetRanges]:
    """Cut ``ranges`` into pieces of at most ``limit`` offsets.

    Each piece has its share of every partition. A run of the table shares its limit in the same
    way, so that a piece mostly replaces whole files.
    """
    left: dict[int, list[OffsetRange]] = {}
    for one in ranges:
        left.setdefault(one.partition, []).append(one)
    while left:
        shares = share_limit(
            {partition: sum(one.count for one in kept) for partition, kept in left.items()}, limit
        )
        yield _some(
            ranges,
            [
                part
                for partition, share in shares.items()
                for part in _taken(left[partition], share)
            ],
        )
        left = {partition: kept for partition, kept in left.items() if kept}


def read_held(
    table: TopicTable,
    context: RunContext,
    held: HeldTopic,
    ranges: OffsetRanges,
    *,
    fixes: Mapping[At, bytes | None],
    places: Places | None = None,
    is_whole: bool = True,
) -> Batch:
    """Read ``ranges`` from archive and log, with the corrected values of fixed records.

    With ``places`` only the records there are read. If ``is_whole`` is False, reading stops at the
    byte limit of a run, and the batch's ranges say how far it read. If Spark's workers are on
    another machine, they cannot read files of the lake. Then this process reads archived records.
    """
    is_here = context.scratch is None and held.archived_count(ranges) > 0
    reader = FixedReader(held.reader, fixes)
    return read_batch(
        context.session(),
        reader if places is None else ChosenReader(reader, places),
        ranges,
        table.topic.fields,
        value_format=table.topic.value_format,
        arrow_records=(
            max(context.arrow_records, ranges.count) if is_here else context.arrow_records
        ),
        scratch=context.scratch,
        has_headers=table.has_headers,
        limits=replace(context.byte_limits, run_bytes=None) if is_whole else context.byte_limits,
    )


def rest_of(ranges: OffsetRanges, done: Iterable[OffsetRange]) -> OffsetRanges:
    """Return the part of ``ranges`` that is left after ``done``."""
    return replace(ranges, ranges=tuple(outside(ranges, done)))


def _taken(kept: list[OffsetRange], count: int) -> Iterator[OffsetRange]:
    """Yield ranges with the first ``count`` offsets of ``kept``, and leave the others in it."""
    while count > 0:
        one = kept.pop(0)
        end = min(one.end, one.start + count)
        yield OffsetRange(partition=one.partition, start=one.start, end=end)
        if end < one.end:
            kept.insert(0, OffsetRange(partition=one.partition, start=end, end=one.end))
        count -= end - one.start


def _some(ranges: OffsetRanges, held: Sequence[OffsetRange]) -> OffsetRanges:
    return OffsetRanges(topic=ranges.topic, topic_id=ranges.topic_id, ranges=tuple(held))
