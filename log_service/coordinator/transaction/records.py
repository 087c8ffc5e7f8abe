"""Records of ``__transaction_state``, as values.

A record holds the value of a transactional id, or deletes the id.

This file decides how a value is stored. If the cluster's transaction.version is 0, values have
version 0. Otherwise they have version 1, which has tagged fields. As in Apache Kafka, a record of
an unknown version decodes to None and stays unchanged in the log.
"""

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from log_service.common.errors import ProtocolError
from log_service.common.types import Buffer, TopicPartition
from log_service.coordinator.transaction.transaction import Transaction, TransactionState
from log_service.protocol.stored.serde import (
    UnknownRecordTypeError,
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
)
from log_service.protocol.stored.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

CLASSIC_VALUE_VERSION = 0
FLEXIBLE_VALUE_VERSION = 1
KEY_CLASSES = {0: TransactionLogKey}
VALUE_VERSIONS = (CLASSIC_VALUE_VERSION, FLEXIBLE_VALUE_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """The new value of a transactional id. None deletes the id."""

    transactional_id: str
    transaction: Transaction | None
    value_version: int = FLEXIBLE_VALUE_VERSION


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return the stored key and value. A value of None is a tombstone.

    Raises:
        ProtocolError: a text is too long.
    """
    key = encode_key(TransactionLogKey(transactional_id=record.transactional_id))
    return key, (
        None
        if record.transaction is None
        else _encode_value(record.transaction, record.value_version)
    )


def _encode_value(transaction: Transaction, version: int) -> bytes:
    is_empty = transaction.state is TransactionState.EMPTY
    is_flexible = version >= FLEXIBLE_VALUE_VERSION
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if is_empty else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    if is_flexible:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return encode_versioned(value, version)


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics = groupby(sorted(partitions), attrgetter("topic"))
    return [
        PartitionsSchema(topic=topic, partition_ids=[each.partition for each in group])
        for topic, group in topics
    ]


def decode(key: Buffer, value: Buffer | None) -> TransactionRecord | None:
    """Return the record, or None if the version of its key or value is unknown.

    Raises:
        ProtocolError: the bytes do not match their type.
    """
    try:
        stored_key = decode_key(KEY_CLASSES, key)
    except UnknownRecordTypeError:
        return None
    transactional_id = stored_key.transactional_id
    if value is None:
        return TransactionRecord(transactional_id=transactional_id, transaction=None)
    version = int.from_bytes(value[:2], signed=True)
    if version not in VALUE_VERSIONS:
        return None
    transaction = _decode_value(transactional_id, decode_versioned(TransactionLogValue, value))
    return TransactionRecord(
        transactional_id=transactional_id, transaction=transaction, value_version=version
    )


def _decode_value(transactional_id: str, stored: TransactionLogValue) -> Transaction:
    return Transaction(
        transactional_id=transactional_id,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        last_update_ms=stored.transaction_last_update_timestamp_ms,
        state=_state(stored.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in stored.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        start_ms=stored.transaction_start_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        client_version=stored.client_transaction_version,
    )


def _state(number: int) -> TransactionState:
    if not TransactionState.EMPTY <= number <= TransactionState.COMPLETE_ABORT:
        raise ProtocolError(
            f"TransactionLogValue: {number} is not a state of a transaction that is stored"
        )
    return TransactionState(number)
