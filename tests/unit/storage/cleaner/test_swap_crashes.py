"""A crash may come before each single operation on the disk of a compaction.

It may come during the repair at the next start, too.
"""

from pathlib import Path
from random import Random

import pytest
import trio

from log_service.records.control import ControlType
from tests.sim.disk import Crashed, Disk
from tests.sim.files import MemoryFiles
from tests.unit.storage.cleaner.context import CompactedLog
from tests.unit.storage.context import SettableClock


class CrashingFiles(MemoryFiles):
    """A mount that dies before its ``countdown``-th operation."""

    countdown = 0

    def check(self, operation: str, path: Path) -> None:
        self.countdown -= 1
        if self.countdown == 0:
            self.disk.crash(self.rng)
        super().check(operation, path)


KEYS = [b"a", b"b", b"c", b"d"]


def fill(log: CompactedLog, first: int) -> None:
    """Write three segments in which four keys are overwritten, by an idempotent producer, and sync
    them.
    """
    for number in range(first, first + 3):
        log.write(
            *[(key, b"%d" % number) for key in KEYS],
            producer_id=1,
            producer_epoch=0,
            base_sequence=4 * number,
        )
        if number % 3 == 2:
            log.write((b"tombstone", None))
        log.log.roll()
    trio.run(log.log.sync)


def fill_with_transactions(log: CompactedLog, first: int) -> None:
    """Write transactions as Kafka leaves them.

    Some values were committed, the next ones aborted, with a marker in a later segment than its
    transaction.
    """
    for number in range(first, first + 3):
        log.write_in_transaction(2, *[(key, b"%d" % number) for key in KEYS], sequence=8 * number)
        log.end_transaction(2, ControlType.COMMIT)
        log.write_in_transaction(2, *[(key, b"aborted") for key in KEYS], sequence=8 * number + 4)
        if number % 3 == 1:
            log.log.roll()
        log.end_transaction(2, ControlType.ABORT)
        log.write((b"plain", b"%d" % number), producer_id=1, producer_epoch=0, base_sequence=number)
        log.log.roll()
    trio.run(log.log.sync)


def surviving(log: CompactedLog) -> dict[bytes | None, bytes | None]:
    """Return the state that a reader of committed records builds from the log."""
    return {key: value for _, key, value in log.committed_rows()}


def check(log: CompactedLog, expected: dict[bytes | None, bytes | None], end_offset: int) -> None:
    offsets = [offset for offset, _, _ in log.rows()]
    assert offsets == sorted(set(offsets))
    assert surviving(log) == expected
    assert log.log.log_end_offset == end_offset
    assert [name for name in log.names() if name.endswith((".cleaned", ".swap", ".deleted"))] == []
    check_index(log)
    entry = log.log.producer_state.get(1)
    assert entry is not None
    for segment in log.log.segments:
        believed = list(segment.offset_index), segment.max_timestamp
        segment.rebuild_indexes()
        assert believed == (list(segment.offset_index), segment.max_timestamp)
    log.write(
        (b"a", b"new"), producer_id=1, producer_epoch=0, base_sequence=(entry.last_sequence + 1)
    )


def with_history(
    files: MemoryFiles, clock: SettableClock, *, has_transactions: bool
) -> CompactedLog:
    """Return a log before a pass that has everything to do.

    It has values, emptied transactions and needless markers.
    """
    options = (
        {"segment_bytes": 1_200, "delete_retention_ms": 0}
        if has_transactions
        else {"segment_bytes": 500}
    )
    log = CompactedLog(files, clock=clock, index_interval_bytes=1, **options)
    write = fill_with_transactions if has_transactions else fill
    write(log, 0)
    log.clean()
    write(log, 3)
    if has_transactions:
        log.clean()
        write(log, 6)
    return log


def check_index(log: CompactedLog) -> None:
    """Check that each aborted transaction in the index has its marker.

    Each batch that was emptied because of one has its name there.
    """
    ended, headers = log.log.aborted_transactions.ended, log.headers()
    assert {transaction.last_offset for transaction in ended} <= {
        header.base_offset for header in headers if header.is_control
    }
    emptied = [
        header.base_offset
        for header in headers
        if header.is_transactional and not header.is_control and not header.record_count
    ]
    assert all(
        any(transaction.first_offset <= offset <= transaction.last_offset for transaction in ended)
        for offset in emptied
    )


PLAIN = [
    (seed, False, is_default_config) for seed in range(4) for is_default_config in (False, True)
]


