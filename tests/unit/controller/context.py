"""A controller without a log: what it decides is replayed at once, as if every append went well."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import ELIGIBLE_LEADER_REPLICAS
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId
from log_service.config.views import TopicDefaults
from log_service.controller.controller import Controller, MetadataDecision
from log_service.controller.rules.table import ControllerConfig
from log_service.metadata.features import SUPPORTED_FEATURES, first_feature_records
from log_service.metadata.image import EMPTY_IMAGE, TopicImage
from log_service.metadata.partition import PartitionRegistration
from log_service.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
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
from log_service.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.stored.metadata_records import MetadataRecord
from log_service.state_machine.decision import Decision, ReplayContext, SetTimer

CLUSTER = "capWTtRrTUChwS4VEDAgZg"
OWN_NODE = 1
SET, DELETE, APPEND, SUBTRACT = range(4)
WITHOUT_ELIGIBLE_LEADERS = [
    record
    for record in first_feature_records()
    if getattr(record, "name", "") != ELIGIBLE_LEADER_REPLICAS
]
"""The first records of a cluster that elects its last replica in sync after any death."""

SESSION_MS = 9_000
FIRST, SECOND = UUID(int=701), UUID(int=702)
"""Log directories of a broker."""


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
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(broker_ids))
            for index, broker_ids in (assignments or {}).items()
        ],
    )


class ControllerContext:
    """A controller, a clock that only moves when told, and the records that were written."""

    def __init__(
        self,
        *,
        defaults: TopicDefaults | None = None,
        static_texts: Mapping[str, str] | None = None,
        bootstrap: Sequence[MetadataRecord] = (),
    ) -> None:
        ids = count(1000)
        self.config = ControllerConfig(
            node_id=NodeId(OWN_NODE),
            cluster_id=CLUSTER,
            topics=defaults or TopicDefaults(),
            static_texts=static_texts or {},
        )
        self.controller = Controller(
            self.config, EMPTY_IMAGE, LeaderEpoch(1), lambda: UUID(int=next(ids))
        )
        self.now_ms = 0
        self.records: list[MetadataRecord] = []
        self.timers: dict[Any, int] = {}
        self.perform(lambda decision: self.controller.activate(bootstrap, decision))

    # Brokers

    def register(
        self,
        node_id: int = OWN_NODE,
        *,
        incarnation: int = 1,
        cluster_id: str = CLUSTER,
        **fields: Any,
    ) -> BrokerEpoch:
        features = fields.pop("features", SUPPORTED_FEATURES)
        request = BrokerRegistrationRequest(
            broker_id=node_id,
            cluster_id=cluster_id,
            incarnation_id=UUID(int=incarnation),
            listeners=[Listener(name="PLAINTEXT", host=f"host{node_id}", port=9092)],
            log_dirs=list(fields.pop("log_dirs", (UUID(int=500 + node_id),))),
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in features.items()
            ],
            **{"rack": None, **fields},
        )
        return BrokerEpoch(self.ask(request).broker_epoch)

    def beat(
        self,
        node_id: int = OWN_NODE,
        *,
        epoch: int | None = None,
        offset: int = 10**9,
        **wants: Any,
    ) -> BrokerHeartbeatResponse:
        known = self.controller.image.cluster.brokers.get(NodeId(node_id))
        broker_epoch = BrokerEpoch(epoch if epoch is not None else known.epoch if known else 0)
        request = BrokerHeartbeatRequest(
            broker_id=node_id, broker_epoch=broker_epoch, current_metadata_offset=offset, **wants
        )
        response: BrokerHeartbeatResponse = self.ask(request)
        return response

    def start(self, *node_ids: int, incarnation: int = 1) -> "ControllerContext":
        """Register and unfence brokers."""
        for node_id in node_ids or (OWN_NODE,):
            self.register(node_id, incarnation=incarnation)
            self.beat(node_id)
        return self

    def leave(self, node_id: int = OWN_NODE) -> None:
        """Stop a broker in order: it says so until it may."""
        while not self.beat(node_id, want_shut_down=True).should_shut_down:
            pass

    def pass_ms(self, duration_ms: int) -> None:
        """Move the clock and fire what became due."""
        self.now_ms += duration_ms
        for key, deadline_ms in sorted(self.timers.items(), key=lambda item: item[1]):
            if deadline_ms <= self.now_ms and self.timers.get(key) == deadline_ms:
                del self.timers[key]
                self.perform(partial(self.controller.on_timer, key))

    # Requests

    def create(
        self, *topics: CreatableTopic, validate_only: bool = False
    ) -> list[CreatableTopicResult]:
        request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
        found: list[CreatableTopicResult] = self.ask(request).topics
        return found

    def created(self, name: str, partitions: int = 1, replicas: int = 1) -> TopicImage:
        (result,) = self.create(new_topic(name, partitions, replicas))
        assert result.error_code == ErrorCode.NONE, result.error_message
        return self.topic(name)

    def delete(
        self, *names: str, states: Sequence[DeleteTopicState] = ()
    ) -> list[DeletableTopicResult]:
        request = DeleteTopicsRequest(topic_names=list(names), topics=list(states))
        found: list[DeletableTopicResult] = self.ask(request).responses
        return found

    def grow(
        self,
        name: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None = None,
        **options: bool,
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
                assignments=None
                if given is None
                else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in given],
            )
            for name, total, given in asked
        ]
        request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
        found: list[CreatePartitionsTopicResult] = self.ask(request).results
        return found

    def alter(
        self,
        name: str,
        *changes: tuple[str, int, str | None],
        resource_type: int = 2,
        validate_only: bool = False,
    ) -> AlterConfigsResourceResponse:
        (found,) = self.alter_all([(resource_type, name, changes)], validate_only=validate_only)
        return found

    def alter_all(
        self,
        resources: Sequence[tuple[int, str, Sequence[tuple[str, int, str | None]]]],
        *,
        validate_only: bool = False,
    ) -> list[AlterConfigsResourceResponse]:
        request = IncrementalAlterConfigsRequest(
            validate_only=validate_only,
            resources=[
                AlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=[
                        AlterableConfig(name=key, config_operation=operation, value=value)
                        for key, operation, value in changes
                    ],
                )
                for resource_type, name, changes in resources
            ],
        )
        found: list[AlterConfigsResourceResponse] = self.ask(request).responses
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

    def new_epoch(self, **config: Any) -> "ControllerContext":
        """Have another controller begin to lead, which knows what the log holds and nothing else."""
        self.timers.clear()
        self.config = replace(self.config, **config)
        self.controller = Controller(
            self.config, self.controller.image, LeaderEpoch(1), lambda: UUID(int=1)
        )
        self.perform(lambda decision: self.controller.activate((), decision))
        return self

    def write(self, *records: MetadataRecord) -> None:
        """Have records in the log that no request asked for."""
        self.perform(lambda decision: decision.records.extend(records))

    def ask(self, request: Any) -> Any:
        """Have the controller decide on a message; a refusal is raised."""
        return self.perform(lambda decision: self.controller.handle(request, decision, "r"))

    def perform(self, decide: Callable[[MetadataDecision], None]) -> Any:
        decision: MetadataDecision = Decision(self.now_ms, self.now_ms)
        try:
            decide(decision)
        except KafkaError:
            decision.take_back()
            raise
        for record in decision.records:
            self.controller.replay(record, ReplayContext(len(self.records)))
            self.records.append(record)
        for timer in decision.timers:
            self.timers.pop(timer.key, None)
            if isinstance(timer, SetTimer):
                self.timers[timer.key] = timer.deadline_ms
        return decision.replies[0].response if decision.replies else None


def cluster(
    *replicas: int, elr: bool = False, brokers: tuple[int, ...] = (1, 2, 3), **configs: str
) -> ControllerContext:
    """Brokers, and a topic ``a`` of one partition on ``replicas``."""
    context = ControllerContext(bootstrap=() if elr else WITHOUT_ELIGIBLE_LEADERS).start(*brokers)
    named = {key.replace("_", "."): value for key, value in configs.items()}
    (result,) = context.create(
        new_topic("a", assignments={0: replicas or (1, 2, 3)}, configs=named)
    )
    assert result.error_code == ErrorCode.NONE, result
    return context


def epoch_of(context: ControllerContext, node_id: int) -> int:
    return context.controller.image.cluster.brokers[NodeId(node_id)].epoch


def sets(context: ControllerContext) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    partition = context.partition("a")
    return partition.leader, partition.isr, partition.eligible_leader_replicas
