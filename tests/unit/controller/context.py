"""A controller without a log: what it decides is replayed at once, as if every append went well."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from log_service.common.errors import ErrorCode
from log_service.common.types import BrokerEpoch, NodeId
from log_service.config.views import TopicDefaults
from log_service.controller.controller import Controller, ControllerConfig, Decision
from log_service.controller.rules.brokers import Heartbeat, HeartbeatReply, RegisterBroker
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.metadata.image import EMPTY_IMAGE, Endpoint, TopicImage
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from log_service.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.state_machine.decision import SetTimer

CLUSTER = "capWTtRrTUChwS4VEDAgZg"
OWN_NODE = 1
SET, DELETE, APPEND, SUBTRACT = range(4)


def new_topic(
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    *,
    configs: Mapping[str, str | None] | None = None,
    assignments: Mapping[int, Sequence[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(broker_ids))
            for index, broker_ids in (assignments or {}).items()
        ],
    )


class ControllerContext:
    """A controller, a clock that only moves when told, and the records that were written."""

    def __init__(self, *, defaults: TopicDefaults | None = None, static_texts: Mapping[str, str] | None = None) -> None:
        ids = count(1000)
        config = ControllerConfig(
            node_id=NodeId(OWN_NODE), cluster_id=CLUSTER, topics=defaults or TopicDefaults(), static_texts=static_texts or {}
        )
        self.controller = Controller(config, EMPTY_IMAGE, lambda: UUID(int=next(ids)))
        self.now_ms = 0
        self.records: list[MetadataRecord] = []
        self.timers: dict[Any, int] = {}
        self.perform(self.controller.handle_activation((), self.now_ms))

    # Brokers

    def register(self, node_id: int = OWN_NODE, *, incarnation: int = 1, cluster_id: str = CLUSTER, **fields: Any) -> BrokerEpoch:
        request = RegisterBroker(
            node_id=NodeId(node_id),
            cluster_id=cluster_id,
            incarnation_id=UUID(int=incarnation),
            endpoints={"PLAINTEXT": Endpoint(host=f"host{node_id}", port=9092)},
            log_dirs=fields.pop("log_dirs", (UUID(int=500 + node_id),)),
            features=fields.pop("features", SUPPORTED_FEATURES),
            **fields,
        )
        epoch: BrokerEpoch = self.perform(self.controller.handle_register_broker(request, self.now_ms, "r"))
        return epoch

    def beat(self, node_id: int = OWN_NODE, *, epoch: int | None = None, offset: int = 10**9, **wants: bool) -> HeartbeatReply:
        known = self.controller.image.cluster.brokers.get(NodeId(node_id))
        broker_epoch = BrokerEpoch(epoch if epoch is not None else known.epoch if known else 0)
        request = Heartbeat(node_id=NodeId(node_id), broker_epoch=broker_epoch, metadata_offset=offset, **wants)
        reply: HeartbeatReply = self.perform(self.controller.handle_heartbeat(request, self.now_ms, "r"))
        return reply

    def start(self, *node_ids: int, incarnation: int = 1) -> "ControllerContext":
        """Register and unfence brokers."""
        for node_id in node_ids or (OWN_NODE,):
            self.register(node_id, incarnation=incarnation)
            self.beat(node_id)
        return self

    def pass_ms(self, duration_ms: int) -> None:
        """Move the clock and fire what became due."""
        self.now_ms += duration_ms
        for key, deadline_ms in sorted(self.timers.items(), key=lambda item: item[1]):
            if deadline_ms <= self.now_ms:
                del self.timers[key]
                self.perform(self.controller.on_timer(key, self.now_ms))

    # Requests

    def create(self, *topics: CreatableTopic, validate_only: bool = False) -> list[CreatableTopicResult]:
        request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
        found: list[CreatableTopicResult] = self.perform(self.controller.handle_create_topics(request, self.now_ms, "r")).topics
        return found

    def created(self, name: str, partitions: int = 1, replicas: int = 1) -> TopicImage:
        (result,) = self.create(new_topic(name, partitions, replicas))
        assert result.error_code == ErrorCode.NONE, result.error_message
        return self.topic(name)

    def delete(self, *names: str, states: Sequence[DeleteTopicState] = ()) -> list[DeletableTopicResult]:
        request = DeleteTopicsRequest(topic_names=list(names), topics=list(states))
        found: list[DeletableTopicResult] = self.perform(self.controller.handle_delete_topics(request, self.now_ms, "r")).responses
        return found

    def grow(
        self, name: str, total: int, assignments: Sequence[Sequence[int]] | None = None, **options: bool
    ) -> CreatePartitionsTopicResult:
        (result,) = self.grow_all((name, total, assignments), **options)
        return result

    def grow_all(
        self, *asked: tuple[str, int, Sequence[Sequence[int]] | None], validate_only: bool = False
    ) -> list[CreatePartitionsTopicResult]:
        topics = [
            CreatePartitionsTopic(
                name=name,
                count=total,
                assignments=None if given is None else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in given],
            )
            for name, total, given in asked
        ]
        request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
        found: list[CreatePartitionsTopicResult] = self.perform(self.controller.handle_create_partitions(request, self.now_ms, "r")).results
        return found

    def alter(
        self, name: str, *changes: tuple[str, int, str | None], resource_type: int = 2, validate_only: bool = False
    ) -> AlterConfigsResourceResponse:
        (found,) = self.alter_all([(resource_type, name, changes)], validate_only=validate_only)
        return found

    def alter_all(
        self, resources: Sequence[tuple[int, str, Sequence[tuple[str, int, str | None]]]], *, validate_only: bool = False
    ) -> list[AlterConfigsResourceResponse]:
        request = IncrementalAlterConfigsRequest(
            validate_only=validate_only,
            resources=[
                AlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=[AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes],
                )
                for resource_type, name, changes in resources
            ],
        )
        decision = self.controller.handle_incremental_alter_configs(request, self.now_ms, "r")
        found: list[AlterConfigsResourceResponse] = self.perform(decision).responses
        return found

    # What is there

    def topic(self, name: str) -> TopicImage:
        return self.controller.image.topics.by_name[name]

    def partition(self, name: str, index: int = 0) -> PartitionRegistration:
        return self.topic(name).partitions[index]

    def configs(self, name: str, resource_type: int = 2) -> Mapping[str, str]:
        return self.controller.image.configs.of(resource_type, name)

    def is_fenced(self, node_id: int = OWN_NODE) -> bool:
        return self.controller.image.cluster.brokers[NodeId(node_id)].is_fenced

    def perform(self, decision: Decision) -> Any:
        if decision.records:
            last_offset = self.controller.image.offset + len(decision.records)
            self.records += decision.records
            self.controller.replay(decision.records, last_offset=last_offset, epoch=1)
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = timer.deadline_ms
        return decision.replies[0].response if decision.replies else None
