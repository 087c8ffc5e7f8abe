"""Readers of committed records learn of aborted and open transactions.

Apache Kafka wrote them into the log.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import trio

from log_service.common.errors import KafkaError, StorageError
from log_service.records.control import (
    ControlType,
    build_control_batch,
    build_end_transaction_marker,
)
from log_service.storage.aborted_transactions import (
    INDEX_ENTRY,
    AbortedTransaction,
    AbortedTransactions,
)
from log_service.storage.log import Log
from log_service.storage.segment import Segment
from tests.sim.files import MemoryFiles
from tests.unit.storage.context import NOW_MS, LogContext, batch
from tests.unit.storage.moving_logs import filled, moved

FIRST, SECOND = 7, 8
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def write(context: LogContext, producer_id: int, marker: ControlType | None = None) -> None:
    """Append three records of a transaction, or its end, as a follower would get them from Kafka."""
    offset = context.log.log_end_offset
    content: bytes | bytearray
    if marker is None:
        content = batch(
            3,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
            base_offset=offset,
        )
    else:
        content = build_end_transaction_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=NOW_MS,
            base_offset=offset,
        )
    context.log.append_as_follower(content)


def filled_by_kafka() -> LogContext:
    """Return two segments.

    0-2 are of one producer and 3-5 of the other, both aborted in the second (6 and 7), 8-10
    committed (11), 12-14 open.
    """
    context = LogContext()
    write(context, FIRST)
    write(context, SECOND)
    context.log.roll()
    write(context, SECOND, ABORT)
    write(context, FIRST, ABORT)
    write(context, SECOND)
    write(context, SECOND, COMMIT)
    write(context, FIRST)
    return context


ENTRIES = [AbortedTransaction(SECOND, 3, 6, 0), AbortedTransaction(FIRST, 0, 7, 8)]


def index_of(entries: list[AbortedTransaction]) -> bytes:
    return b"".join(INDEX_ENTRY.pack(0, *entry) for entry in entries)


def put_index(context: LogContext, content: bytes) -> None:
    path = context.directory / "00000000000000000006.txnindex"
    context.files.open(path).truncate(0)
    context.files.open(path).append_gathered([content])


def told(
    context: LogContext, start_offset: int, *, max_bytes: int = 1 << 20
) -> list[tuple[int, int]]:
    found = context.log.read(
        start_offset, max_bytes=max_bytes, upper_offset=1 << 40, is_one_batch_guaranteed=True
    )
    assert found.file_slice is not None
    found.file_slice.release()
    return sorted(context.log.aborted_in(start_offset, found))


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_kafkas_index_says_is_told_where_it_matters(is_clean: bool) -> None:
    context = filled_by_kafka()
    put_index(context, index_of(ENTRIES))
    if is_clean:
        context.reopen_clean()
    else:
        context.open()
    assert told(context, 0) == [(FIRST, 0), (SECOND, 3)], "the open one begins in the next segment"
    assert told(context, 0, max_bytes=1) == [(FIRST, 0)], "one batch was read"
    assert told(context, 6, max_bytes=1) == [(FIRST, 0), (SECOND, 3)], (
        "their markers are still to come"
    )
    assert told(context, 7, max_bytes=1) == [(FIRST, 0)]
    assert told(context, 8, max_bytes=1) == []
    assert told(context, 8) == [], "one that is open is not aborted"


def test_a_log_without_transactions_tells_none_and_reads_nothing_for_it() -> None:
    context = LogContext()
    context.append_records(3)
    context.open()
    assert not context.log.aborted_transactions
    assert told(context, 0) == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(index_of(ENTRIES)[:-1], id="torn"),
        pytest.param(bytes([0, 9]) + index_of(ENTRIES)[2:], id="another version"),
        pytest.param(index_of([AbortedTransaction(SECOND, 9, 6, 0)]), id="ends before it begins"),
    ],
)
def test_a_damaged_index_is_replaced_by_what_the_log_says(content: bytes) -> None:
    context = filled_by_kafka()
    put_index(context, content)
    context.reopen_clean()
    assert told(context, 0) == [(FIRST, 0), (SECOND, 3)]
    assert told(context, 8) == []
    written = MemoryFiles(rng=Random(1))
    written.make_directory(Path("/copy"))
    context.log.aborted_transactions.write_indexes(written, Path("/copy"), context.log.segments)
    assert written.read_bytes(Path("/copy/00000000000000000006.txnindex")) == index_of(ENTRIES)


def test_where_the_log_is_damaged_too_it_is_refused() -> None:
    context = filled_by_kafka()
    put_index(context, index_of(ENTRIES)[:-1])
    trio.run(context.log.close)
    file = context.files.open(context.directory / "00000000000000000000.log")
    file.write_at(16, b"\x09")  # the magic byte of the first batch
    with pytest.raises(
        StorageError,
        match=r"00000000000000000006\.txnindex is damaged, and so is a batch of the log",
    ):
        context.open(is_clean=True, recovery_point=context.log.recovery_point)


def test_many_that_ended_later_are_not_looked_at() -> None:
    many = [
        AbortedTransaction(FIRST, 10 * number, 10 * number + 5, 10 * number + 6)
        for number in range(1_000)
    ]
    held = AbortedTransactions(many)
    assert held.within(5_003, 5_015) == [(FIRST, 5_000), (FIRST, 5_010)]
    assert held.within(5_006, 5_010) == []
    assert held.within(0, 1) == [(FIRST, 0)]


def test_a_move_to_another_directory_takes_them_along() -> None:
    node = filled(count=3)
    (log,) = node.manager.logs.values()
    entry = AbortedTransaction(7, 0, 1, 2)
    log.aborted_transactions = AbortedTransactions([entry])
    (replacement,) = moved(node)
    assert replacement.aborted_transactions.within(0, 3) == [(7, 0)]
    assert replacement.files.read_bytes(
        replacement.directory / "00000000000000000000.txnindex"
    ) == index_of([entry])


# What a follower notes as it appends


def stored_index(context: LogContext, base_offset: int) -> bytes:
    return bytes(context.files.read_bytes(context.directory / f"{base_offset:020}.txnindex"))


def test_a_marker_that_is_appended_goes_into_the_index_of_its_segment() -> None:
    context = filled_by_kafka()
    assert stored_index(context, 6) == index_of(ENTRIES)
    assert context.names().count("00000000000000000000.txnindex") == 0
    assert told(context, 0) == [(FIRST, 0), (SECOND, 3)]
    assert context.log.producer_state.first_open_offset == 12


@pytest.mark.parametrize(("end", "kept"), [(15, 2), (12, 2), (8, 2), (7, 1), (6, 0), (3, 0)])
def test_a_truncation_undoes_what_it_cuts_off(end: int, kept: int) -> None:
    context = filled_by_kafka()
    context.log.truncate_to(end)
    assert list(context.log.aborted_transactions.ended) == ENTRIES[:kept]
    again = filled_by_kafka().log.producer_state
    open_then = {
        15: {FIRST: 12},
        12: {},
        8: {},
        7: {FIRST: 0},
        6: {FIRST: 0, SECOND: 3},
        3: {FIRST: 0},
    }[end]
    assert context.log.producer_state.unstable is not None
    assert dict(context.log.producer_state.unstable.open) == open_then
    assert again.first_open_offset == 12
    in_memory = list(context.log.aborted_transactions.ended)
    context.reopen_clean()
    assert list(context.log.aborted_transactions.ended) == in_memory, (
        "the index on the disk says the same"
    )


@pytest.mark.parametrize(
    "left",
    [
        b"",
        index_of(ENTRIES[:1]),
        index_of(ENTRIES)[:-3],
        index_of([*ENTRIES, AbortedTransaction(3, 8, 20, 8)]),
    ],
)
def test_after_a_crash_the_index_is_what_the_log_says(left: bytes) -> None:
    context = filled_by_kafka()
    put_index(context, left)
    context.open(recovery_point=3)
    assert stored_index(context, 6) == index_of(ENTRIES)
    assert list(context.log.aborted_transactions.ended) == ENTRIES
    assert context.log.producer_state.first_open_offset == 12


def test_an_index_that_was_synced_with_its_segment_outlives_the_power() -> None:
    context = filled_by_kafka()
    context.log.roll()
    trio.run(context.log.sync_rolled)
    context.files.crash(Random(1))
    context.open(recovery_point=15)
    assert stored_index(context, 6) == index_of(ENTRIES)


def test_what_retention_deletes_is_forgotten() -> None:
    context = LogContext(retention_ms=-1, retention_bytes=1)
    write(context, FIRST)
    write(context, FIRST, ABORT)
    context.log.roll()
    write(context, SECOND)
    write(context, SECOND, ABORT)
    context.log.apply_retention(NOW_MS, high_watermark=4)
    assert context.log.log_start_offset == 4
    assert [entry.producer_id for entry in context.log.aborted_transactions.ended] == [SECOND]


def test_a_marker_that_says_nothing_is_refused_and_nothing_is_appended() -> None:
    context = LogContext()
    content = build_control_batch(
        [(ControlType.ABORT, b"")],
        timestamp_ms=NOW_MS,
        producer_id=1,
        producer_epoch=0,
        is_transactional=True,
    )
    with pytest.raises(KafkaError, match="the value of a transaction marker takes 6 bytes"):
        context.log.append_as_follower(content)
    assert (context.log.log_end_offset, context.log.size_bytes) == (0, 0)


def test_a_disk_that_takes_no_index_takes_the_directory_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = LogContext()
    write(context, FIRST)

    def refuse(_segment: Segment, _content: bytes) -> None:
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr(Segment, "append_aborted", refuse)
    with pytest.raises(KafkaError, match="the disk is gone"):
        write(context, FIRST, ABORT)
    assert context.log.home.is_offline


@pytest.mark.parametrize("begin_anew", [Log.truncate_to, Log.restart_at])
def test_a_log_that_begins_again_below_its_start_holds_readers_back_at_open_transactions(
    begin_anew: Callable[[Log, int], object],
) -> None:
    context = filled_by_kafka()
    context.log.advance_log_start_offset(12)
    begin_anew(context.log, 0)
    write(context, SECOND)
    write(context, FIRST)
    write(context, FIRST, COMMIT)
    assert context.log.producer_state.last_stable_offset(context.log.log_end_offset) == 0
