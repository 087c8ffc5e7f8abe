"""Instances of Kafka Streams (KIP-1071) act in a story on tidelog and on Apache Kafka alike.

They have their topologies, and their heartbeats.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from log_service.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.integration.group_cast import Cast, Player

READY_SECONDS = 30.0
PAUSE_SECONDS = 0.05
GROUP_RESOURCE = 32

Tasks = Mapping[str, Sequence[int]]


def internal(name: str, partitions: int = 0, factor: int = 1, **configs: str) -> TopicInfo:
    entries = [KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return TopicInfo(
        name=name, partitions=partitions, replication_factor=factor, topic_configs=entries
    )


def copying(*sources: str, epoch: int = 0) -> Topology:
    """One subtopology without state."""
    return Topology(
        epoch=epoch, subtopologies=[Subtopology(subtopology_id="0", source_topics=list(sources))]
    )


def counting(prefix: str, source: str = "orders") -> Topology:
    """Return the topology that the Streams DSL makes of ``groupBy().count()``.

    One subtopology repartitions, and one counts.
    """
    through = f"{prefix}-by-country-repartition"
    changelog = internal(f"{prefix}-counts-changelog", cleanup_policy="compact")
    return Topology(
        subtopologies=[
            Subtopology(
                subtopology_id="0", source_topics=[source], repartition_sink_topics=[through]
            ),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[
                    internal(through, cleanup_policy="delete", retention_ms="-1")
                ],
                state_changelog_topics=[changelog],
            ),
        ]
    )


def joining(*sources: str, repartitioned: Sequence[TopicInfo] = ()) -> Topology:
    """A subtopology that joins all its inputs, and one that writes the internal ones among them."""
    group = CopartitionGroup(
        source_topics=list(range(len(sources))),
        repartition_source_topics=list(range(len(repartitioned))),
    )
    upstream = Subtopology(
        subtopology_id="0",
        source_topics=["orders"],
        repartition_sink_topics=[each.name for each in repartitioned],
    )
    join = Subtopology(
        subtopology_id="1",
        source_topics=list(sources),
        repartition_source_topics=list(repartitioned),
        copartition_groups=[group],
    )
    return Topology(subtopologies=[upstream, join])


def task_ids(tasks: Tasks | None) -> list[RequestTaskIds] | None:
    if tasks is None:
        return None
    return [
        RequestTaskIds(subtopology_id=each, partitions=list(partitions))
        for each, partitions in tasks.items()
    ]


class Instance:
    """One member, on a process of its own unless another is named; it keeps the epoch that it was
    told.
    """

    def __init__(
        self, cast: Cast, name: str, topology: Topology, process: str | None = None
    ) -> None:
        self.cast = cast
        self.player: Player = cast.member()
        self.player.member_id = name
        self.topology = topology
        self.process = process or f"process-{name}"
        self.epoch = 0
        self.told: dict[str, list[int]] = {}
        """The active tasks that it was told last."""

    def send(self, active: Tasks | None = None, standby: Tasks | None = None, **said: Any) -> Any:
        """Send a heartbeat that nobody notes; ``said`` are fields of the request."""
        fields: dict[str, Any] = {
            "group_id": self.cast.group,
            "member_id": self.player.member_id,
            "member_epoch": self.epoch,
            "active_tasks": task_ids(active),
            "standby_tasks": task_ids(standby if active is None else standby or {}),
            "warmup_tasks": None if active is None else [],
        }
        response = self.player.wire.ask(StreamsGroupHeartbeatRequest(**{**fields, **said}), 0)
        if response.error_code == 0:
            self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self.told = {
                each.subtopology_id: sorted(each.partitions) for each in response.active_tasks
            }
        return response

    def beat(
        self,
        active: Tasks | None = None,
        standby: Tasks | None = None,
        *,
        is_counted: bool = False,
        **said: Any,
    ) -> Any:
        """Send a heartbeat and note the response: which tasks it was told, or how many."""
        response = self.send(active, standby, **said)
        self.cast.note(shown(response, is_counted=is_counted))
        return response

    def join(self, **said: Any) -> Any:
        """Join."""
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "topology": self.topology,
            "process_id": self.process,
        }
        return self.beat({}, **{**fields, **said})

    def settle(self) -> None:
        """Heartbeat until nothing changes any more: internal topics are created beside the
        heartbeats. Nothing is noted.
        """
        deadline = time.monotonic() + READY_SECONDS
        while self.send(self.told, {}).status:
            assert time.monotonic() < deadline, "the group is never ready"
            time.sleep(PAUSE_SECONDS)

    def leave(self, **said: Any) -> Any:
        """Leave."""
        return self.beat(member_epoch=-1, **said)

    def commit(
        self, topic: str, partition: int = 0, version: int = 9, epoch: int | None = None
    ) -> Any:
        """Commit a position."""
        return self.player.commit(
            5, topic, partition, version, generation_id=self.epoch if epoch is None else epoch
        )


def shown(response: Any, *, is_counted: bool = False) -> Any:
    """Return a response with tasks in order, or their number.

    Kafka's hash maps decide which of two members gets one.
    """
    for role in (response.active_tasks, response.standby_tasks, response.warmup_tasks):
        for each in role or ():
            each.partitions = [len(each.partitions)] if is_counted else sorted(each.partitions)
    for endpoint in response.partitions_by_user_endpoint or ():
        for topic in (*endpoint.active_partitions, *endpoint.standby_partitions):
            topic.partitions = [len(topic.partitions)] if is_counted else sorted(topic.partitions)
    return response


def describe(cast: Cast, *, is_counted: bool = False) -> None:
    response = cast.cluster.wire.ask(
        StreamsGroupDescribeRequest(group_ids=[cast.group, "nobody-is-in-it"]), 0
    )
    for member in (member for group in response.groups for member in group.members):
        for assignment in (member.assignment, member.target_assignment):
            for each in (*assignment.active_tasks, *assignment.standby_tasks):
                each.partitions = [len(each.partitions)] if is_counted else sorted(each.partitions)
    cast.note(response)
    cast.describe(6)
    listed = cast.cluster.wire.ask(ListGroupsRequest(types_filter=["Streams"]), 5)
    cast.note([group for group in listed.groups if group.group_id == cast.group])


def configure(cast: Cast, **configs: str) -> None:
    """Set configurations of the group."""
    entries = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=cast.group, configs=entries
    )
    cast.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)


def topic_shape(cast: Cast, name: str) -> None:
    """Note how many partitions a topic has, and how many replicas the first one."""
    (topic,) = cast.cluster.wire.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False),
        12,
    ).topics
    cast.note(
        [
            [
                topic.error_code,
                len(topic.partitions),
                len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
            ]
        ]
    )
