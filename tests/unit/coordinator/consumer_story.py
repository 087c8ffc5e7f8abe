"""A story of members of the consumer protocol runs on a shard of the group coordinator (KIP-848)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from log_service.common.errors import KafkaError
from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch, TopicId
from log_service.config.views import ConsumerGroupConfig, GroupConfig
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import ResourceType
from log_service.metadata.partition import PartitionRegistration, partition_record
from log_service.protocol.messages.consumer_group_describe import DescribedGroup
from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from log_service.protocol.stored.metadata_records import (
    ConfigRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.unit.coordinator.group_story import GROUP, GroupStory

ORDERS, BILLS = UUID(int=1), UUID(int=2)
NAMES = {"orders": ORDERS, "bills": BILLS}
Owned = Mapping[UUID, tuple[int, ...]]


@dataclass
class ConsumerStory(GroupStory):
    """Members report; ``beat`` is one heartbeat and what its member hears."""

    config: GroupConfig = field(
        default_factory=lambda: GroupConfig(
            initial_rebalance_delay_ms=0, consumer=ConsumerGroupConfig(assignment_interval_ms=0)
        )
    )
    topics: Mapping[str, int] = field(default_factory=lambda: {"orders": 4})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, partition_count in self.topics.items():
            self.create_topic(name, partition_count)

    def create_topic(self, name: str, partition_count: int) -> None:
        self._change(
            TopicRecord(name=name, topic_id=NAMES.setdefault(name, UUID(int=len(NAMES) + 1)))
        )
        self.add_partitions(name, 0, partition_count)

    def add_partitions(self, name: str, start: int, end: int) -> None:
        partition = PartitionRegistration(
            replicas=(NodeId(1),),
            isr=(NodeId(1),),
            leader=NodeId(1),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
        )
        self._change(
            *(
                partition_record(TopicId(NAMES[name]), index, partition)
                for index in range(start, end)
            )
        )

    def remove_topic(self, name: str) -> None:
        self._change(RemoveTopicRecord(topic_id=NAMES[name]))

    def move_broker(self, rack: str) -> None:
        """Have the only broker register in a rack."""
        self._change(
            RegisterBrokerRecord(
                broker_id=1, broker_epoch=self.image.offset, rack=rack, fenced=False
            )
        )

    def _change(self, *records: object) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)  # type: ignore[arg-type]
        self.image = delta.build(offset=self.image.offset + 1, epoch=1)
        decision = self.decision()
        self.shard.on_image(delta, self.image, decision)
        self.settle(decision)
        self.advance(0)

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Owned | None = None,
        *,
        topics: tuple[str, ...] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rebalance_ms: int = -1,
        assignor: str | None = None,
        api_version: int = 1,
    ) -> ConsumerGroupHeartbeatResponse | KafkaError:
        named = (
            None
            if owned is None
            else [
                RequestTopicPartitions(topic_id=topic, partitions=list(indexes))
                for topic, indexes in owned.items()
            ]
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=named,
        )
        response = self.replies[
            self.ask("consumer_group_heartbeat", request, api_version=api_version)
        ]
        assert isinstance(response, ConsumerGroupHeartbeatResponse | KafkaError)
        return response

    def told(
        self, member_id: str, epoch: int, owned: Owned | None = None, **said: object
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat that succeeds."""
        response = self.beat(member_id, epoch, owned, **said)  # type: ignore[arg-type]
        assert isinstance(response, ConsumerGroupHeartbeatResponse), response
        return response

    def refused(
        self, member_id: str, epoch: int, owned: Owned | None = None, **said: object
    ) -> int:
        """Send a heartbeat that is refused, and return the code."""
        response = self.beat(member_id, epoch, owned, **said)  # type: ignore[arg-type]
        assert isinstance(response, KafkaError), response
        return response.code

    def enter(
        self, member_id: str, *, topics: tuple[str, ...] | None = ("orders",), **said: object
    ) -> ConsumerGroupHeartbeatResponse:
        """Join."""
        return self.told(member_id, 0, {}, topics=topics, rebalance_ms=60_000, **said)

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard.consumer_group(GROUP)
        assert group is not None
        return group

    def described(self) -> DescribedGroup:
        described = self.replies[self.ask("describe_consumer_group", GROUP, api_version=1)]
        assert isinstance(described, DescribedGroup)
        return described

    def types(self) -> list[int]:
        """The types of all records that were stored."""
        return [int.from_bytes(key[:2]) for key, _ in self.log]


def assigned(response: ConsumerGroupHeartbeatResponse) -> dict[UUID, tuple[int, ...]] | None:
    """Return the assignment that a member was told, or None."""
    if response.assignment is None:
        return None
    return {
        topic.topic_id: tuple(topic.partitions) for topic in response.assignment.topic_partitions
    }


def configure(
    story: ConsumerStory, resource: ResourceType, resource_name: str, name: str, value: str
) -> None:
    delta = MetadataDelta(story.image)
    delta.replay(
        ConfigRecord(resource_type=resource, resource_name=resource_name, name=name, value=value)
    )
    story.image = delta.build(offset=story.image.offset + 1, epoch=1)
