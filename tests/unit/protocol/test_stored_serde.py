"""Stored records carry the prefixes that Apache Kafka 4.3.1 writes.

The hex below came from its own serdes.
"""

from uuid import UUID

import pytest

from log_service.common.errors import ProtocolError
from log_service.protocol.schema import Message
from log_service.protocol.stored.control_records import EndTxnMarker
from log_service.protocol.stored.group_records import (
    GROUP_KEY_CLASSES,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from log_service.protocol.stored.metadata_records import (
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from log_service.protocol.stored.serde import (
    UnknownRecordTypeError,
    decode_key,
    decode_metadata_record,
    decode_versioned,
    encode_key,
    encode_metadata_record,
    encode_versioned,
    highest_version,
)

TOPIC_ID = UUID(int=1 << 64 | 2)
DIRECTORY_ID = UUID(int=5 << 64 | 6)

METADATA = [
    (
        TopicRecord(name="flights", topic_id=TOPIC_ID),
        0,
        "01020008666c69676874730000000000000001000000000000000200",
    ),
    (NoOpRecord(), 0, "01140000"),
    (
        PartitionRecord(
            partition_id=3,
            topic_id=TOPIC_ID,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[DIRECTORY_ID],
        ),
        1,
        "0103010000000300000000000000010000000000000002020000000102000000010101000000010000000000000000020000000000000005000000000000000600",
    ),
    (
        PartitionChangeRecord(partition_id=3, topic_id=TOPIC_ID, leader=2, isr=[1, 2]),
        2,
        "0105020000000300000000000000010000000000000002020009030000000100000002010400000002",
    ),
    (
        ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=1000),
        0,
        "010f0000000001000000000000000900000000000003e800",
    ),
]

KEYS = [
    (
        OffsetCommitKey(group="g", topic="flights", partition=3),
        "00010001670007666c696768747300000003",
    ),
    (GroupMetadataKey(group="g"), "0002000167"),
]

MEMBER = MemberMetadata(
    member_id="m-1",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=60000,
    session_timeout=10000,
    subscription=b"\1\2",
    assignment=b"\3",
)
VALUES: list[tuple[Message, int, str]] = [
    (
        OffsetCommitValue(offset=42, leader_epoch=5, metadata="m", commit_timestamp=1700000000000),
        4,
        "0004000000000000002a00000005026d0000018bcfe5680000",
    ),
    (
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="m-1",
            current_state_timestamp=7,
            members=[MEMBER],
        ),
        3,
        "00030008636f6e73756d657200000001000572616e676500036d2d3100000000000000070000000100036d2d31ffff000163000a2f3132372e302e302e31"
        "0000ea60000027100000000201020000000103",
    ),
    (EndTxnMarker(coordinator_epoch=7), 0, "000000000007"),
]


@pytest.mark.parametrize(("record", "version", "encoded"), METADATA)
def test_metadata_record_is_framed_as_kafka_frames_it(
    record: MetadataRecord, version: int, encoded: str
) -> None:
    assert encode_metadata_record(record, version).hex() == encoded
    assert decode_metadata_record(memoryview(bytes.fromhex(encoded))) == record


@pytest.mark.parametrize(("key", "encoded"), KEYS)
def test_key_begins_with_its_record_type(key: Message, encoded: str) -> None:
    assert encode_key(key).hex() == encoded
    assert decode_key(GROUP_KEY_CLASSES, bytes.fromhex(encoded)) == key


@pytest.mark.parametrize(("value", "version", "encoded"), VALUES)
def test_value_begins_with_its_version(value: Message, version: int, encoded: str) -> None:
    assert encode_versioned(value, version).hex() == encoded
    assert decode_versioned(type(value), bytes.fromhex(encoded)) == value


def test_value_may_be_followed_by_what_a_newer_writer_added() -> None:
    assert decode_versioned(EndTxnMarker, bytes.fromhex("000000000007") + b"more") == EndTxnMarker(
        coordinator_epoch=7
    )


def test_highest_version_is_the_newest_that_is_written() -> None:
    assert highest_version(OffsetCommitValue) == 4
    assert highest_version(TopicRecord) == 0


@pytest.mark.parametrize(
    "encoded",
    ["", "01", "0114", "011400", "02140000", "0114010000", "0114000000", "01ffffffffff0000"],
)
def test_damaged_metadata_record_is_refused(encoded: str) -> None:
    with pytest.raises(ProtocolError):
        decode_metadata_record(bytes.fromhex(encoded))


def test_unknown_record_types_are_told_apart_from_damage() -> None:
    with pytest.raises(UnknownRecordTypeError) as of_metadata:
        decode_metadata_record(bytes.fromhex("017d0000"))
    with pytest.raises(UnknownRecordTypeError) as of_group:
        decode_key(GROUP_KEY_CLASSES, b"\0\x63\0\1g")
    assert (of_metadata.value.record_type, of_group.value.record_type) == (125, 99)


@pytest.mark.parametrize("encoded", ["", "00", "0009", "00030008"])
def test_damaged_value_is_refused(encoded: str) -> None:
    classes: dict[int, type[GroupMetadataKey | OffsetCommitKey]] = {
        3: GroupMetadataKey,
        0: OffsetCommitKey,
    }
    with pytest.raises(ProtocolError):
        decode_versioned(GroupMetadataValue, bytes.fromhex(encoded))
    with pytest.raises(ProtocolError):
        decode_key(classes, bytes.fromhex(encoded))
