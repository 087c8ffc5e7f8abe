"""A leader refuses a producer's batch with a code, and leaves parts of it unopened."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import LogConfig
from log_service.records.batch import (
    HEADER,
    HEADER_SIZE,
    compute_crc,
    is_crc_valid,
    iterate_records,
    parse_header,
)
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.control import ControlType, build_end_transaction_marker
from log_service.records.record import NewRecord
from log_service.records.validator import (
    Allowance,
    RejectedRecordsError,
    ValidatedBatches,
    accept_own_batches,
    validate_for_append,
)
from tests.unit.records.golden import GOLDEN

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def validate(
    batch: bytes | bytearray, *, max_plain_bytes: int = 1 << 20, **rules: Any
) -> ValidatedBatches:
    """Validate against a topic's configuration, which has only defaults but for ``rules``."""
    return validate_for_append(
        bytearray(batch), LogConfig(**rules), NOW_MS, Allowance(max_plain_bytes)
    )


def record_count(validated: ValidatedBatches) -> int:
    return sum(header.record_count for _, header in validated.batches)


def refusal(batch: bytes | bytearray, **rules: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        validate(batch, **rules)
    return caught.value


def batch_of(
    *values: bytes | None, key: bytes | None = b"key", timestamp: int = NOW_MS, **fields: Any
) -> bytes:
    return build_batch(
        [NewRecord(timestamp, key, value) for value in values or (b"value",)], **fields
    )


def with_fields(batch: bytes, **fields: int) -> bytearray:
    """Return a batch with other header fields and a checksum that holds."""
    changed = bytearray(batch)
    header = parse_header(batch)._replace(**fields)
    HEADER.pack_into(changed, 0, *header)
    HEADER.pack_into(changed, 0, *header._replace(crc=compute_crc(changed)))
    return changed


# What is accepted


@pytest.mark.parametrize("codec", list(Codec))
def test_batch_of_any_codec_is_accepted_as_it_is(codec: Codec) -> None:
    batch = bytearray(batch_of(b"a", b"b", b"c", codec=codec))
    validated = validate_for_append(
        memoryview(batch), LogConfig(max_message_bytes=len(batch)), NOW_MS
    )
    assert bytes(validated.buffer) == bytes(batch)
    assert validated.batches == ((0, parse_header(batch)),)
    assert (record_count(validated), validated.size_bytes, validated.max_timestamp) == (
        3,
        len(batch),
        NOW_MS,
    )


def test_accepted_buffer_is_the_one_that_came() -> None:
    view = memoryview(bytearray(batch_of()))
    assert validate_for_append(view, LogConfig(), NOW_MS).buffer is view


@pytest.mark.parametrize("is_transactional", [False, True])
def test_batch_of_an_idempotent_producer_is_accepted(is_transactional: bool) -> None:
    batch = batch_of(
        producer_id=0, producer_epoch=0, base_sequence=0, is_transactional=is_transactional
    )
    assert record_count(validate(batch)) == 1


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.binary(max_size=200)),
            st.one_of(st.none(), st.binary(max_size=200)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_whatever_is_built_is_accepted(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    assert record_count(
        validate(
            build_batch(
                [NewRecord(NOW_MS - 5, key, value, (("h", value),)) for key, value in pairs]
            )
        )
    ) == len(pairs)


def test_compressed_batch_that_does_not_decompress_is_invalid() -> None:
    batch = batch_of(codec=Codec.ZSTD)
    garbage = with_fields(batch[:HEADER_SIZE] + b"\x00" * (len(batch) - HEADER_SIZE))
    assert refusal(garbage).code is ErrorCode.INVALID_RECORD


# Shape


@pytest.mark.parametrize("size_bytes", [0, 16])
def test_no_batch_is_invalid(size_bytes: int) -> None:
    assert refusal(bytes(size_bytes)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magic_is_invalid(magic: int) -> None:
    """As in Apache Kafka 4.3: these versions of Produce carry nothing but magic 2."""
    batch = bytearray(batch_of())
    batch[16] = magic
    assert refusal(batch).code is ErrorCode.INVALID_RECORD


def test_unknown_magic_is_corrupt() -> None:
    batch = bytearray(batch_of())
    batch[16] = 3
    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


def test_batch_larger_than_the_topic_allows_is_too_large() -> None:
    batch = batch_of(b"v" * 1000)
    assert refusal(batch, max_message_bytes=len(batch) - 1).code is ErrorCode.MESSAGE_TOO_LARGE
    assert record_count(validate(batch, max_message_bytes=len(batch))) == 1


def test_batch_that_is_cut_off_is_invalid() -> None:
    """As in Apache Kafka 4.3: it finds no whole batch in the request."""
    assert refusal(batch_of()[:-1]).code is ErrorCode.INVALID_RECORD


def test_second_batch_is_invalid() -> None:
    """A produce request of version 3 and later carries exactly one batch for a partition."""
    error = refusal(batch_of() + batch_of())
    assert error.code is ErrorCode.INVALID_RECORD
    assert "one batch" in str(error)


@pytest.mark.parametrize("position", [17, 22, 60, -1])
def test_damaged_batch_is_corrupt_whatever_the_damage_says(position: int) -> None:
    """A producer sends it again; INVALID_RECORD would make it give the records up."""
    batch = bytearray(batch_of())
    batch[position] ^= 0x28
    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


# Header fields


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"base_offset": -1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 2}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 1}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x10}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x05}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"producer_id": 5}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "base_sequence": 0}, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_field_that_no_producer_may_set_is_refused(fields: dict[str, int], code: ErrorCode) -> None:
    assert refusal(with_fields(batch_of(), **fields)).code is code


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": 0x40},
        {"attributes": 0x80},
        {"producer_id": -2, "producer_epoch": 0, "base_sequence": 0},
    ],
)
def test_field_without_a_meaning_for_producers_is_taken(fields: dict[str, int]) -> None:
    """A delete horizon is the cleaner's, unused bits and ids below 0 belong to no producer.

    So it is in Apache Kafka 4.3.
    """
    assert record_count(validate(with_fields(batch_of(), **fields))) == 1


