"""A leader appends no batch that clients cannot read.

Codecs, frames, counts, lengths and offset deltas are checked.
"""

import gzip
import random

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import LogConfig
from log_service.records import checks, limits
from log_service.records.batch import (
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    compute_crc,
    parse_header,
)
from log_service.records.builder import build_batch
from log_service.records.checks import check_records
from log_service.records.compression import Codec, compress
from log_service.records.limits import Allowance, NoRoomError, TurnRoom
from log_service.records.record import NewRecord, RecordHeader
from log_service.records.rules import MAX_RECORD_ERRORS, RejectedRecordsError
from log_service.records.validator import validate_for_append
from log_service.records.varint import INT32_VARINT_BYTES, INT64_VARINT_BYTES, encode_varint
from tests.unit.records.framed_records import (
    ACCEPTED_BY_KAFKA,
    ACCEPTED_BY_KAFKA_ALONE,
    COUNT,
    TIME_MS,
    Framed,
    framed_batch,
    framed_sections,
    xerial,
)
from tests.unit.records.raw_records import OVERLONG_NULLS, raw_record

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


@pytest.mark.parametrize(
    "case", [one for one in CASES if one.name != "none null key"], ids=lambda case: case.name
)
def test_a_compacted_topic_refuses_the_same(case: Framed) -> None:
    error = refusal(framed_batch(case), LogConfig(max_message_bytes=2 << 20, is_compacted=True))
    assert (error is None) == (case.name in ACCEPTED_BY_KAFKA), error


@pytest.mark.parametrize("null", OVERLONG_NULLS, ids=bytes.hex)
@pytest.mark.parametrize("count", [1, COUNT, limits.MIN_COUNT_AT_ONCE])
def test_a_null_key_is_one_however_many_bytes_its_length_takes(count: int, null: bytes) -> None:
    """A record with a null key entered compacted topics as if it had a key.

    Compaction removed it.
    """
    section = b"".join(raw_record(index, None, b"v", null=null) for index in range(count))
    batch = framed_batch(Framed("overlong null", Codec.NONE, section, count))
    assert refusal(batch) is None
    error = refusal(batch, LogConfig(is_compacted=True))
    assert isinstance(error, RejectedRecordsError)
    assert [index for index, _ in error.record_errors] == list(range(min(count, MAX_RECORD_ERRORS)))


def large(
    count: int, *, headers: tuple[RecordHeader, ...] = (), codec: Codec = Codec.NONE
) -> bytearray:
    made = [
        NewRecord(
            TIME_MS + index, b"key %d" % index if index % 3 else None, b"v" * (index % 200), headers
        )
        for index in range(count)
    ]
    return bytearray(build_batch(made, codec=codec))


@pytest.mark.parametrize("count", [1, 2, 100, limits.MIN_COUNT_AT_ONCE, 3_000])
@pytest.mark.parametrize(
    "headers", [(), (("trace", b"1234"), ("empty", None))], ids=["plain", "headers"]
)
@pytest.mark.parametrize("codec", list(Codec))
def test_honest_batches_of_every_size_are_taken(
    count: int, headers: tuple[RecordHeader, ...], codec: Codec
) -> None:
    assert refusal(large(count, headers=headers, codec=codec)) is None


