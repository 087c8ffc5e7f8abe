"""A pass leaves batches with unreadable records as they are, and compacts the others."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import HEADER_SIZE, compute_crc, parse_header, plain_records
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.control import ControlType, build_control_batch
from log_service.records.outline import outline_records
from log_service.storage.aborted_transactions import AbortedTransaction
from log_service.storage.cleaner.transactions import PassTransactions
from log_service.storage.cleaner.unreadable import MAX_NAMED_BATCHES
from tests.unit.storage.cleaner.context import CompactedLog
from tests.unit.storage.context import NOW_MS

A, B, C = b"a", b"b", b"c"
PRODUCER = 7
_CRC = slice(17, 21)


def sealed(content: bytearray) -> bytearray:
    """Give a batch the checksum of what it holds."""
    content[_CRC] = compute_crc(content).to_bytes(4, "big")
    return content


def garbage(codec: Codec = Codec.GZIP, base_offset: int = 0, **options: Any) -> bytearray:
    """Return a batch of one record of key A that does not decompress."""
    content = bytearray(
        build_batch([(NOW_MS, A, b"x" * 40)], codec=codec, base_offset=base_offset, **options)
    )
    content[HEADER_SIZE:] = b"\xa5" * (len(content) - HEADER_SIZE)
    return sealed(content)


def unknown_codec() -> bytearray:
    content = garbage()
    content[22] |= 0x07
    return sealed(content)


def malformed() -> bytearray:
    """Return a batch that announces one record more than it has."""
    content = bytearray(build_batch([(NOW_MS, A, b"x")]))
    content[HEADER_SIZE - 1] += 1
    return sealed(content)


def negative_key() -> bytearray:
    content = bytearray(build_batch([(NOW_MS, A, b"x")]))
    content[HEADER_SIZE + 4] = 3  # the varint of -2
    return sealed(content)


def stored(log: CompactedLog, offset: int) -> bytes:
    """Return the bytes of the batch at ``offset``."""
    for segment in log.log.segments:
        for _, header, batch in segment.batches(0):
            if header.base_offset == offset:
                return bytes(batch)
    raise AssertionError(offset)


def readable(log: CompactedLog) -> list[tuple[int, bytes | None]]:
    """Return (offset, key) of the records that can be read."""
    found: list[tuple[int, bytes | None]] = []
    for segment in log.log.segments:
        for _, header, batch in segment.batches(0):
            try:
                outline = outline_records(header, plain_records(batch)[1])
            except KafkaError:
                continue
            found += zip(outline.offsets, outline.keys, strict=True)
    return found


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("make", [garbage, unknown_codec, malformed, negative_key])
@pytest.mark.parametrize("place", ["first", "between", "last", "alone"])
def test_a_batch_stays_as_it_is_and_the_others_are_compacted(
    make: Callable[[], bytearray], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = CompactedLog()
    at = {"first": 0, "between": 1, "last": 3, "alone": 2}[place]
    for number in range(4):
        if number == at:
            if place == "alone":
                log.log.roll()
            log.append(make())
            if place == "alone":
                log.log.roll()
        else:
            log.write((A, b"%d" % number))
    offset = next(header.base_offset for header in log.headers() if header.base_offset >= at)
    log.log.roll()
    before, latest = stored(log, offset), [offset for offset, _ in readable(log)][-1]
    outcome = log.clean()
    assert stored(log, offset) == before
    assert readable(log) == [(latest, A)], (
        "its keys are not learned: the latest record that can be read stays"
    )
    assert outcome.end_offset == log.log.log_end_offset
    (warning,) = warnings(caplog)
    assert "flights-0" in warning
    assert f"offsets {offset} to {parse_header(before).last_offset}" in warning
    assert "cannot be read" in warning


@pytest.mark.parametrize("is_before", [True, False])
def test_a_tombstone_stays_behind_a_batch_that_may_hold_older_values_of_its_key(
    *, is_before: bool
) -> None:
    """Java reads batches that others cannot read.

    For it the deleted value came back once the tombstone was gone.
    """
    log = CompactedLog(delete_retention_ms=0)
    if is_before:
        log.append(garbage())
    log.write_segment((A, None))
    if not is_before:
        log.append(garbage(base_offset=1))
    log.write_segment((B, b"1"))
    for _ in range(3):
        log.clean()
        log.log.cleaned_offset = None
        log.clock.now_ms += 10
    assert [key for _, key in readable(log)] == ([A, B] if is_before else [B])


def test_each_batch_is_told_once_however_many_passes_meet_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CompactedLog()
    for number in range(3):
        log.append(garbage())
        log.write_segment((A, b"%d" % number))
        log.clean()
        log.log.cleaned_offset = None
    log.clean(slice_bytes=1)
    assert len(warnings(caplog)) == 3
    assert readable(log) == [(5, A)]


def test_what_is_remembered_of_them_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    log, error = CompactedLog(), KafkaError(ErrorCode.INVALID_RECORD, "x")
    for offset in range(MAX_NAMED_BATCHES + 2):
        log.unreadable.log_skipped(parse_header(garbage(base_offset=offset)), error)
    assert len(warnings(caplog)) == MAX_NAMED_BATCHES


def test_a_batch_of_a_committed_transaction_keeps_its_marker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CompactedLog(delete_retention_ms=0)
    log.write_in_transaction(PRODUCER, (A, b"1"))
    header: dict[str, Any] = {
        "producer_id": PRODUCER,
        "producer_epoch": 0,
        "base_sequence": 1,
        "is_transactional": True,
    }
    log.log.append_as_follower(garbage(base_offset=1, **header))
    log.end_transaction(PRODUCER, ControlType.COMMIT)
    log.write_segment((A, b"2"))
    before = stored(log, 1)
    for _ in range(3):
        log.clean()
        log.write_segment((C, b"-"))
    assert stored(log, 1) == before
    assert [header.base_offset for header in log.headers() if header.is_control] == [2]
    assert (3, A) in readable(log)
    assert len(warnings(caplog)) == 1


def test_a_batch_of_an_aborted_transaction_goes_unread(caplog: pytest.LogCaptureFixture) -> None:
    log = CompactedLog()
    header: dict[str, Any] = {
        "producer_id": PRODUCER,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
    }
    log.log.append_as_follower(garbage(**header))
    log.write_in_transaction(PRODUCER, (A, b"1"), sequence=1)
    log.end_transaction(PRODUCER, ControlType.ABORT)
    log.write_segment((B, b"2"))
    log.clean()
    assert 0 not in [header.base_offset for header in log.headers()]
    assert readable(log)[-1] == (3, B)
    assert warnings(caplog) == []


@pytest.mark.parametrize(("last_offset", "is_kept"), [(2, True), (3, False)])
def test_an_entry_stays_with_the_marker_that_the_index_knows(
    last_offset: int, *, is_kept: bool
) -> None:
    entry = AbortedTransaction(
        producer_id=PRODUCER, first_offset=0, last_offset=last_offset, last_stable_offset=0
    )
    transactions = PassTransactions([entry])
    header: dict[str, Any] = {
        "producer_id": PRODUCER,
        "producer_epoch": 0,
        "is_transactional": True,
    }
    transactions.note_batch(
        parse_header(build_batch([(NOW_MS, A, b"1")], base_sequence=0, **header))
    )
    control = build_control_batch(
        [(ControlType.ABORT, b"")], timestamp_ms=NOW_MS, base_offset=2, **header
    )
    transactions.note_unreadable_control(parse_header(control))
    assert transactions.take_kept() == ([entry] if is_kept else [])
