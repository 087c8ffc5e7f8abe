"""Holds this node's appended metadata batches until commit, then passes them to listeners.

Invariant: a batch is handed to listeners once, in order, and only when it is committed.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.batches import MetadataBatch
from log_service.raft.snapshots import Snapshot


class MetadataListener(Protocol):
    """A reader of the metadata log. Its methods are called on the event loop and must not wait."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Drop all state and begin with a snapshot."""

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        """Apply the next committed batches."""

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Handle a new leader or epoch. ``leader_id`` is -1 while no leader is known.

        This node is reported as the leader only after it has got all committed records of earlier
        epochs.
        """


class MetadataListeners:
    """The listeners of one metadata log, in the order in which they subscribed."""

    def __init__(self) -> None:
        self._listeners: list[MetadataListener] = []
        self._uncommitted: deque[MetadataBatch] = deque()

    def subscribe(self, listener: MetadataListener) -> None:
        """Pass committed batches to ``listener``."""
        self._listeners.append(listener)

    def add(self, batches: Iterable[MetadataBatch]) -> None:
        """Keep batches that were appended until they are committed."""
        self._uncommitted += batches

    def truncate_to(self, offset: int) -> None:
        """Drop the batches that end at or above ``offset``."""
        while self._uncommitted and self._uncommitted[-1].last_offset >= offset:
            self._uncommitted.pop()

    def clear(self) -> None:
        """Drop all batches, because a snapshot replaces the log."""
        self._uncommitted.clear()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Let every listener begin with a snapshot."""
        for listener in self._listeners:
            listener.on_snapshot(snapshot)

    def hand_out(self, high_watermark: int) -> int:
        """Pass the batches below ``high_watermark`` to the listeners. Return their total bytes."""
        committed: list[MetadataBatch] = []
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            committed.append(self._uncommitted.popleft())
        if committed:
            for listener in self._listeners:
                listener.on_batches(committed)
        return sum(batch.size_bytes for batch in committed)

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Notify the listeners of a new leader or epoch."""
        for listener in self._listeners:
            listener.on_leader_change(leader_id, epoch)
