"""A crash may come before each single operation on the disk.

The operations append, sync, roll, cut, close, and recover from that.
"""

from contextlib import suppress
from itertools import product
from random import Random

import pytest
import trio

from tests.sim.disk import Crashed, Disk
from tests.sim.files import MemoryFiles
from tests.unit.storage.context import NOW_MS, LogContext, SettableClock, batch, idempotent
from tests.unit.storage.crashing_files import CrashingFiles


class History:
    """The appended records of a story, the cuts, and the promises of syncs, as far as it came."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.previous: list[bytes] = []  # before the cut that is under way or was the last
        self.start = 0
        self.synced = 0
        self.epoch = 0

    def append(self, context: LogContext, count: int) -> None:
        for _ in range(count):
            offset = len(self.values)
            value = b"%d of epoch %d" % (offset, self.epoch)
            self.values.append(value)
            context.append(idempotent(7 + self.epoch, offset, value=value), leader_epoch=self.epoch)

    def sync(self, context: LogContext) -> None:
        trio.run(context.log.sync)
        self.synced = len(self.values)

    def truncate(self, context: LogContext, offset: int) -> None:
        self.previous, self.values = self.values, self.values[:offset]
        self.synced = min(self.synced, offset)
        self.epoch += 1
        context.log.truncate_to(offset)


def play(context: LogContext, history: History) -> None:
    """Append, roll, sync, cut at both ends, close in order and start again, twice."""
    for _ in range(2):
        history.append(context, 5)
        history.sync(context)
        history.append(context, 6)
        history.truncate(context, len(history.values) - 5)
        history.append(context, 4)
        history.sync(context)
        context.log.apply_retention(NOW_MS, len(history.values) - 6)
        history.start = max(history.start, context.log.log_start_offset)
        trio.run(context.log.close)
        history.synced = len(history.values)
        context.open(is_clean=True)


def opened(context: LogContext, files: MemoryFiles, history: History) -> LogContext:
    """Open what the crash left, by a recovery point as low as a checkpoint may be."""
    context.files = files
    context.open(recovery_point=history.synced)
    return context


def check(context: LogContext, history: History) -> None:
    held = context.all_values()
    values = [value for _, value in held]
    start = context.log.log_start_offset
    assert [offset for offset, _ in held] == list(range(start, context.log.log_end_offset))
    assert values in (
        history.values[start:][: len(values)],
        history.previous[start:][: len(values)],
    )
    assert context.log.log_end_offset >= history.synced
    for segment in context.log.segments:
        believed = list(segment.offset_index), segment.max_timestamp, segment.max_timestamp_offset
        segment.rebuild_indexes()
        assert believed == (
            list(segment.offset_index),
            segment.max_timestamp,
            segment.max_timestamp_offset,
        )


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_before_any_operation_leaves_a_log_that_opens(seed: int) -> None:
    crash_count = 0
    for countdown in range(1, 2_000):
        disk, rng, clock = Disk(), Random(f"{seed} {countdown}"), SettableClock()
        files = CrashingFiles(disk, rng=rng, clock=clock)
        history = History()
        context = LogContext(
            files, clock=clock, segment_bytes=300, index_interval_bytes=1, retention_bytes=600
        )
        files.countdown = countdown
        try:
            play(context, history)
        except Crashed:
            crash_count += 1
        else:
            break
        recovering = CrashingFiles(disk, rng=rng, clock=clock)
        recovering.countdown = rng.randint(1, 120)
        try:
            opened(context, recovering, history)
        except Crashed:
            opened(context, MemoryFiles(disk, rng=rng, clock=clock), history)
        recovering.countdown = -1
        check(context, history)
    assert crash_count > 300


@pytest.mark.parametrize("is_reordering", [False, True])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_crash_before_any_operation_of_a_rebuild_leaves_no_part_of_an_index(
    suffix: str, *, is_reordering: bool
) -> None:
    """A part of an index was believed below the recovery point.

    Lookups by time missed records, and segments seemed older than they are.
    """
    crash_count = 0
    for countdown, attempt in product(range(1, 30), range(10)):
        disk, rng, clock = (
            Disk(is_reordering=is_reordering),
            Random(f"{countdown} {attempt}"),
            SettableClock(),
        )
        context = LogContext(
            MemoryFiles(disk, rng=rng, clock=clock),
            clock=clock,
            segment_bytes=600,
            index_interval_bytes=64,
        )
        for offset in range(20):
            context.append(batch(timestamp=NOW_MS + offset))
        trio.run(context.log.sync)
        before = indexes_of(context)
        context.files.remove(context.directory / f"00000000000000000000{suffix}")
        context.files.sync_directory(context.directory)
        context.files = files = CrashingFiles(disk, rng=rng, clock=clock)
        files.countdown = countdown
        with suppress(Crashed):
            context.open(recovery_point=20)
            files.countdown = -1
            disk.crash(rng)
        crash_count += files.countdown == 0
        context.files = MemoryFiles(disk, rng=rng, clock=clock)
        context.open(recovery_point=20)
        assert indexes_of(context) == before
    assert 100 < crash_count < 290


def indexes_of(context: LogContext) -> list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
    return [
        (list(segment.offset_index), list(segment.time_index)) for segment in context.log.segments
    ]
