"""Other people's readers read our batches, and their batches are read.

They are kafka-python and aiokafka, with every codec they have.
"""

import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from log_service.config.views import FOREVER_MS, LogConfig
from log_service.records.batch import is_crc_valid, iterate_records, parse_header
from log_service.records.builder import build_batch
from log_service.records.compression import Codec
from log_service.records.record import NewRecord, Record
from log_service.records.validator import validate_for_append
from tests.unit.records.golden import RECORDS
from tests.unit.records.strategies import NULLABLE_BYTES

with warnings.catch_warnings():
    # It reads its own schemas in a deprecated way.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.codec import has_lz4, has_snappy, has_zstd
    from kafka.record import MemoryRecords, MemoryRecordsBuilder

KAFKA_PYTHON_CODECS = [
    Codec.NONE,
    Codec.GZIP,
    *([Codec.SNAPPY] if has_snappy() else []),
    *([Codec.LZ4] if has_lz4() else []),
    *([Codec.ZSTD] if has_zstd() else []),
]
HEADERS = st.lists(
    st.tuples(st.text(min_size=1, max_size=20), st.binary(max_size=30)), max_size=3
).map(tuple)
# Both libraries refuse what Kafka allows: negative timestamps, empty names.
PLAIN_RECORDS = st.lists(
    st.builds(NewRecord, st.integers(0, 2**42), NULLABLE_BYTES, NULLABLE_BYTES, HEADERS),
    min_size=1,
    max_size=20,
)


def fields(record: Any) -> tuple[Any, ...]:
    """Return what a library read, in the order of our record."""
    return (
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple((name, value) for name, value in record.headers),
    )


def expected(records: list[NewRecord], base_offset: int = 0) -> list[Record]:
    return [Record(base_offset + index, *record) for index, record in enumerate(records)]


@settings(deadline=None)
@given(PLAIN_RECORDS, st.sampled_from(KAFKA_PYTHON_CODECS))
def test_kafka_python_reads_our_batches(records: list[NewRecord], codec: Codec) -> None:
    log = MemoryRecords(build_batch(records, codec=codec, base_offset=70))
    batch = log.next_batch()
    assert batch.validate_crc()
    assert [fields(record) for record in batch] == [
        tuple(record) for record in expected(records, 70)
    ]
    assert not log.has_next()


@settings(deadline=None)
@given(PLAIN_RECORDS, st.sampled_from(list(Codec)))
def test_aiokafka_reads_our_batches(records: list[NewRecord], codec: Codec) -> None:
    log = AiokafkaRecords(build_batch(records, codec=codec, base_offset=70))
    batch = log.next_batch()
    assert batch is not None
    assert batch.validate_crc()
    assert [fields(record) for record in batch] == [
        tuple(record) for record in expected(records, 70)
    ]
    assert not log.has_next()


@settings(deadline=None)
@given(PLAIN_RECORDS, st.sampled_from(KAFKA_PYTHON_CODECS))
def test_batches_of_kafka_python_are_read(records: list[NewRecord], codec: Codec) -> None:
    builder = MemoryRecordsBuilder(magic=2, compression_type=int(codec), batch_size=1 << 24)
    for record in records:
        assert (
            builder.append(record.timestamp, record.key, record.value, list(record.headers))
            is not None
        )
    builder.close()
    check_batch(bytearray(builder.buffer()), records)


@settings(deadline=None)
@given(PLAIN_RECORDS, st.sampled_from(list(Codec)))
def test_batches_of_aiokafka_are_read(records: list[NewRecord], codec: Codec) -> None:
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    check_batch(bytearray(builder.build()), records)


def check_batch(batch: bytearray, records: list[NewRecord]) -> None:
    """A leader takes the batch, opened or not, and its records are those that went in."""
    assert is_crc_valid(batch)
    assert parse_header(batch).record_count == len(records)
    for is_compacted in (False, all(record.key is not None for record in records)):
        validate_for_append(
            batch,
            LogConfig(
                max_message_bytes=len(batch),
                is_compacted=is_compacted,
                message_timestamp_after_max_ms=FOREVER_MS,
            ),
            2**42,
        )
    assert list(iterate_records(batch)) == expected(records)


@pytest.mark.parametrize("codec", list(Codec))
def test_aiokafka_knows_a_transactional_batch(codec: Codec) -> None:
    batch = AiokafkaRecords(
        build_batch(
            RECORDS,
            codec=codec,
            producer_id=5,
            producer_epoch=2,
            base_sequence=9,
            is_transactional=True,
        )
    ).next_batch()
    assert batch is not None
    assert batch.is_transactional
    assert batch.producer_id == 5
    assert not batch.is_control_batch
