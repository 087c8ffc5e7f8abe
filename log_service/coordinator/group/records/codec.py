"""All records of the group coordinator in ``__consumer_offsets``, with their keys and values.

The coordinator creates and replays records as values. ``encode`` and ``decode`` convert these to
the bytes that Kafka stores, and back. Each kind of record has a module beside this one. A record
type that Kafka reserves and does not use decodes to None and stays unchanged in the log.
"""

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import Buffer
from log_service.coordinator.group.records.classic import (
    GenerationRecord,
    decode_generation,
    encode_generation,
)
from log_service.coordinator.group.records.consumer import (
    CONSUMER_DECODERS,
    ConsumerGroupRecord,
    encode_consumer_record,
)
from log_service.coordinator.group.records.offset import OffsetRecord, decode_offset, encode_offset
from log_service.coordinator.group.records.share import (
    SHARE_DECODERS,
    SHARE_GROUP_RECORDS,
    ShareGroupRecord,
    encode_share_record,
)
from log_service.coordinator.group.records.streams import (
    STREAMS_DECODERS,
    STREAMS_GROUP_RECORDS,
    StreamsGroupRecord,
    encode_streams_record,
)
from log_service.protocol.schema import Message
from log_service.protocol.stored.group_records import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
)
from log_service.protocol.stored.serde import UnknownRecordTypeError, decode_key, encode_key

KEY_CLASSES: dict[int, type[Message]] = {
    0: LegacyOffsetCommitKey,
    1: OffsetCommitKey,
    2: GroupMetadataKey,
    **{
        cls.SCHEMA.key: cls
        for cls in (*CONSUMER_DECODERS, *SHARE_DECODERS, *STREAMS_DECODERS)
        if cls.SCHEMA.key is not None
    },
}
FOREIGN_TYPES = frozenset({9, 18})
"""Record types that Kafka reserves and does not use. They stay in the log unchanged."""


GroupRecord = (
    OffsetRecord | GenerationRecord | ConsumerGroupRecord | ShareGroupRecord | StreamsGroupRecord
)


def validate_size(record: GroupRecord, max_bytes: int) -> None:
    """Check that the key and the value of a member's record have at most ``max_bytes`` in total.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR, the error of Apache Kafka for a record that is too large.
    """
    size_bytes = sum(len(part) for part in encode(record) if part is not None)
    if size_bytes > max_bytes:
        text = (
            f"The record of the member has {size_bytes} bytes. A record of group {record.group_id}"
            f" may have at most {max_bytes}."
        )
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the stored key and value. A value of None is a tombstone."""
    match record:
        case OffsetRecord():
            key = OffsetCommitKey(
                group=record.group_id, topic=record.topic, partition=record.partition
            )
            return encode_key(key), encode_offset(record.committed)
        case GenerationRecord():
            return encode_key(GroupMetadataKey(group=record.group_id)), encode_generation(
                record.generation
            )
        case record if isinstance(record, SHARE_GROUP_RECORDS):
            return encode_share_record(record)
        case record if isinstance(record, STREAMS_GROUP_RECORDS):
            return encode_streams_record(record)
        case _:
            return encode_consumer_record(record)


def decode(key: Buffer, value: Buffer | None) -> GroupRecord | None:
    """Return the record, or None for a reserved record type.

    Raises:
        ProtocolError: the bytes do not match their type, or the type does not exist.
    """
    try:
        stored_key = decode_key(KEY_CLASSES, key)
    except UnknownRecordTypeError as error:
        if error.record_type in FOREIGN_TYPES:
            return None
        raise
    decode_consumer_record = CONSUMER_DECODERS.get(type(stored_key))
    if decode_consumer_record is not None:
        return decode_consumer_record(stored_key, value)
    decode_share_record = SHARE_DECODERS.get(type(stored_key))
    if decode_share_record is not None:
        return decode_share_record(stored_key, value)
    decode_streams_record = STREAMS_DECODERS.get(type(stored_key))
    if decode_streams_record is not None:
        return decode_streams_record(stored_key, value)
    if isinstance(stored_key, GroupMetadataKey):
        return GenerationRecord(group_id=stored_key.group, generation=decode_generation(value))
    assert isinstance(stored_key, OffsetCommitKey | LegacyOffsetCommitKey)
    return OffsetRecord(
        group_id=stored_key.group,
        topic=stored_key.topic,
        partition=stored_key.partition,
        committed=decode_offset(value),
    )
