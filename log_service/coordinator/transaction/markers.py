"""Markers of ending transactions: waiting markers, markers in flight, and responses to them.

This file decides which broker gets a marker, and which errors are retried. A broker has at most one
request in flight. This file does not know connections, and of transactions it knows only their
markers. Deleted partitions count as written, because they hold no transaction to end.

Invariant: Each partition of each announced transaction is waiting or in flight until one of three
things happens. Its marker is written, or another coordinator owns the transaction, or this node no
longer leads the coordinator's partition.

Source: KIP-98; KIP-1228 (the transaction version in markers).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from log_service.common.errors import ErrorCode
from log_service.common.types import NodeId, TopicPartition
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

OWNED_ELSEWHERE = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""Errors of a partition to which a later coordinator has written. That one ends the transaction."""
WITHOUT_MARKER = frozenset(
    {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION}
)
"""Errors of a partition that cannot have had transactional records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueMarkers:
    """A transaction whose outcome is replicated, and the partitions that need its marker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A transaction's coordinator: a partition of ``__transaction_state`` in one leader epoch."""

    partition: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SentMarkers:
    """The markers of one transaction for some partitions, in flight or done."""

    owner: Owner
    markers: DueMarkers
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class MarkerBatch:
    """The markers of one request to one broker."""

    node_id: NodeId
    entries: tuple[SentMarkers, ...]

    def request(self) -> WriteTxnMarkersRequest:
        """Return the WriteTxnMarkers request of this batch."""
        return WriteTxnMarkersRequest(markers=[markers_of(entry) for entry in self.entries])


class Gone:
    """Stands in for a leader, because a deleted partition has none."""


GONE = Gone()
FindLeader = Callable[[TopicPartition], NodeId | Gone | None]
"""Returns the leader of a partition, ``GONE`` if it is deleted, or None if it has no leader."""


@dataclass(slots=True)
class _Owed:
    """The markers of one transaction that are not all written yet.

    ``left`` holds the partitions whose marker is not known to be written. ``waiting`` holds those
    of them whose marker is not in flight.
    """

    markers: DueMarkers
    owner: Owner
    left: set[TopicPartition] = field(init=False)
    waiting: set[TopicPartition] = field(init=False)

    def __post_init__(self) -> None:
        self.left, self.waiting = set(self.markers.partitions), set(self.markers.partitions)


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a response: finished partitions, and whether others must be retried."""

    written: tuple[SentMarkers, ...]
    is_retrying: bool
    given_up: tuple[str, ...] = ()
    """The transactional ids that another coordinator owns now."""


class MarkerQueue:
    """All markers that this node has yet to write."""

    def __init__(self) -> None:
        self._owed: dict[tuple[int, str], _Owed] = {}
        self._busy: set[NodeId] = set()

    def __repr__(self) -> str:
        return f"<MarkerQueue transactions={len(self._owed)} busy={len(self._busy)}>"

    def __len__(self) -> int:
        return len(self._owed)

    def add(self, owner: Owner, markers: DueMarkers) -> None:
        """Add the markers of a transaction.

        They replace the markers of an earlier announcement of the same id.
        """
        self._owed[owner.partition, markers.transactional_id] = _Owed(markers, owner)

    def drop(self, partition: int) -> None:
        """Drop all markers of a partition of ``__transaction_state``.

        The next leader of the partition announces them again.
        """
        for key in [key for key in self._owed if key[0] == partition]:
            del self._owed[key]

    def is_busy(self, node_id: NodeId) -> bool:
        """Whether a request to a broker is in flight."""
        return node_id in self._busy

    def take(self, find_leader: FindLeader) -> tuple[list[MarkerBatch], list[SentMarkers]]:
        """Return requests for idle brokers, and the markers of deleted partitions.

        The returned markers are no longer waiting. The brokers of the requests are busy until
        ``settle``, and the markers of deleted partitions count as written.
        """
        by_node: dict[NodeId, list[SentMarkers]] = {}
        gone: list[SentMarkers] = []
        for key, owed in list(self._owed.items()):
            found: dict[NodeId, list[TopicPartition]] = {}
            gone_here = []
            for where in sorted(owed.waiting):
                leader = find_leader(where)
                if isinstance(leader, Gone):
                    gone_here.append(where)
                elif leader is not None and leader not in self._busy:
                    found.setdefault(leader, []).append(where)
            owed.waiting.difference_update(gone_here, *found.values())
            if gone_here:
                gone.append(SentMarkers(owed.owner, owed.markers, tuple(gone_here)))
                self._finish(key, owed, gone_here)
            for node_id, partitions in found.items():
                by_node.setdefault(node_id, []).append(
                    SentMarkers(owed.owner, owed.markers, tuple(partitions))
                )
        self._busy.update(by_node)
        return [MarkerBatch(node_id, tuple(entries)) for node_id, entries in by_node.items()], gone

    def count_without_leader(self, find_leader: FindLeader) -> int:
        """Return the number of transactions with a marker for a partition that has no leader."""
        return sum(
            any(find_leader(where) is None for where in owed.waiting)
            for owed in self._owed.values()
        )

    def settle(self, batch: MarkerBatch, response: WriteTxnMarkersResponse | None) -> Settled:
        """Apply the response to a batch, or None without a response, and return the outcome.

        Markers that were not written wait again, unless another coordinator owns their transaction
        now. Then all markers of the transaction are dropped.
        """
        self._busy.discard(batch.node_id)
        codes = {} if response is None else _codes(response)
        written, given_up, is_retrying = [], [], False
        for entry in batch.entries:
            key = (entry.owner.partition, entry.markers.transactional_id)
            owed = self._owed.get(key)
            if owed is None or owed.markers is not entry.markers:
                continue
            results = {
                where: codes.get((entry.markers.producer_id, where)) for where in entry.partitions
            }
            if any(code in OWNED_ELSEWHERE for code in results.values()):
                given_up.append(entry.markers.transactional_id)
                del self._owed[key]
                continue
            done = tuple(
                where
                for where, code in results.items()
                if code is ErrorCode.NONE or code in WITHOUT_MARKER
            )
            owed.waiting.update(where for where in entry.partitions if where not in done)
            is_retrying = is_retrying or len(done) < len(entry.partitions)
            if done:
                written.append(SentMarkers(entry.owner, entry.markers, done))
                self._finish(key, owed, done)
        return Settled(tuple(written), is_retrying, tuple(given_up))

    def _finish(self, key: tuple[int, str], owed: _Owed, done: Iterable[TopicPartition]) -> None:
        owed.left.difference_update(done)
        if not owed.left:
            del self._owed[key]


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): ErrorCode.of(
            partition.error_code
        )
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


def markers_of(entry: SentMarkers) -> WritableTxnMarker:
    """Return the markers of one transaction for a request."""
    markers = entry.markers
    topics = groupby(sorted(entry.partitions), attrgetter("topic"))
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.is_commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=[each.partition for each in group])
            for name, group in topics
        ],
        coordinator_epoch=entry.owner.leader_epoch,
        transaction_version=markers.transaction_version,
    )
