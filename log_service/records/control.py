"""Control batches, with the markers of transactions and of the metadata quorum.

The module defines a marker's key (version i16, type i16) and its batch. Values are opaque here,
except the one of a transaction's end, which every reader of a log needs. The module knows nothing
of transactions, leaders or snapshots.

Invariants: a key of a later version is read like version 0. An unknown type reads as None, and
callers skip it.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Buffer
from log_service.records.batch import iterate_records, stamp
from log_service.records.builder import build_batch
from log_service.records.record import NewRecord

_KEY = Struct(">hh")
_END_TRANSACTION = Struct(">hi")
_KEY_VERSION = 0
_END_TRANSACTION_VERSION = 0


class ControlType(IntEnum):
    """The type of a control record, by the number in its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_TRANSACTION_ENDS = (ControlType.ABORT, ControlType.COMMIT)
_TYPES_BY_NUMBER = {int(control_type): control_type for control_type in ControlType}


class ControlRecord(NamedTuple):
    """A control record. ``type`` is None for an unknown type of a later version."""

    offset: int
    timestamp: int
    type: ControlType | None
    value: bytes


def control_key(control_type: ControlType) -> bytes:
    """Return the key of a control record."""
    return _KEY.pack(_KEY_VERSION, control_type)


def parse_control_key(key: bytes | None) -> ControlType | None:
    """Return the type in a control record's key, or None for an unknown type.

    Raises:
        KafkaError: INVALID_RECORD, it is not the key of a control record.
    """
    if key is None or len(key) < _KEY.size:
        text = (
            f"the key of a control record takes {_KEY.size} bytes, this one has"
            f" {None if key is None else len(key)}"
        )
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    version, number = _KEY.unpack_from(key)
    if version < 0:
        text = f"the key of a control record has version {version}"
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    return _TYPES_BY_NUMBER.get(number)


def build_control_batch(
    records: Sequence[tuple[ControlType, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> bytes:
    """Return one control batch of (type, value) records, at least one.

    Control batches are never compressed and have no sequence.
    """
    return build_batch(
        [
            NewRecord(timestamp_ms, control_key(control_type), value)
            for control_type, value in records
        ],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_transactional,
        is_control=True,
    )


def build_end_transaction_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Return the batch that ends a producer's transaction, ABORT or COMMIT (KIP-98)."""
    assert control_type in {ControlType.ABORT, ControlType.COMMIT}
    return build_control_batch(
        [(control_type, _END_TRANSACTION.pack(_END_TRANSACTION_VERSION, coordinator_epoch))],
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )


class EndOfTransaction(NamedTuple):
    """A transaction coordinator's request to the partitions of a transaction to end it.

    ``transaction_version`` is the client's (KIP-1228).
    """

    producer_id: int
    producer_epoch: int
    is_abort: bool
    coordinator_epoch: int
    transaction_version: int = 0

    def build(self, *, timestamp_ms: int, base_offset: int, leader_epoch: int) -> bytearray:
        """Return the marker with the offset and the leader epoch of a partition's log."""
        batch = bytearray(_unplaced_marker(self, timestamp_ms))
        stamp(batch, 0, base_offset, leader_epoch)
        return batch


@lru_cache(maxsize=16)
def _unplaced_marker(end: EndOfTransaction, timestamp_ms: int) -> bytes:
    """Return a marker without offset and leader epoch.

    The logs of all partitions of a transaction get these bytes, and each writes its own offset and
    epoch into them.
    """
    return build_end_transaction_marker(
        ControlType.ABORT if end.is_abort else ControlType.COMMIT,
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        coordinator_epoch=end.coordinator_epoch,
        timestamp_ms=timestamp_ms,
    )


def parse_coordinator_epoch(value: bytes) -> int:
    """Return the coordinator epoch in the value of an ABORT or COMMIT record.

    Raises:
        KafkaError: INVALID_RECORD, the value is too short.
    """
    if len(value) < _END_TRANSACTION.size:
        text = (
            f"the value of a transaction marker takes {_END_TRANSACTION.size} bytes, this one has"
            f" {len(value)}"
        )
        raise KafkaError(ErrorCode.INVALID_RECORD, text)
    _, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    return int(coordinator_epoch)


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction in a partition.

    ``coordinator_epoch`` is -1 if compaction removed the record from its batch.
    """

    is_abort: bool
    coordinator_epoch: int


_EMPTIED = TransactionMarker(is_abort=False, coordinator_epoch=-1)


def read_marker(batch: Buffer) -> TransactionMarker | None:
    """Return the transaction's end in a control batch, or None if the batch is no such marker.

    Raises:
        KafkaError: INVALID_RECORD, or an error of ``iterate_records``; the batch is damaged.
    """
    record = next(iterate_control_records(batch), None)
    if record is None:
        return _EMPTIED
    if record.type not in _TRANSACTION_ENDS:
        return None
    return TransactionMarker(
        is_abort=record.type is ControlType.ABORT,
        coordinator_epoch=parse_coordinator_epoch(record.value),
    )


def iterate_control_records(buffer: Buffer, position: int = 0) -> Iterator[ControlRecord]:
    """Yield the records of the batch at ``position``, which must be a control batch.

    Raises:
        KafkaError: as ``iterate_records`` and ``parse_control_key``.
    """
    for record in iterate_records(buffer, position):
        yield ControlRecord(
            record.offset, record.timestamp, parse_control_key(record.key), record.value or b""
        )