def test_claim_of_a_stamped_time_is_taken_out() -> None:
    """Apache Kafka 4.3 takes the claim out, too.

    Readers would else take the latest timestamp for that of every record.
    """
    validated = validate(with_fields(batch_of(), attributes=0x08))
    assert not validated.batches[0][1].is_append_time
    assert not parse_header(validated.buffer).is_append_time
    assert is_crc_valid(validated.buffer)


def test_timestamps_before_1970_are_taken() -> None:
    assert (
        validate(with_fields(batch_of(), base_timestamp=-2, max_timestamp=-2)).max_timestamp == -2
    )


def test_producers_write_no_markers() -> None:
    marker = build_end_transaction_marker(
        ControlType.ABORT, producer_id=1, producer_epoch=1, coordinator_epoch=1, timestamp_ms=NOW_MS
    )
    assert refusal(marker).code is ErrorCode.INVALID_RECORD


# Timestamps


def test_timestamps_too_far_ahead_name_their_records() -> None:
    ahead = NOW_MS + HOUR_MS + 1
    error = refusal(
        build_batch(
            [NewRecord(NOW_MS, None, b"a"), NewRecord(ahead, None, b"b"), NewRecord(-1, None, b"c")]
        )
    )
    assert isinstance(error, RejectedRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]
    assert str(ahead) in error.record_errors[0][1]


def test_timestamps_too_far_back_name_their_records() -> None:
    batch = build_batch(
        [NewRecord(NOW_MS, None, b"a"), NewRecord(NOW_MS - HOUR_MS - 1, None, b"b")],
        codec=Codec.LZ4,
    )
    assert record_count(validate(batch)) == 2
    error = refusal(batch, message_timestamp_before_max_ms=HOUR_MS)
    assert isinstance(error, RejectedRecordsError)
    assert [index for index, _ in error.record_errors] == [1]


def test_records_without_timestamp_are_never_too_old() -> None:
    assert (
        validate(batch_of(timestamp=-1), message_timestamp_before_max_ms=HOUR_MS).max_timestamp
        == -1
    )


def test_append_time_does_not_look_at_timestamps() -> None:
    batch = batch_of(timestamp=NOW_MS + 10 * HOUR_MS)
    assert (
        record_count(
            validate(
                batch, message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=1
            )
        )
        == 1
    )


# Keys


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_compacted_topic_refuses_each_record_without_key(codec: Codec) -> None:
    records = [NewRecord(NOW_MS, key, b"v") for key in (b"k", None, b"", None)]
    error = refusal(build_batch(records, codec=codec), is_compacted=True)
    assert isinstance(error, RejectedRecordsError)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]
    assert record_count(validate(build_batch(records[::2], codec=codec), is_compacted=True)) == 2


