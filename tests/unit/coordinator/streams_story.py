"""A shard of the group coordinator with topics, told as a story of Kafka Streams instances
(KIP-1071).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from log_service.common.errors import KafkaError
from log_service.config.views import GroupConfig, StreamsGroupConfig
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.streams.heartbeats import StreamsHeartbeatReply
from log_service.protocol.messages.streams_group_describe import DescribedGroup
from log_service.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.unit.coordinator.consumer_story import ConsumerStory
from tests.unit.coordinator.group_story import GROUP

Tasks = Mapping[str, tuple[int, ...]]
AT_ONCE = StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0)


def changelog(name: str) -> TopicInfo:
    return TopicInfo(name=name, topic_configs=[KeyValue(key="cleanup.policy", value="compact")])


def counting(epoch: int = 0) -> Topology:
    """One subtopology that counts what is in orders."""
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["orders"],
                state_changelog_topics=[changelog("counts-changelog")],
            )
        ],
    )


def copying() -> Topology:
    """One subtopology without state."""
    return Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["orders"])])


@dataclass
class StreamsStory(ConsumerStory):
    """Members report; ``beat`` is one heartbeat and what its member hears."""

    config: GroupConfig = field(
        default_factory=lambda: GroupConfig(initial_rebalance_delay_ms=0, streams=AT_ONCE)
    )
    topology: Topology = field(default_factory=copying)

    def reply(
        self, member_id: str, epoch: int, owned: Any = None, **said: Any
    ) -> StreamsHeartbeatReply | KafkaError:
        """Send a heartbeat.

        ``owned`` are the active tasks, or a pair of active and standby tasks, None where it says
        nothing.
        """
        active, standby = (
            owned if isinstance(owned, tuple) else (owned, None if owned is None else {})
        )
        fields: dict[str, Any] = {
            "group_id": GROUP,
            "member_id": member_id,
            "member_epoch": epoch,
            "active_tasks": _ids(active),
            "standby_tasks": _ids(standby),
            "warmup_tasks": None if owned is None else [],
        }
        reply = self.replies[
            self.ask(
                "streams_group_heartbeat",
                StreamsGroupHeartbeatRequest(**{**fields, **said}),
                api_version=0,
            )
        ]
        assert isinstance(reply, StreamsHeartbeatReply | KafkaError)
        return reply

    def hear(
        self, member_id: str, epoch: int, owned: Any = None, **said: Any
    ) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat that succeeds."""
        reply = self.reply(member_id, epoch, owned, **said)
        assert isinstance(reply, StreamsHeartbeatReply), reply
        return reply.response

    def refused_with(self, member_id: str, epoch: int, owned: Any = None, **said: Any) -> int:
        """Send a heartbeat that is refused, and return the code."""
        reply = self.reply(member_id, epoch, owned, **said)
        assert isinstance(reply, KafkaError), reply
        return reply.code

    def start(self, member_id: str, **said: Any) -> StreamsGroupHeartbeatResponse:
        """Join."""
        return self.hear(member_id, 0, {}, **{**self.joining(member_id), **said})

    def joining(self, member_id: str) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": 30_000,
            "topology": self.topology,
            "process_id": f"process of {member_id}",
        }

    @property
    def streams(self) -> StreamsGroup:
        group = self.shard.streams_group(GROUP)
        assert group is not None
        return group

    def shown(self) -> DescribedGroup:
        described = self.replies[self.ask("describe_streams_group", GROUP, api_version=0)]
        assert isinstance(described, DescribedGroup)
        return described


def _ids(tasks: Tasks | None) -> list[RequestTaskIds] | None:
    if tasks is None:
        return None
    return [
        RequestTaskIds(subtopology_id=each, partitions=list(partitions))
        for each, partitions in tasks.items()
    ]


def active(response: StreamsGroupHeartbeatResponse) -> dict[str, tuple[int, ...]] | None:
    """The active tasks that a member was told; None where it was told nothing."""
    if response.active_tasks is None:
        return None
    return {each.subtopology_id: tuple(each.partitions) for each in response.active_tasks}


def standby(response: StreamsGroupHeartbeatResponse) -> dict[str, tuple[int, ...]] | None:
    if response.standby_tasks is None:
        return None
    return {each.subtopology_id: tuple(each.partitions) for each in response.standby_tasks}


def statuses(response: StreamsGroupHeartbeatResponse) -> list[int]:
    return [each.status_code for each in response.status or ()]
