"""Convert share states to and from the messages of the share state APIs (KIP-932).

This file decides nothing. The share coordinator uses it for requests that it receives, and a broker
for responses to its requests.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import (
    UNKNOWN_COUNT,
    UNKNOWN_START_OFFSET,
    ShareState,
)
from log_service.coordinator.share.window import StateBatch
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing

B = TypeVar("B")


class _Batch(Protocol):
    """The common fields of state batches, in messages and in ``window``."""

    @property
    def first_offset(self) -> int:
        """The first offset."""

    @property
    def last_offset(self) -> int:
        """The last offset (inclusive)."""

    @property
    def delivery_state(self) -> int:
        """The number of the stored state."""

    @property
    def delivery_count(self) -> int:
        """The delivery count of the records."""


def _copied(batches: Iterable[_Batch], new: Callable[..., B]) -> list[B]:
    return [
        new(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]


def write_request(partition: int, write: ShareStateWrite) -> writing.PartitionData:
    """Convert the write of one partition to the part of a request that holds it."""
    return writing.PartitionData(
        partition=partition,
        state_epoch=write.state_epoch,
        leader_epoch=write.leader_epoch,
        start_offset=write.start_offset,
        delivery_complete_count=write.delivery_complete_count,
        state_batches=_copied(write.batches, writing.StateBatch),
    )


def requested_write(asked: writing.PartitionData) -> ShareStateWrite:
    """Convert the part of a request for one partition to a write."""
    return ShareStateWrite(
        state_epoch=asked.state_epoch,
        leader_epoch=asked.leader_epoch,
        start_offset=asked.start_offset,
        delivery_complete_count=asked.delivery_complete_count,
        batches=tuple(_copied(asked.state_batches, StateBatch)),
    )


def read_result(partition: int, state: ShareState) -> reading.PartitionResult:
    """Return a state as the result of a read."""
    return reading.PartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=_copied(state.batches, reading.StateBatch),
    )


def state_read(result: reading.PartitionResult) -> ShareState:
    """Return the state from a read's result.

    Its snapshot epoch and leader epoch are 0, because the result does not hold them.
    """
    batches = tuple(_copied(result.state_batches, StateBatch))
    return ShareState(
        snapshot_epoch=0,
        state_epoch=result.state_epoch,
        leader_epoch=0,
        start_offset=result.start_offset,
        batches=batches,
    )


def summary_result(partition: int, state: ShareState | None) -> summarizing.PartitionResult:
    """Return a state as the result of a summary.

    For a missing state, offset and count are unknown.
    """
    if state is None:
        return summarizing.PartitionResult(
            partition=partition,
            start_offset=UNKNOWN_START_OFFSET,
            delivery_complete_count=UNKNOWN_COUNT,
        )
    return summarizing.PartitionResult(
        partition=partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )


def state_summarized(result: summarizing.PartitionResult) -> ShareState:
    """Return the state from a summary's result, without batches because the result has none."""
    return ShareState(
        snapshot_epoch=0,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    )