# Codecs


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["none", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_topic_with_a_codec_of_its_own_gets_it(source: Codec, target: str) -> None:
    batch = batch_of(
        b"a" * 500, None, codec=source, producer_id=4, producer_epoch=2, base_sequence=8
    )
    validated = validate(batch, compression_type=target)
    ((_, header),) = validated.batches
    assert header.compression is Codec.of_name(target)
    assert header == parse_header(validated.buffer)
    assert is_crc_valid(validated.buffer)
    assert validated.size_bytes == len(validated.buffer)
    assert list(iterate_records(validated.buffer)) == list(iterate_records(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, 8)


def test_batch_that_grows_past_the_bound_when_its_codec_changes_is_too_large() -> None:
    batch = batch_of(b"a" * 5000, codec=Codec.GZIP)
    assert (
        refusal(batch, compression_type="none", max_message_bytes=1000).code
        is ErrorCode.MESSAGE_TOO_LARGE
    )


def test_batch_that_decompresses_to_too_much_is_too_large() -> None:
    batch = batch_of(bytes(100_000), codec=Codec.ZSTD)
    assert (
        refusal(batch, is_compacted=True, max_plain_bytes=10_000).code
        is ErrorCode.MESSAGE_TOO_LARGE
    )


def test_bytes_that_do_not_decompress_are_invalid_not_corrupt() -> None:
    """The checksum holds: a producer that were told CORRUPT_MESSAGE would send them again for ever."""
    batch = batch_of(codec=Codec.ZSTD)
    garbage = with_fields(batch[:HEADER_SIZE] + b"\x00" * (len(batch) - HEADER_SIZE))
    assert refusal(garbage, is_compacted=True).code is ErrorCode.INVALID_RECORD


# Records


LENGTH, TIMESTAMP, OFFSET, KEY_LENGTH = (
    HEADER_SIZE,
    HEADER_SIZE + 2,
    HEADER_SIZE + 3,
    HEADER_SIZE + 4,
)
VALUE_LENGTH, HEADER_COUNT = HEADER_SIZE + 8, HEADER_SIZE + 10


@pytest.mark.parametrize(
    ("position", "byte"),
    [
        (LENGTH, 0x01),
        (LENGTH, 0x12),
        (LENGTH, 0x16),
        (LENGTH, 0xFF),
        (TIMESTAMP, 0x80),
        (OFFSET, 0x02),
        (KEY_LENGTH, 0x03),
        (KEY_LENGTH, 0x01),
        (KEY_LENGTH, 0x7E),
        (VALUE_LENGTH, 0x03),
        (VALUE_LENGTH, 0x04),
        (HEADER_COUNT, 0x01),
        (HEADER_COUNT, 0x02),
    ],
)
def test_single_record_that_is_malformed_is_invalid(position: int, byte: int) -> None:
    batch = bytearray(batch_of(b"v"))
    batch[position] = byte
    assert refusal(with_fields(bytes(batch))).code is ErrorCode.INVALID_RECORD


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 255)), max_size=3), st.integers(0, 3))
def test_single_record_is_accepted_where_it_reads(
    damages: list[tuple[int, int]], header_count: int
) -> None:
    batch = bytearray(
        build_batch([NewRecord(NOW_MS, b"key", b"value", (("h", None),) * header_count)])
    )
    for index, byte in damages:
        batch[HEADER_SIZE + index % (len(batch) - HEADER_SIZE)] = byte
    batch = with_fields(bytes(batch))
    assert is_accepted(batch) == is_readable_at_offset_0(batch)


def is_accepted(batch: bytearray) -> bool:
    try:
        return record_count(validate(batch)) == 1
    except KafkaError:
        return False


def is_readable_at_offset_0(batch: bytearray) -> bool:
    try:
        return [record.offset for record in iterate_records(batch)] == [0]
    except KafkaError:
        return False


def test_more_records_than_there_is_room_for_are_invalid() -> None:
    batch = with_fields(batch_of(), record_count=1000, last_offset_delta=999)
    assert refusal(batch).code is ErrorCode.INVALID_RECORD
    assert refusal(batch, is_compacted=True).code is ErrorCode.INVALID_RECORD


def test_offsets_with_gaps_are_invalid_where_the_batch_is_opened() -> None:
    batch = bytearray(batch_of(b"a", b"b"))
    second = batch.rindex(b"\x06key") - 1
    assert batch[second] == 2
    batch[second] = 4
    error = refusal(with_fields(bytes(batch)), is_compacted=True)
    assert isinstance(error, RejectedRecordsError)
    assert [index for index, _ in error.record_errors] == [1]


# Our own


def test_own_batches_are_taken_at_their_word() -> None:
    buffer = bytearray(GOLDEN["none"] + GOLDEN["gzip"])
    validated = accept_own_batches(buffer)
    assert [position for position, _ in validated.batches] == [0, len(GOLDEN["none"])]
    assert (record_count(validated), validated.size_bytes) == (10, len(buffer))
    assert validated.max_timestamp == 1700000090123


def test_own_append_is_never_empty() -> None:
    with pytest.raises(AssertionError):
        accept_own_batches(bytearray())
