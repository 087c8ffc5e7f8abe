"""A leader appends no batch that clients cannot read: codecs, frames, counts, lengths and offset deltas."""

import gzip
import random
from collections.abc import Callable

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import LogConfig
from log_service.records import checks
from log_service.records.batch import CRC, CRC_POSITION, HEADER, HEADER_SIZE, compute_crc, parse_header
from log_service.records.builder import build_batch
from log_service.records.checks import MAX_CHECKED_BYTES, MAX_CHECKED_ITEMS, check_records
from log_service.records.compression import Codec
from log_service.records.record import NewRecord, RecordHeader
from log_service.records.validator import validate_for_append
from tests.unit.records.framed_records import ACCEPTED_BY_KAFKA, ACCEPTED_BY_KAFKA_ALONE, TIME_MS, Framed, framed_batch, framed_sections
from tests.unit.records.raw_records import raw_record

CASES = list(framed_sections())
CODES = {ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}


def refusal(batch: bytearray, config: LogConfig | None = None) -> KafkaError | None:
    try:
        validate_for_append(batch, config or LogConfig(), TIME_MS)
    except KafkaError as error:
        return error
    return None


def test_the_verdicts_are_of_these_cases() -> None:
    assert {case.name for case in CASES} > ACCEPTED_BY_KAFKA | ACCEPTED_BY_KAFKA_ALONE


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_clients_cannot_read_is_refused_and_all_else_is_taken(case: Framed) -> None:
    batch = framed_batch(case)
    sent = bytes(batch)
    error = refusal(batch, LogConfig(max_message_bytes=2 << 20))
    assert (error is None) == (case.name in ACCEPTED_BY_KAFKA), error
    assert error is None or error.code in CODES
    assert bytes(batch) == sent


@pytest.mark.parametrize("case", [one for one in CASES if one.name != "none null key"], ids=lambda case: case.name)
def test_a_compacted_topic_refuses_the_same(case: Framed) -> None:
    error = refusal(framed_batch(case), LogConfig(max_message_bytes=2 << 20, is_compacted=True))
    assert (error is None) == (case.name in ACCEPTED_BY_KAFKA), error


def large(count: int, *, headers: tuple[RecordHeader, ...] = (), codec: Codec = Codec.NONE) -> bytearray:
    made = [NewRecord(TIME_MS + index, b"key %d" % index if index % 3 else None, b"v" * (index % 200), headers) for index in range(count)]
    return bytearray(build_batch(made, codec=codec))


@pytest.mark.parametrize("count", [1, 2, 100, checks.MIN_COUNT_AT_ONCE, 3_000])
@pytest.mark.parametrize("headers", [(), (("trace", b"1234"), ("empty", None))], ids=["plain", "headers"])
@pytest.mark.parametrize("codec", list(Codec))
def test_honest_batches_of_every_size_are_taken(count: int, headers: tuple[RecordHeader, ...], codec: Codec) -> None:
    assert refusal(large(count, headers=headers, codec=codec)) is None


def both_ways(plain: bytes, count: int, monkeypatch: pytest.MonkeyPatch) -> set[bool]:
    """Whether each way of checking takes these records."""
    header = parse_header(build_batch([(TIME_MS, None, b"")]))._replace(record_count=count, last_offset_delta=count - 1)
    told = set()
    for least in (0, 1 << 30):
        monkeypatch.setattr(checks, "MIN_COUNT_AT_ONCE", least)
        try:
            check_records(header, plain)
            told.add(True)
        except KafkaError as error:
            told.add(error.code is not ErrorCode.INVALID_RECORD)
    return told


@pytest.mark.parametrize("seed", range(40))
def test_records_checked_at_once_and_one_by_one_have_the_same_verdict(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = random.Random(seed)
    count = drawn.choice([1, 5, 300])
    names: list[tuple[bytes | None, bytes | None]] = [(b"n" * drawn.randrange(3), b"v"), (b"", None)]
    plain = bytearray(
        b"".join(
            raw_record(index, drawn.choice([None, b"k"]), b"v" * drawn.randrange(90), headers=names if drawn.random() < 0.3 else ())
            for index in range(count)
        )
    )
    assert both_ways(bytes(plain), count, monkeypatch) == {True}
    for _ in range(30):
        changed = bytearray(plain)
        changed[drawn.randrange(len(changed))] ^= 1 << drawn.randrange(8)
        assert len(both_ways(bytes(changed), count, monkeypatch)) == 1


@pytest.mark.parametrize("header_count", [65, 500])
def test_records_with_very_many_headers_are_checked(header_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    headers: list[tuple[bytes | None, bytes | None]] = [(b"n", b"v")] * header_count
    good = raw_record(0, b"k", b"v", headers=headers)
    assert both_ways(good, 1, monkeypatch) == {True}
    assert both_ways(raw_record(0, b"k", b"v", headers=[*headers, (None, b"v")]), 1, monkeypatch) == {False}


OVERSIZED: dict[str, Callable[[], Framed]] = {
    "bytes": lambda: Framed("", 1, gzip.compress(raw_record(0, b"k", bytes(MAX_CHECKED_BYTES)) + b"rest", 1), 1),
    "records": lambda: Framed(
        "", 1, gzip.compress(b"".join(raw_record(i, None, None) for i in range(MAX_CHECKED_ITEMS + 1)) + b"rest", 1), MAX_CHECKED_ITEMS + 1
    ),
}


@pytest.mark.parametrize("kind", OVERSIZED)
def test_what_a_check_would_take_too_long_for_is_not_looked_at(kind: str) -> None:
    assert refusal(framed_batch(OVERSIZED[kind]())) is None


def test_the_checksum_is_looked_at_before_anything_that_it_covers() -> None:
    batch = framed_batch(CASES[0])
    batch[HEADER_SIZE + 4] ^= 1
    error = refusal(batch)
    assert error is not None
    assert error.code is ErrorCode.CORRUPT_MESSAGE
    CRC.pack_into(batch, CRC_POSITION, compute_crc(batch))
    assert HEADER.size == HEADER_SIZE
    error = refusal(batch)
    assert error is not None
    assert error.code is ErrorCode.INVALID_RECORD
