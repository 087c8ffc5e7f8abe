"""A pass removes records and markers of Apache Kafka's transactions when they are due.

Readers read meanwhile.
"""

import pytest

from log_service.records.batch import parse_header
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.control import ControlType
from log_service.storage.aborted_transactions import AbortedTransaction, AbortedTransactions
from log_service.storage.cleaner.selection import look_at
from log_service.storage.cleaner.transactions import PassTransactions
from tests.unit.storage.cleaner.context import CompactedLog, SlowReader

A, B, C, N = b"a", b"b", b"c", None
FIRST, SECOND = 7, 8
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT


def values(log: CompactedLog) -> list[tuple[bytes | None, bytes | None]]:
    return [(key, value) for _, key, value in log.committed_rows()]


def markers(log: CompactedLog) -> list[int]:
    return [header.base_offset for header in log.headers() if header.is_control]


def again(log: CompactedLog) -> None:
    """Run one more pass, for which there is always something new."""
    log.write_segment((b"more", b"-"))
    log.clean()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_what_was_aborted_goes_and_is_later_than_nothing(codec: Codec) -> None:
    log = CompactedLog()
    log.write_in_transaction(FIRST, (A, b"1"), (B, b"1"), codec=codec)
    log.end_transaction(FIRST, COMMIT)
    log.write_in_transaction(FIRST, (A, b"2"), (B, N), (C, b"2"), codec=codec, sequence=2)
    log.end_transaction(FIRST, ABORT)
    log.write_segment((b"last", b"-"))
    outcome = log.clean()
    assert values(log) == [(A, b"1"), (B, b"1"), (b"last", b"-")]
    assert (outcome.counts.records_read, outcome.counts.records_kept) == (8, 5)
    assert [header.record_count for header in log.headers()] == [2, 1, 0, 1, 1], (
        "the last batch of the producer is left as a header"
    )


def test_a_committed_value_replaces_earlier_ones_at_its_own_offset_not_at_its_markers() -> None:
    log = CompactedLog()
    log.write_in_transaction(FIRST, (A, b"1"))
    log.write((A, b"2"))
    log.end_transaction(FIRST, COMMIT)
    log.log.roll()
    log.clean()
    assert values(log) == [(A, b"2")]


def test_transactions_of_two_producers_are_told_apart_and_so_are_two_of_one() -> None:
    log = CompactedLog()
    log.write_in_transaction(FIRST, (A, b"1"))
    log.write_in_transaction(SECOND, (B, b"1"))
    log.end_transaction(FIRST, ABORT)
    log.log.roll()
    log.write_in_transaction(FIRST, (A, b"2"), sequence=1)
    log.end_transaction(SECOND, COMMIT)
    log.end_transaction(FIRST, COMMIT)
    log.log.roll()
    log.clean()
    assert values(log) == [(B, b"1"), (A, b"2")]


def test_a_marker_and_its_entry_go_one_after_the_other_when_nothing_is_left() -> None:
    log = CompactedLog(delete_retention_ms=1_000)
    log.write_in_transaction(FIRST, (A, b"1"))
    log.end_transaction(FIRST, ABORT)
    log.write_in_transaction(FIRST, (A, b"2"), sequence=1)
    log.end_transaction(FIRST, COMMIT)
    log.log.roll()
    seen = []
    for _ in range(4):
        again(log)
        seen.append(
            (
                markers(log),
                len(log.log.aborted_transactions.ended),
                any(name.endswith(".txnindex") for name in log.names()),
            )
        )
        log.clock.advance(1_000)
    dropped, dated, gone, stays = seen
    assert dropped == ([1, 3], 1, True), "the pass that met the records keeps both"
    assert dated == ([1, 3], 0, False), "the next one dates the marker"
    assert gone == stays == ([3], 0, False)


def test_who_reads_slowly_is_not_led_astray_before_the_horizon() -> None:
    """The reader met an aborted record.

    If the marker between were gone, it would take the producer's later commits for aborted.
    """
    log = CompactedLog(delete_retention_ms=1_000)
    log.write_in_transaction(FIRST, (A, b"aborted"))
    log.write_segment((b"between", b"-"))
    log.end_transaction(FIRST, ABORT)
    log.write_in_transaction(FIRST, (B, b"committed"), sequence=1)
    log.end_transaction(FIRST, COMMIT)
    log.log.roll()
    reader = SlowReader(log)
    assert reader.read_on(up_to=1) == []
    for _ in range(3):
        again(log)
    log.clock.advance(999)
    again(log)
    assert [key for _, key, _ in reader.read_on()] == [b"between", B, b"more"]


def test_nothing_from_an_open_transaction_on_is_cleaned() -> None:
    log = CompactedLog()
    log.write_segment((A, b"1"))
    log.write_segment((A, b"2"))
    log.write((B, b"1"))
    log.write_in_transaction(FIRST, (A, b"open"))
    log.log.roll()
    log.write_segment((A, b"3"))
    log.write_segment((A, b"4"))
    found = look_at(log.log, log.clock.now_ms, log.log.log_end_offset)
    assert found.first_uncleanable_offset == 2, "its segment begins there"
    log.clean()
    assert values(log) == [(A, b"2"), (B, b"1")], (
        "who reads committed records waits for the transaction"
    )
    assert log.rows()[2:] == [(3, A, b"open"), (4, A, b"3"), (5, A, b"4")]
    log.reopen_clean()
    assert look_at(log.log, log.clock.now_ms, log.log.log_end_offset).first_uncleanable_offset == 2


def test_an_entry_whose_marker_a_torn_tail_took_hides_nothing_later() -> None:
    """Only transactional batches between its offsets are of it, whatever else the producer writes."""
    stale = AbortedTransaction(FIRST, 0, 3, 0)
    transactions = PassTransactions([stale])
    header = parse_header(
        build_batch(
            [(5, A, b"1")], producer_id=FIRST, producer_epoch=0, base_sequence=0, base_offset=2
        )
    )
    assert not transactions.is_aborted(header)
    later = build_batch(
        [(5, A, b"1")],
        producer_id=FIRST,
        producer_epoch=0,
        base_sequence=0,
        base_offset=4,
        is_transactional=True,
    )
    assert not transactions.is_aborted(parse_header(later))
    within = build_batch(
        [(5, A, b"1")],
        producer_id=FIRST,
        producer_epoch=0,
        base_sequence=0,
        base_offset=2,
        is_transactional=True,
    )
    assert transactions.is_aborted(parse_header(within))


def test_only_the_entries_of_the_cleaned_segments_are_replaced() -> None:
    entries = [AbortedTransaction(FIRST, offset, offset + 5, offset) for offset in (0, 10, 20)]
    held = AbortedTransactions(entries)
    assert held.replaced(10, 20, []).ended == [entries[0], entries[2]]
    assert held.replaced(10, 20, entries[1:2]) is held
    assert held.replaced(0, 40, []).ended == []