@pytest.mark.parametrize(
    ("seed", "has_transactions", "is_default_config"), [*PLAIN, (0, True, False), (1, True, True)]
)
def test_a_crash_at_any_point_of_a_pass_loses_no_key(
    seed: int, *, has_transactions: bool, is_default_config: bool
) -> None:
    crash_count = 0
    for countdown in range(1, 2_000):
        disk, rng, clock = (
            Disk(is_reordering=seed % 2 == 1),
            Random(f"{seed} {countdown}"),
            SettableClock(),
        )
        plain = MemoryFiles(disk, rng=rng, clock=clock)
        log = with_history(plain, clock, has_transactions=has_transactions)
        recovery_point, end_offset, expected = (
            log.log.recovery_point,
            log.log.log_end_offset,
            surviving(log),
        )
        crashing = CrashingFiles(disk, rng=rng, clock=clock)
        log.files = log.log.files = crashing
        trio.run(log.log.close)
        crashing.countdown = -1
        log.open(is_clean=True)
        crashing.countdown = countdown
        try:
            log.clean(slice_bytes=rng.choice([1, 150, 1 << 20]))
        except Crashed:
            crash_count += 1
        else:
            break
        compacted = log.config
        if is_default_config:
            log.config = type(compacted)(
                segment_bytes=compacted.segment_bytes, index_interval_bytes=1
            )
        log.files = CrashingFiles(disk, rng=rng, clock=clock)
        log.files.countdown = rng.randint(1, 60)
        try:
            log.open(recovery_point=recovery_point)
        except Crashed:
            log.files = MemoryFiles(disk, rng=rng, clock=clock)
            log.open(recovery_point=recovery_point)
        log.files.countdown = -1
        log.log.reconfigure(compacted)  # as the topic's configuration says before anybody reads
        check(log, expected, end_offset)
    assert crash_count > 30


def names_of(log: CompactedLog, tail: str) -> list[str]:
    return [name for name in log.names() if name.endswith(tail)]


def stopped_before(tail_of_rename: str, count: int) -> CompactedLog:
    """Return a log whose pass was killed before its ``count``-th rename of files that end so.

    Every earlier rename is on the disk.
    """
    log = CompactedLog()
    log.write_segment((b"a", b"1"), (b"b", b"1"))
    log.write_segment((b"a", b"2"))
    log.write((b"a", b"3"))
    trio.run(log.log.sync)
    seen = 0

    def on_operation(operation: str, path: Path) -> None:
        nonlocal seen
        seen += operation == "rename" and path.name.endswith(tail_of_rename)
        if seen >= count:
            raise Crashed  # from then on the process is dead

    log.files.on_operation = on_operation
    with pytest.raises(Crashed):
        log.clean()
    log.files.on_operation = lambda _operation, _path: None
    return log


@pytest.mark.parametrize(
    ("tail", "count", "is_finished"),
    [
        (".log.cleaned", 1, False),
        (".index.cleaned", 1, False),
        (".timeindex.cleaned", 1, False),
        ("00.log", 1, True),
        ("00.index", 1, True),
        ("02.log", 1, True),
        (".log.swap", 1, True),
        (".index.swap", 1, True),
        (".timeindex.swap", 1, True),
    ],
)
def test_each_state_of_an_exchange_is_finished_or_undone(
    tail: str, count: int, is_finished: bool
) -> None:
    log = stopped_before(tail, count)
    log.open(recovery_point=4)
    expected = [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"a", b"3")]
    assert log.rows() == (expected if is_finished else [(0, b"a", b"1"), *expected])
    assert names_of(log, ".swap") == names_of(log, ".cleaned") == names_of(log, ".deleted") == []


def test_holes_of_compaction_are_not_taken_for_lost_records() -> None:
    log = CompactedLog(segment_bytes=170)
    for number in range(4):
        log.write_segment((b"a", b"%d" % number), (b"b", b"x"))
    log.write_segment((b"c", b"last"))
    log.clean()
    log.write((b"d", b"active"))
    trio.run(log.log.sync)
    before = log.rows()
    assert len(log.log.segments) > 2
    log.config = type(log.config)()  # a start does not know which topics are compacted
    log.open(recovery_point=0, cleaned_offset=log.log.log_end_offset - 1)
    assert log.rows() == before
    log.open(recovery_point=0)  # nor, with its checkpoints lost, how far
    assert log.rows() == before


def test_records_that_were_lost_are_not_taken_for_a_hole_of_compaction() -> None:
    log = CompactedLog()
    for number in range(3):
        log.write((b"a", b"%d" % number))
        log.write_segment((b"b", b"%d" % number))
    log.files.open(log.directory / "00000000000000000002.log").truncate(70)
    log.config = type(log.config)()
    log.open(recovery_point=0)
    assert log.log.log_end_offset == 3