def both_ways(plain: bytes, count: int, monkeypatch: pytest.MonkeyPatch) -> set[bool]:
    """Whether each way of checking takes these records."""
    header = parse_header(build_batch([(TIME_MS, None, b"")]))._replace(
        record_count=count, last_offset_delta=count - 1
    )
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
def test_records_checked_at_once_and_one_by_one_have_the_same_verdict(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(seed)
    count = drawn.choice([1, 5, 300])
    names: list[tuple[bytes | None, bytes | None]] = [
        (b"n" * drawn.randrange(3), b"v"),
        (b"", None),
    ]
    plain = bytearray(
        b"".join(
            raw_record(
                index,
                drawn.choice([None, b"k"]),
                b"v" * drawn.randrange(90),
                headers=names if drawn.random() < 0.3 else (),
            )
            for index in range(count)
        )
    )
    assert both_ways(bytes(plain), count, monkeypatch) == {True}
    for _ in range(30):
        changed = bytearray(plain)
        changed[drawn.randrange(len(changed))] ^= 1 << drawn.randrange(8)
        assert len(both_ways(bytes(changed), count, monkeypatch)) == 1


@pytest.mark.parametrize("header_count", [65, 500])
def test_records_with_very_many_headers_are_checked(
    header_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers: list[tuple[bytes | None, bytes | None]] = [(b"n", b"v")] * header_count
    good = raw_record(0, b"k", b"v", headers=headers)
    assert both_ways(good, 1, monkeypatch) == {True}
    assert both_ways(
        raw_record(0, b"k", b"v", headers=[*headers, (None, b"v")]), 1, monkeypatch
    ) == {False}


def garbled_tail(codec: Codec, value_bytes: int, count: int) -> Framed:
    """Records of a large batch, of which the last has a byte too many."""
    plain = b"".join(
        raw_record(index, b"k", bytes(value_bytes)) for index in range(count - 1)
    ) + raw_record(count - 1, b"k", b"v", surplus=b"z")
    return Framed("", codec, compress(codec, plain), count)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    ("value_bytes", "count"), [(0, 70_000), (50_000, 200)], ids=["many records", "many bytes"]
)
def test_batches_of_every_size_are_checked_to_their_end(
    codec: Codec, value_bytes: int, count: int
) -> None:
    error = refusal(
        framed_batch(garbled_tail(codec, value_bytes, count)), LogConfig(max_message_bytes=32 << 20)
    )
    assert error is not None
    assert error.code is ErrorCode.INVALID_RECORD


def test_a_batch_that_takes_longer_than_a_turn_of_the_loop_has_no_room_in_it() -> None:
    only = large(1, headers=(("n", b"v"),) * 20_000)
    for batch in (
        large(60_000),
        large(20_000, codec=Codec.GZIP),
        large(2_000, headers=(("n", b"v"),) * 60),
        only,
    ):
        sent = bytes(batch)
        with pytest.raises(NoRoomError):
            validate_for_append(batch, LogConfig(max_message_bytes=32 << 20), TIME_MS, TurnRoom())
        assert bytes(batch) == sent
        assert refusal(batch, LogConfig(max_message_bytes=32 << 20)) is None


def overlong(number: int, size_bytes: int = INT32_VARINT_BYTES) -> bytes:
    """A varint that takes more bytes than it needs."""
    encoded = encode_varint(number)
    return (
        bytes(byte | 0x80 for byte in encoded) + b"\x80" * (size_bytes - len(encoded) - 1) + b"\0"
    )


def overlong_record(index: int) -> bytes:
    """A record that a check walks through slowly: all of its numbers take as many bytes as they
    may.
    """
    body = (
        b"\0"
        + overlong(0, INT64_VARINT_BYTES)
        + overlong(index)
        + overlong(1)
        + b"k"
        + overlong(0)
        + overlong(0)
    )
    return overlong(len(body)) + body


def headers_of(
    record_count: int, header_count: int, *, codec: Codec = Codec.NONE, surplus: bytes = b""
) -> Framed:
    """Records with many of the smallest headers, of which the last ends in a surplus."""
    names: list[tuple[bytes | None, bytes | None]] = [(b"", b"")] * header_count
    ends = [b""] * (record_count - 1) + [surplus]
    records = (
        raw_record(index, b"k", b"v", headers=names, surplus=end) for index, end in enumerate(ends)
    )
    return Framed("headers", codec, b"".join(records), record_count)


SLOW = {
    "headers of few records": headers_of(3, 9_000),
    "headers of many records": headers_of(limits.MIN_COUNT_AT_ONCE, 300),
    "headers of one of many records": Framed(
        "one",
        0,
        b"".join(
            raw_record(index, b"k", b"v", headers=[(b"", b"")] * (20_000 * (not index)))
            for index in range(200)
        ),
        200,
    ),
    "overlong numbers": Framed("numbers", 0, b"".join(map(overlong_record, range(13_000))), 13_000),
    "members of gzip": Framed(
        "members",
        Codec.GZIP,
        gzip.compress(raw_record(0, b"k", b"v")) + gzip.compress(b"") * 10_000,
        1,
    ),
    "blocks of snappy": Framed(
        "blocks", Codec.SNAPPY, xerial(raw_record(0, b"k", b"v")) + b"\0\0\0\1\0" * 10_000, 1
    ),
}
"""Batches whose checks took 7 ms to 40 ms, and were counted as if they took 3 ms at most."""


@pytest.mark.parametrize("case", SLOW.values(), ids=SLOW)
def test_what_takes_a_loop_or_many_steps_is_not_checked_in_a_turn_and_is_taken_all_the_same(
    case: Framed,
) -> None:
    batch, config = framed_batch(case), LogConfig(max_message_bytes=2 << 20)
    with pytest.raises(NoRoomError):
        validate_for_append(batch, config, TIME_MS, TurnRoom())
    assert refusal(batch, config) is None


def test_the_malformed_record_among_many_is_named_in_another_turn() -> None:
    batch = framed_batch(headers_of(2_000, 1, surplus=b"z"))
    with pytest.raises(NoRoomError):
        validate_for_append(batch, LogConfig(), TIME_MS, TurnRoom())
    error = refusal(batch)
    assert error is not None
    assert str(error).startswith("record 1999 of the batch is malformed")


def test_members_of_gzip_count_as_items_of_a_request() -> None:
    with pytest.raises(KafkaError) as caught:
        validate_for_append(
            framed_batch(SLOW["members of gzip"]), LogConfig(), TIME_MS, Allowance(item_count=9_999)
        )
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    "allowance",
    [Allowance(item_count=999), Allowance(opened_bytes=9_999)],
    ids=["records", "bytes"],
)
def test_what_a_request_opens_to_is_bounded(allowance: Allowance) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_for_append(large(1_000, codec=Codec.ZSTD), LogConfig(), TIME_MS, allowance)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_of_very_many_refused_records_the_first_are_named() -> None:
    made = [NewRecord(TIME_MS, None if index % 2 else b"k", b"v") for index in range(40_000)]
    error = refusal(bytearray(build_batch(made)), LogConfig(is_compacted=True))
    assert isinstance(error, RejectedRecordsError)
    assert [index for index, _ in error.record_errors] == list(range(1, 2 * MAX_RECORD_ERRORS, 2))
    assert str(error).startswith("20000 records of the batch were refused")


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
