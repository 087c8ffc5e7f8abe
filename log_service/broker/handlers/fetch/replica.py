"""The part of Fetch that serves followers of the partitions that this node leads.

Decides which fetches of a follower are refused, where the follower's log diverged from the
leader's, and what the leader learns from a fetch. A follower reads up to the log end offset. The
checks have Apache Kafka's order: the leader epoch, leadership, membership in the replicas, the
offset, the epoch of the broker's registration. ``handlers.fetch`` knows sessions, limits and
waiting.

Invariant: the leader notes the follower's position once, when the fetch arrives, with the log end
offset before it was read. Reading again after a wait notes nothing, because the follower has sent
nothing new.
"""

from log_service.broker.fetch_session import FetchTarget
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.protocol.messages.fetch import FetchRequest
from log_service.replication.follower_state import NO_BROKER_EPOCH
from log_service.replication.partition import Partition
from log_service.storage.log_reader import NOTHING, LogSlice


class FetchingReplica:
    """The follower that sent a fetch.

    It has a broker id, and a broker epoch if the fetch names one (version 15, KIP-903).
    """

    __slots__ = (
        "_is_stale",
        "_moved",
        "_node",
        "_now_ms",
        "_throttle",
        "broker_epoch",
        "broker_id",
        "is_noted",
    )

    def __init__(self, node: Node, broker_id: int, broker_epoch: int, *, is_noted: bool) -> None:
        """``is_noted`` is set when a fetch is read again.

        The follower's position was noted when the fetch arrived.
        """
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.is_noted = is_noted
        self._node = node
        self._now_ms = node.clock.monotonic_ms()
        throttles = node.replicas.remote.throttles
        self._throttle = None if throttles is None else throttles.leader
        self._moved: list[Partition] = []
        known = node.image().cluster.brokers.get(NodeId(broker_id))
        self._is_stale = (
            broker_epoch != NO_BROKER_EPOCH and known is not None and broker_epoch < known.epoch
        )

    def is_quiet(self, partition: Partition, target: FetchTarget) -> bool:
        """Return whether a partition can be left out of the response, and if so, note its fetch.

        It can if the follower has the whole log and knows the leader's offsets.
        """
        state = partition.state
        if (
            target.sent_high_watermark != state.high_watermark
            or target.fetch_offset != state.log_end_offset
            or target.sent_log_start_offset != partition.log_start_offset
            or target.current_leader_epoch != state.leader_epoch
            or not state.is_leader
            or self._is_stale
            or self.broker_id not in state.followers
            or partition.is_offline
            or target.last_fetched_epoch > partition.state.leader_epoch
        ):
            return False
        self._note(partition, target)
        return True

    def read(
        self, partition: Partition, target: FetchTarget, *, max_bytes: int, is_first: bool
    ) -> LogSlice:
        """Return the records for the follower, and note the follower's position.

        Raises:
            KafkaError: see ``Partition.read_for_follower``; NOT_LEADER_OR_FOLLOWER, the broker has
                registered again since it began to fetch.
        """
        found = partition.read_for_follower(
            self.broker_id,
            target.fetch_offset,
            max_bytes=max_bytes,
            current_leader_epoch=target.current_leader_epoch,
            is_one_batch_guaranteed=is_first,
        )
        throttle = self._throttle
        if (
            throttle is not None
            and found.file_slice is not None
            and throttle.covers(partition.topic_partition)
        ):
            if self.is_held_back(partition):
                found.file_slice.release()
                found = NOTHING
            throttle.note(found.size_bytes, self._now_ms)
        if self._is_stale:
            if found.file_slice is not None:
                found.file_slice.release()
            text = (
                f"broker {self.broker_id} fetches with epoch {self.broker_epoch}, it has registered"
                " again since"
            )
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)
        self._note(partition, target)
        return found

    def is_held_back(self, partition: Partition) -> bool:
        """Return whether the throttle withholds records from the follower now.

        This is so if the follower is out of sync and throttled partitions exceed their rate.
        """
        throttle = self._throttle
        return (
            throttle is not None
            and self.broker_id not in partition.isr
            and throttle.covers(partition.topic_partition)
            and throttle.is_exceeded(self._now_ms)
        )

    def _note(self, partition: Partition, target: FetchTarget) -> None:
        if not self.is_noted and self._node.replicas.note_fetch(
            partition,
            self.broker_id,
            target.fetch_offset,
            log_start_offset=target.log_start_offset,
            broker_epoch=self.broker_epoch,
            now_ms=self._now_ms,
        ):
            self._moved.append(partition)

    def announce(self) -> None:
        """Notify waiting requests of the partitions whose high watermarks moved."""
        if self._moved:
            moved, self._moved = self._moved, []
            self._node.replicas.announce(moved)


def replica_of(node: Node, request: FetchRequest, *, is_noted: bool) -> FetchingReplica | None:
    """Return the follower that sent a request, or None for a consumer."""
    state = request.replica_state
    broker_id, broker_epoch = (
        (request.replica_id, NO_BROKER_EPOCH)
        if state is None
        else (state.replica_id, state.replica_epoch)
    )
    return (
        FetchingReplica(node, broker_id, broker_epoch, is_noted=is_noted)
        if broker_id >= 0
        else None
    )
