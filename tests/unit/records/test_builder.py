"""Building batches: byte for byte what Apache Kafka builds, and read back as they were put in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.records.batch import HEADER_SIZE, is_crc_valid, iterate_records, parse_header
from log_service.records.builder import BatchBuilder, build_batch
from log_service.records.compression import Codec
from log_service.records.record import (
    NewRecord,
    Record,
    RecordHeader,
    encode_headers,
    max_record_bytes,
)
from log_service.records.varint import VARINTS, encode_varint, read_varint
from tests.unit.records.golden import GOLDEN, RECORDS
from tests.unit.records.strategies import CODECS
from tests.unit.records.strategies import RECORDS as RECORD_LISTS


def test_builds_the_bytes_that_apache_kafka_builds() -> None:
    assert build_batch(RECORDS, base_offset=1000, leader_epoch=7) == GOLDEN["none"]


def test_builds_the_transactional_bytes_that_apache_kafka_builds() -> None:
    batch = build_batch(
        RECORDS,
        base_offset=42,
        producer_id=9000000001,
        producer_epoch=3,
        base_sequence=2147483646,
        is_transactional=True,
        leader_epoch=5,
    )
    assert batch == GOLDEN["transactional"]


def test_builds_the_append_time_bytes_that_apache_kafka_builds() -> None:
    append_time_ms = parse_header(GOLDEN["append_time"]).max_timestamp
    assert (
        build_batch(RECORDS, base_offset=5, leader_epoch=2, append_time_ms=append_time_ms)
        == GOLDEN["append_time"]
    )


@given(RECORD_LISTS, CODECS, st.integers(0, 2**62))
def test_records_come_back_as_they_were_appended(
    records: list[NewRecord], codec: Codec, base_offset: int
) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)
    header = parse_header(batch)
    assert is_crc_valid(batch)
    assert header.compression is codec
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iterate_records(batch)) == [
        Record(base_offset + index, *record) for index, record in enumerate(records)
    ]


def test_header_names_longer_than_one_varint_byte_come_back() -> None:
    headers = (("name " * 100, b"v" * 300), ("é", None))
    (record,) = iterate_records(build_batch([NewRecord(0, None, None, headers)]))
    assert record.headers == headers


def test_append_returns_offsets_relative_to_the_batch() -> None:
    builder = BatchBuilder()
    assert [builder.append(0, None, b"x") for _ in range(3)] == [0, 1, 2]
    assert len(builder) == 3


def test_estimate_is_exact_without_compression() -> None:
    builder = BatchBuilder()
    assert builder.estimated_size_bytes == HEADER_SIZE
    builder.append(5, b"k", b"v" * 1000, [("h", b"x")])
    estimated_bytes = builder.estimated_size_bytes
    assert len(builder.build()) == estimated_bytes


def test_full_builder_has_no_room_but_always_for_the_first_record() -> None:
    builder = BatchBuilder(max_size_bytes=300)
    assert builder.has_room_for(None, b"v" * 1000)
    while builder.has_room_for(b"key", b"v" * 20):
        builder.append(2**40, b"key", b"v" * 20)
    assert 2 <= len(builder) <= 9
    assert builder.estimated_size_bytes <= 300


@given(
    st.integers(0, 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.one_of(st.none(), st.binary(max_size=200)),
    st.one_of(st.none(), st.binary(max_size=200)),
    st.lists(
        st.tuples(st.text(max_size=100), st.one_of(st.none(), st.binary(max_size=100))), max_size=3
    ),
)
def test_no_record_is_larger_than_its_bound(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    content = b"".join((key or b"", value or b"", encode_headers(headers)))
    lengths = [-1 if part is None else len(part) for part in (key, value)]
    fields_size = (
        1
        + sum(len(VARINTS[number]) for number in (timestamp_delta, offset_delta, *lengths))
        + len(content)
    )
    assert len(VARINTS[fields_size]) + fields_size <= max_record_bytes(key, value, headers)


def test_builder_takes_views_and_bytearrays() -> None:
    builder = BatchBuilder()
    builder.append(0, bytearray(b"key"), memoryview(b"value"))
    (record,) = iterate_records(builder.build())
    assert (record.key, record.value) == (b"key", b"value")


def test_built_batch_is_ready_to_be_stamped() -> None:
    builder = BatchBuilder(Codec.LZ4)
    builder.append(0, None, b"x")
    assert isinstance(builder.build(), bytearray)


@given(
    st.lists(
        st.one_of(
            st.none(), st.binary(max_size=40), st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 9000])
        ),
        max_size=80,
    ),
    st.sampled_from([(), (("name", b"content"), ("none", None))]),
    st.integers(0, 3000),
    st.integers(100, 20_000),
    st.integers(0, 20_000),
)
def test_values_added_together_build_the_bytes_of_single_appends(
    values: list[bytes | None],
    headers: tuple[RecordHeader, ...],
    later_ms: int,
    max_size_bytes: int,
    limit_bytes: int,
) -> None:
    """Up to the same record, too: none once the limit is reached, none that has no room."""
    together, single = (
        BatchBuilder(max_size_bytes=max_size_bytes),
        BatchBuilder(max_size_bytes=max_size_bytes),
    )
    for builder in (together, single):
        builder.append(1_700_000_000_000, b"key", b"first")
    timestamp_ms = 1_700_000_000_000 + later_ms
    expected_count = 0
    for value in values:
        if single.estimated_size_bytes >= limit_bytes or not single.append_within(
            timestamp_ms, None, value, headers
        ):
            break
        expected_count += 1
    assert together.append_values(timestamp_ms, values, headers, limit_bytes) == expected_count
    assert together.build() == single.build()


def test_large_batches_offsets_are_read_back() -> None:
    """Beyond the numbers whose varints are kept."""
    builder = BatchBuilder(max_size_bytes=1 << 20)
    builder.append(5, None, b"v")
    assert builder.append_values(5, [b"v"] * 20_000) == 20_000
    assert [record.offset for record in iterate_records(builder.build())] == list(range(20_001))


def test_empty_builder_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        BatchBuilder().build()


@given(st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-3000, 3000)))
def test_varints_come_back(number: int) -> None:
    encoded = VARINTS[number]
    assert encoded == encode_varint(number)
    assert read_varint(b"\xff" + encoded + b"\xff", 1) == (number, 1 + len(encoded))


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (64, "8001"),
        (-65, "8101"),
        (-(2**63), "ff" * 9 + "01"),
    ],
)
def test_varints_are_zig_zag(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded
