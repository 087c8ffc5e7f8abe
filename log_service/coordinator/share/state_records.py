"""Records of ``__share_group_state``, as values: snapshots of share states, and updates of them.

The share coordinator decides on these values and replays them. ``encode`` and ``decode`` convert
them to the keys and values that Kafka stores, and back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from log_service.common.types import Buffer
from log_service.coordinator.share.share_state import ShareKey, ShareState
from log_service.coordinator.share.window import StateBatch
from log_service.protocol.stored.serde import (
    decode_key,
    decode_versioned,
    encode_key,
    encode_versioned,
)
from log_service.protocol.stored.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareSnapshotValueStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
    ShareUpdateValueStateBatch,
)

KEY_CLASSES: dict[int, type[ShareSnapshotKey | ShareUpdateKey]] = {
    0: ShareSnapshotKey,
    1: ShareUpdateKey,
}
VALUE_VERSION = 0

B = TypeVar("B", ShareSnapshotValueStateBatch, ShareUpdateValueStateBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """The whole state of one partition of one group. None deletes the state."""

    key: ShareKey
    state: ShareState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRecord:
    """The changes of a write to the last snapshot. A start offset of -1 means no change."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


ShareRecord = SnapshotRecord | UpdateRecord


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return the stored key and value.

    A value of None is a tombstone.

    Raises:
        ProtocolError: a value does not fit into its field.
    """
    key = record.key
    match record:
        case SnapshotRecord(state=state):
            stored = ShareSnapshotKey(
                group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
            )
            return encode_key(stored), None if state is None else _encode_state(state)
        case UpdateRecord():
            value = ShareUpdateValue(
                snapshot_epoch=record.snapshot_epoch,
                leader_epoch=record.leader_epoch,
                start_offset=record.start_offset,
                delivery_complete_count=record.delivery_complete_count,
                state_batches=_encode_batches(ShareUpdateValueStateBatch, record.batches),
            )
            stored_key = ShareUpdateKey(
                group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
            )
            return encode_key(stored_key), encode_versioned(value, VALUE_VERSION)


def _encode_state(state: ShareState) -> bytes:
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=_encode_batches(ShareSnapshotValueStateBatch, state.batches),
    )
    return encode_versioned(value, VALUE_VERSION)


def _encode_batches(of: type[B], batches: Iterable[StateBatch]) -> list[B]:
    return [
        of(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]


def decode(key: Buffer, value: Buffer | None) -> ShareRecord | None:
    """Return the record, or None for an update without a value. Such an update has no effect.

    Raises:
        ProtocolError: the bytes do not match their type, or the type does not exist.
    """
    stored_key = decode_key(KEY_CLASSES, key)
    share_key = ShareKey(
        group_id=stored_key.group_id, topic_id=stored_key.topic_id, partition=stored_key.partition
    )
    if isinstance(stored_key, ShareSnapshotKey):
        return SnapshotRecord(
            key=share_key,
            state=(
                None
                if value is None
                else _decode_state(decode_versioned(ShareSnapshotValue, value))
            ),
        )
    if value is None:
        return None
    update = decode_versioned(ShareUpdateValue, value)
    return UpdateRecord(
        key=share_key,
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=_decode_batches(update.state_batches),
    )


def _decode_state(stored: ShareSnapshotValue) -> ShareState:
    return ShareState(
        snapshot_epoch=stored.snapshot_epoch,
        state_epoch=stored.state_epoch,
        leader_epoch=stored.leader_epoch,
        start_offset=stored.start_offset,
        delivery_complete_count=stored.delivery_complete_count,
        create_timestamp_ms=stored.create_timestamp,
        write_timestamp_ms=stored.write_timestamp,
        batches=_decode_batches(stored.state_batches),
    )


def _decode_batches(
    batches: Iterable[ShareSnapshotValueStateBatch] | Iterable[ShareUpdateValueStateBatch],
) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    )
