"""THE table of what the controller decides: one row for each message that it takes.

A row says which rule decides, and what becomes of the sender's session where the message is a broker's own. The rules are plain functions
in the other modules of this package; a row only passes them what they ask for. A message that is not here is not the controller's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID

from log_service.common.types import NodeId
from log_service.config.views import TopicDefaults
from log_service.controller.rules.alter_partition import alter_partition
from log_service.controller.rules.brokers import heartbeat, register_broker, unregister_broker
from log_service.controller.rules.configs import alter_configs, incremental_alter_configs
from log_service.controller.rules.controllers import register_controller
from log_service.controller.rules.create_partitions import create_partitions
from log_service.controller.rules.directories import assign_replicas
from log_service.controller.rules.elections import elect_leaders
from log_service.controller.rules.feature_levels import update_features
from log_service.controller.rules.producer_ids import allocate_producer_ids
from log_service.controller.rules.reassignments import alter_partition_reassignments, list_partition_reassignments
from log_service.controller.rules.topics import TopicRules, create_topics, delete_topics
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from log_service.protocol.messages.alter_configs import AlterConfigsRequest
from log_service.protocol.messages.alter_partition import AlterPartitionRequest
from log_service.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from log_service.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from log_service.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from log_service.protocol.messages.broker_registration import BrokerRegistrationRequest
from log_service.protocol.messages.controller_registration import ControllerRegistrationRequest
from log_service.protocol.messages.create_partitions import CreatePartitionsRequest
from log_service.protocol.messages.create_topics import CreateTopicsRequest
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest
from log_service.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from log_service.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.messages.update_features import UpdateFeaturesRequest
from log_service.protocol.schema import Message
from log_service.protocol.stored.metadata_records import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What the controller has to know of its node. ``static_texts`` are the keys of its file, by name."""

    node_id: NodeId
    cluster_id: str
    topics: TopicDefaults = field(default_factory=TopicDefaults)
    broker_session_timeout_ms: int = 9_000
    static_texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What rules may ask for beside the metadata: the node's configuration, new ids, and whether a broker has a live session."""

    config: ControllerConfig
    new_id: Callable[[], UUID]
    has_live_session: Callable[[NodeId], bool]

    @property
    def topic_rules(self) -> TopicRules:
        """What rules about topics ask for."""
        return TopicRules(defaults=self.config.topics, static_texts=self.config.static_texts, new_id=self.new_id)


Decided = tuple[Sequence[MetadataRecord], Message]
"""The records of a decision, and the response."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. ``decide`` raises KafkaError where the request is refused as a whole.

    ``session_of`` names the broker whose session the message is about; ``keeps_session`` says whether the message renews or ends it.
    """

    decide: Callable[[MetadataImage, Any, Surroundings], Decided]
    session_of: Callable[[Any], NodeId] | None = None
    keeps_session: Callable[[Any], bool] = lambda _: True


def _plain(decide: Callable[[MetadataImage, Any], Decided]) -> Rule:
    """Return the row of a rule that asks for the metadata alone."""
    return Rule(lambda image, request, _: decide(image, request))


def _register_broker(image: MetadataImage, request: BrokerRegistrationRequest, around: Surroundings) -> Decided:
    is_alive = around.has_live_session(NodeId(request.broker_id))
    return register_broker(image, request, cluster_id=around.config.cluster_id, has_live_session=is_alive)


def _broker(request: BrokerRegistrationRequest | BrokerHeartbeatRequest | UnregisterBrokerRequest) -> NodeId:
    return NodeId(request.broker_id)


RULES: Mapping[type[Any], Rule] = MappingProxyType(
    {
        # What brokers and controllers say of themselves
        BrokerRegistrationRequest: Rule(_register_broker, session_of=_broker),
        BrokerHeartbeatRequest: Rule(
            lambda image, request, _: heartbeat(image, request),
            session_of=_broker,
            keeps_session=lambda request: not request.want_shut_down,
        ),
        UnregisterBrokerRequest: Rule(
            lambda image, request, _: unregister_broker(image, request), session_of=_broker, keeps_session=lambda _: False
        ),
        ControllerRegistrationRequest: _plain(register_controller),
        AllocateProducerIdsRequest: _plain(allocate_producer_ids),
        # Partitions
        AlterPartitionRequest: _plain(alter_partition),
        AssignReplicasToDirsRequest: _plain(assign_replicas),
        ElectLeadersRequest: _plain(elect_leaders),
        AlterPartitionReassignmentsRequest: _plain(alter_partition_reassignments),
        ListPartitionReassignmentsRequest: _plain(lambda image, request: ((), list_partition_reassignments(image, request))),
        # Topics
        CreateTopicsRequest: Rule(lambda image, request, around: create_topics(image, request, around.topic_rules)),
        DeleteTopicsRequest: _plain(delete_topics),
        CreatePartitionsRequest: Rule(lambda image, request, around: create_partitions(image, request, around.config.topics)),
        # Configuration and features
        AlterConfigsRequest: Rule(lambda image, request, around: alter_configs(image, request, around.config.static_texts)),
        IncrementalAlterConfigsRequest: Rule(
            lambda image, request, around: incremental_alter_configs(image, request, around.config.static_texts)
        ),
        UpdateFeaturesRequest: _plain(update_features),
    }
)
