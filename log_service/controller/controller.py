"""The controller's core: requests in, decisions out.

Decides by handing the newest metadata to the room of each request, and keeps what no log holds: when brokers were last heard of. Never
waits, reads no clock, opens no file. Its metadata runs ahead of what is committed: it contains every record that was appended.

Invariants: ``replay`` alone changes the metadata; a decision that was not replayed has changed nothing, so that a failed append leaves the
core as it was. Replies wait, in the driver, until everything the decision has seen is committed.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from log_service.common.types import BrokerEpoch, NodeId
from log_service.config.views import TopicDefaults
from log_service.controller.rules.brokers import Heartbeat, RegisterBroker, fence_broker, heartbeat, register_broker, unregister_broker
from log_service.controller.rules.configs import alter_configs, incremental_alter_configs
from log_service.controller.rules.create_partitions import create_partitions
from log_service.controller.rules.directories import AssignReplica, assign_replica
from log_service.controller.rules.elections import elect_leaders
from log_service.controller.rules.feature_levels import update_features
from log_service.controller.rules.producer_ids import allocate_producer_ids
from log_service.controller.rules.reassignments import alter_partition_reassignments
from log_service.controller.rules.topics import TopicRules, create_topics, delete_topics
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import METADATA_VERSION, bootstrap_records, validate_levels
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_configs import AlterConfigsRequest
from log_service.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from log_service.protocol.messages.create_partitions import CreatePartitionsRequest
from log_service.protocol.messages.create_topics import CreateTopicsRequest
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest
from log_service.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from log_service.protocol.messages.update_features import UpdateFeaturesRequest
from log_service.protocol.stored.metadata_records import AbortTransactionRecord, MetadataRecord
from log_service.state_machine.decision import CancelTimer, Reply, SetTimer


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One decision."""

    records: Sequence[MetadataRecord] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[SetTimer | CancelTimer] = ()


