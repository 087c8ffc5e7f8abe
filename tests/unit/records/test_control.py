"""Markers: byte for byte what Apache Kafka writes, and read back."""

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.records.batch import is_crc_valid, parse_header
from log_service.records.builder import build_batch
from log_service.records.control import (
    ControlRecord,
    ControlType,
    EndOfTransaction,
    build_control_batch,
    build_end_transaction_marker,
    control_key,
    iterate_control_records,
    parse_control_key,
    parse_coordinator_epoch,
)
from log_service.records.record import NewRecord
from tests.unit.records.golden import GOLDEN


@pytest.mark.parametrize(
    ("name", "control_type", "base_offset", "coordinator_epoch"),
    [("commit", ControlType.COMMIT, 77, 11), ("abort", ControlType.ABORT, 78, 12)],
)
def test_markers_of_transactions_are_those_of_apache_kafka(
    name: str, control_type: ControlType, base_offset: int, coordinator_epoch: int
) -> None:
    marker = build_end_transaction_marker(
        control_type,
        producer_id=9000000001,
        producer_epoch=3,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=1700000000999,
        base_offset=base_offset,
        leader_epoch=4,
    )
    assert marker == GOLDEN[name]
    (record,) = iterate_control_records(marker)
    assert (record.offset, record.timestamp, record.type) == (
        base_offset,
        1700000000999,
        control_type,
    )
    assert parse_coordinator_epoch(record.value) == coordinator_epoch


def test_each_partition_of_a_transaction_gets_its_marker_at_its_own_offset() -> None:
    end = EndOfTransaction(
        producer_id=9000000001, producer_epoch=3, is_abort=False, coordinator_epoch=11
    )
    first = end.build(timestamp_ms=1700000000999, base_offset=77, leader_epoch=4)
    second = end.build(timestamp_ms=1700000000999, base_offset=5, leader_epoch=9)
    aborted = end._replace(is_abort=True, coordinator_epoch=12).build(
        timestamp_ms=1700000000999, base_offset=78, leader_epoch=4
    )
    assert (bytes(first), bytes(aborted)) == (GOLDEN["commit"], GOLDEN["abort"])
    header = parse_header(second)
    assert (header.base_offset, header.partition_leader_epoch, is_crc_valid(second)) == (5, 9, True)
    assert second[16:] == first[16:]


def test_control_batch_holds_several_records_and_belongs_to_no_producer() -> None:
    batch = build_control_batch(
        [(ControlType.KRAFT_VERSION, b"one"), (ControlType.KRAFT_VOTERS, b"two")],
        timestamp_ms=5,
        base_offset=30,
    )
    header = parse_header(batch)
    assert header.is_control
    assert not header.is_transactional
    assert not header.has_producer_id
    assert header.base_sequence == -1
    assert list(iterate_control_records(batch)) == [
        ControlRecord(30, 5, ControlType.KRAFT_VERSION, b"one"),
        ControlRecord(31, 5, ControlType.KRAFT_VOTERS, b"two"),
    ]


@pytest.mark.parametrize("control_type", list(ControlType))
def test_keys_come_back(control_type: ControlType) -> None:
    assert parse_control_key(control_key(control_type)) is control_type


def test_type_of_a_later_version_is_not_known() -> None:
    assert parse_control_key(bytes.fromhex("0000 0063")) is None
    assert parse_control_key(bytes.fromhex("0001 0001 ffff")) is ControlType.COMMIT


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_key_that_is_none_of_a_control_record_is_invalid(key: bytes | None) -> None:
    batch = build_batch([NewRecord(0, key, b"")], is_control=True)
    with pytest.raises(KafkaError) as caught:
        list(iterate_control_records(batch))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_marker_without_a_coordinator_epoch_is_invalid() -> None:
    with pytest.raises(KafkaError) as caught:
        parse_coordinator_epoch(b"\x00\x00\x00")
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_only_commit_and_abort_end_a_transaction() -> None:
    with pytest.raises(AssertionError):
        build_end_transaction_marker(
            ControlType.LEADER_CHANGE,
            producer_id=1,
            producer_epoch=1,
            coordinator_epoch=1,
            timestamp_ms=1,
        )