Decision = Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What the controller has to know of its node. ``static_texts`` are the keys of its file, by name."""

    node_id: NodeId
    cluster_id: str
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    broker_session_timeout_ms: int = 9_000
    static_texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """The timer that fences a broker unless it is heard of again."""

    node_id: NodeId


class Controller:
    """The active controller of one epoch."""

    def __init__(self, config: ControllerConfig, image: MetadataImage, new_id: Callable[[], UUID]) -> None:
        self.image = image
        self._config = config
        self._rules = TopicRules(defaults=config.topics, static_texts=config.static_texts, new_id=new_id)
        self._contacts: dict[NodeId, int] = {}

    def __repr__(self) -> str:
        return f"<Controller node={self._config.node_id} epoch={self.image.epoch} offset={self.image.offset}>"

    # State

    def replay(self, records: Sequence[MetadataRecord], *, last_offset: int, epoch: int) -> None:
        """Take records that were appended up to ``last_offset``."""
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.build(offset=last_offset, epoch=epoch)

    # Decisions

    def handle_activation(self, bootstrap: Sequence[MetadataRecord], now_ms: int) -> Decision:
        """Begin to lead: an empty log gets its first records; brokers that count as alive get one session to be heard of.

        A metadata transaction that the controller before left open is aborted, for no other record can have an effect before its end.
        This node's own broker is not among them: whoever held its directories before is gone.

        Raises:
            StorageError: the cluster has feature levels that cannot be served.
        """
        validate_levels(self.image.features)
        alive = [broker.node_id for broker in self.image.cluster.unfenced() if broker.node_id != self._config.node_id]
        for node_id in alive:
            self._contacts[node_id] = now_ms
        records: list[MetadataRecord] = []
        if self.image.open_transaction is not None:
            records.append(AbortTransactionRecord(reason="the controller that began it leads no more"))
        if METADATA_VERSION not in self.image.features:
            records += bootstrap_records(bootstrap)
        return Result(records=tuple(records), timers=[self._session_timer(node_id, now_ms) for node_id in alive])

    def handle_register_broker(self, request: RegisterBroker, now_ms: int, reply_to: Hashable) -> Decision:
        """Register a broker; the reply is its epoch."""
        has_live_session = self._has_live_session(request.node_id, now_ms)
        records, epoch = register_broker(self.image, request, cluster_id=self._config.cluster_id, has_live_session=has_live_session)
        self._contacts[request.node_id] = now_ms
        timer = self._session_timer(request.node_id, now_ms)
        return Result(records=records, replies=[Reply(reply_to=reply_to, response=epoch)], timers=[timer])

    def handle_heartbeat(self, request: Heartbeat, now_ms: int, reply_to: Hashable) -> Decision:
        """Take note of a broker; the reply is a ``HeartbeatReply``."""
        records, reply = heartbeat(self.image, request)
        if request.wants_shutdown:
            self._contacts.pop(request.node_id, None)
            timer: SetTimer | CancelTimer = CancelTimer(key=SessionTimer(request.node_id))
        else:
            self._contacts[request.node_id] = now_ms
            timer = self._session_timer(request.node_id, now_ms)
        return Result(records=records, replies=[Reply(reply_to=reply_to, response=reply)], timers=[timer])

    def on_timer(self, key: Hashable, now_ms: int) -> Decision:
        """Fence a broker whose session has run out."""
        assert isinstance(key, SessionTimer)
        broker = self.image.cluster.brokers.get(key.node_id)
        if broker is None or broker.is_fenced or self._has_live_session(key.node_id, now_ms):
            return Result()
        self._contacts.pop(key.node_id, None)
        return Result(records=fence_broker(self.image, broker))

    def handle_create_topics(self, request: CreateTopicsRequest, _now_ms: int, reply_to: Hashable) -> Decision:
        """Create topics; the reply is a ``CreateTopicsResponse``."""
        return _decided(create_topics(self.image, request, self._rules), reply_to)

    def handle_delete_topics(self, request: DeleteTopicsRequest, _now_ms: int, reply_to: Hashable) -> Decision:
        """Delete topics; the reply is a ``DeleteTopicsResponse``."""
        return _decided(delete_topics(self.image, request), reply_to)

    def handle_create_partitions(self, request: CreatePartitionsRequest, _now_ms: int, reply_to: Hashable) -> Decision:
        """Add partitions; the reply is a ``CreatePartitionsResponse``."""
        return _decided(create_partitions(self.image, request, self._config.topics), reply_to)

    def handle_incremental_alter_configs(self, request: IncrementalAlterConfigsRequest, _now_ms: int, reply_to: Hashable) -> Decision:
        """Change configuration; the reply is an ``IncrementalAlterConfigsResponse``."""
        return _decided(incremental_alter_configs(self.image, request, self._config.static_texts), reply_to)

    def handle_alter_configs(self, request: AlterConfigsRequest, _now_ms: int, reply_to: Hashable) -> Decision:
        """Replace configuration; the reply is an ``AlterConfigsResponse``."""
        return _decided(alter_configs(self.image, request, self._config.static_texts), reply_to)

    def handle_elect_leaders(self, request: ElectLeadersRequest, _now_ms: int, reply_to: Hashable) -> Decision:
        """Elect leaders; the reply is an ``ElectLeadersResponse``."""
        return _decided(elect_leaders(self.image, request), reply_to)

    def handle_alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, _now_ms: int, reply_to: Hashable
    ) -> Decision:
        """Move partitions; the reply is an ``AlterPartitionReassignmentsResponse``."""
        return _decided(alter_partition_reassignments(self.image, request), reply_to)

    def handle_update_features(self, request: UpdateFeaturesRequest, _now_ms: int, reply_to: Hashable) -> Decision:
        """Change feature levels; the reply is None."""
        return _decided(update_features(self.image, request), reply_to)

    def handle_unregister_broker(self, node_id: NodeId, _now_ms: int, reply_to: Hashable) -> Decision:
        """Forget a broker; the reply is None."""
        records = unregister_broker(self.image, node_id)
        self._contacts.pop(node_id, None)
        replies = [Reply(reply_to=reply_to, response=None)]
        return Result(records=records, replies=replies, timers=[CancelTimer(key=SessionTimer(node_id))])

    def handle_assign_replica(self, request: AssignReplica, _now_ms: int, reply_to: Hashable) -> Decision:
        """Note where a replica is; the reply is None."""
        return _decided((assign_replica(self.image, request), None), reply_to)

    def handle_allocate_producer_ids(self, request: tuple[NodeId, BrokerEpoch], _now_ms: int, reply_to: Hashable) -> Decision:
        """Hand out a block of producer ids to a broker, named with its epoch; the reply is a ``ProducerIdBlock``."""
        return _decided(allocate_producer_ids(self.image, *request), reply_to)

    def _has_live_session(self, node_id: NodeId, now_ms: int) -> bool:
        contact_ms = self._contacts.get(node_id)
        return contact_ms is not None and now_ms - contact_ms < self._config.broker_session_timeout_ms

    def _session_timer(self, node_id: NodeId, now_ms: int) -> SetTimer:
        return SetTimer(key=SessionTimer(node_id), deadline_ms=now_ms + self._config.broker_session_timeout_ms)


def _decided(decision: tuple[Sequence[MetadataRecord], object], reply_to: Hashable) -> Decision:
    records, response = decision
    return Result(records=records, replies=[Reply(reply_to=reply_to, response=response)])
