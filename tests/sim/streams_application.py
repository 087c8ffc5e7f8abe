"""Plays the Kafka Streams application of a simulated cluster.

It asks the coordinator of its group (KIP-1071), and notes each response.

The application has two subtopologies: the first reads the run's first topic and writes a
repartition topic, which the second one reads. The second one has state, which it keeps in a
changelog. Decides nothing: ``streams_instances`` run it, ``streams_checker`` judges it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from log_service.client import Admin
from log_service.client.admin.groups import LAST_OFFSET_VERSION_WITH_NAMES, MOVED
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.protocol.messages import offset_commit as commits
from log_service.protocol.messages import offset_fetch as fetches
from log_service.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from log_service.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from log_service.protocol.schema import Message
from tests.sim.cluster_clients import ClusterClients
from tests.sim.node_clients import TIMEOUTS
from tests.sim.node_history import History, Operation
from tests.sim.node_host import NodeHost
from tests.sim.streams_history import (
    NOT_KNOWN,
    Beat,
    Shown,
    ShownMember,
    Task,
    TaskCommit,
    TaskFetch,
    tasks_of,
)
from tests.sim.streams_terms import CoordinatorTerms

R = TypeVar("R", bound=Message)

GROUP = "application"
REPARTITION, CHANGELOG = "application-repartition", "application-counts-changelog"
READER, COUNTER = "0", "1"
"""The subtopologies; the second one has state."""
TOPOLOGY_EPOCH = 1
PATIENCE = {**TIMEOUTS, "request_timeout_ms": 1_500}


class Application:
    """The application of one run, whose source is the topic ``source``."""

    def __init__(self, clients: ClusterClients, source: str, hosts: Sequence[NodeHost]) -> None:
        self.clients = clients
        self.source = source
        self.history: History = clients.history
        self._terms = CoordinatorTerms(GROUP, hosts, self.history.add)

    def admin(self, name: str) -> Admin:
        """Return what a client asks with."""
        return Admin(self.clients.bootstrap, env=self.clients.env(name), **PATIENCE)

    def topology(self, epoch: int) -> Topology:
        """Return the topology in one of its epochs: a newer one has a subtopology more."""
        subtopologies = [
            Subtopology(
                subtopology_id=READER,
                source_topics=[self.source],
                repartition_sink_topics=[REPARTITION],
            ),
            Subtopology(
                subtopology_id=COUNTER,
                repartition_source_topics=[TopicInfo(name=REPARTITION)],
                state_changelog_topics=[TopicInfo(name=CHANGELOG)],
            ),
        ]
        if epoch > TOPOLOGY_EPOCH:
            subtopologies.append(Subtopology(subtopology_id="2", source_topics=[self.source]))
        return Topology(epoch=epoch, subtopologies=subtopologies)

    def partition_of(self, task: Task) -> TopicPartition:
        """Return the partition that a task reads."""
        return TopicPartition(self.source if task[0] == READER else REPARTITION, task[1])

    # What is asked

    async def beat(
        self, cluster: ClusterMetadata, request: StreamsGroupHeartbeatRequest, beat: Beat
    ) -> None:
        """Send a heartbeat, and note what is told.

        Raises:
            KafkaError: the member hears an error, or nothing.
        """
        self.history.add(beat)
        try:
            response, beat.term = await self._ask(cluster, request, StreamsGroupHeartbeatResponse)
            beat.code = ErrorCode.of(response.error_code)
            _raise_for(response.error_code)
        except KafkaError as error:
            self._note_failed(cluster, [beat], error)
            raise
        beat.told_epoch = response.member_epoch
        beat.statuses = tuple(status.status_code for status in response.status or ())
        if response.active_tasks is not None:
            beat.active, beat.standby = (
                tasks_of(response.active_tasks),
                tasks_of(response.standby_tasks or ()),
            )
        self.history.end(beat)

    async def describe(self, cluster: ClusterMetadata) -> Shown:
        """Ask how the group is.

        Raises:
            KafkaError: it was not told.
        """
        shown = self.history.add(Shown())
        try:
            response, shown.term = await self._ask(
                cluster,
                StreamsGroupDescribeRequest(group_ids=[GROUP]),
                StreamsGroupDescribeResponse,
            )
            (group,) = response.groups
            shown.code = ErrorCode.of(group.error_code)
            _raise_for(group.error_code)
        except KafkaError as error:
            self._note_failed(cluster, [shown], error)
            raise
        shown.state, shown.group_epoch, shown.assignment_epoch = (
            group.group_state,
            group.group_epoch,
            group.assignment_epoch,
        )
        shown.topology_epoch = -1 if group.topology is None else group.topology.epoch
        shown.members = {
            each.member_id: ShownMember(
                process=each.process_id,
                epoch=each.member_epoch,
                active=tasks_of(each.assignment.active_tasks),
                standby=tasks_of(each.assignment.standby_tasks),
            )
            for each in group.members
        }
        self.history.end(shown)
        return shown

    async def fetch(
        self,
        cluster: ClusterMetadata,
        partitions: Iterable[TopicPartition],
        member: str | None = None,
        epoch: int = -1,
    ) -> dict[TopicPartition, int]:
        """Return the committed offset of the group, -1 for none.

        A coordinator without a successor gives it.

        Raises:
            KafkaError: it was not told.
        """
        asked = {
            partition: self.history.add(TaskFetch(partition=partition)) for partition in partitions
        }
        topics = [
            fetches.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in _by_topic(asked).items()
        ]
        group = fetches.OffsetFetchRequestGroup(
            group_id=GROUP, member_id=member, member_epoch=epoch, topics=topics
        )
        try:
            response, term = await self._ask(
                cluster, fetches.OffsetFetchRequest(groups=[group]), fetches.OffsetFetchResponse
            )
            (told,) = response.groups
            _raise_for(told.error_code)
        except KafkaError as error:
            self._note_failed(cluster, asked.values(), error)
            raise
        for topic in told.topics:
            for index in topic.partitions:
                fetch = asked[TopicPartition(topic.name, index.partition_index)]
                fetch.offset, fetch.term = index.committed_offset, term
                self.history.end(
                    fetch, KafkaError(ErrorCode.of(index.error_code)) if index.error_code else None
                )
        return {
            partition: fetch.offset
            for partition, fetch in asked.items()
            if fetch.is_ok and fetch.term != NOT_KNOWN
        }

    async def commit(
        self, cluster: ClusterMetadata, member: str, epoch: int, offsets: Mapping[Task, int]
    ) -> None:
        """Commit how far a member is with tasks, and note how that went."""
        noted = {
            self.partition_of(task): TaskCommit(
                member=member,
                epoch=epoch,
                task=task,
                partition=self.partition_of(task),
                offset=offset,
            )
            for task, offset in offsets.items()
        }
        for each in noted.values():
            self.history.add(each)
        topics = [
            commits.OffsetCommitRequestTopic(
                name=topic,
                partitions=[_position(noted[TopicPartition(topic, index)]) for index in indexes],
            )
            for topic, indexes in _by_topic(noted).items()
        ]
        request = commits.OffsetCommitRequest(
            group_id=GROUP, generation_id_or_member_epoch=epoch, member_id=member, topics=topics
        )
        try:
            response, _ = await self._ask(cluster, request, commits.OffsetCommitResponse)
        except KafkaError as error:
            self._note_failed(cluster, noted.values(), error)
            return
        for topic in response.topics:
            for index in topic.partitions:
                commit = noted[TopicPartition(topic.name, index.partition_index)]
                commit.code = ErrorCode.of(index.error_code)
                self._note_failed(
                    cluster, [commit], KafkaError(commit.code)
                ) if index.error_code else self.history.end(commit)

    async def _ask(
        self, cluster: ClusterMetadata, request: Message, response_type: type[R]
    ) -> tuple[R, int]:
        """Ask the group's coordinator; return its response, and the term of which that is.

        Raises:
            KafkaError: no response came.
        """
        connection = await cluster.coordinator(GROUP)
        before = self._terms.before(connection.destination.host)
        response = await connection.request(
            request, response_type, max_version=LAST_OFFSET_VERSION_WITH_NAMES
        )
        return response, self._terms.after(connection.destination.host, before)

    def _note_failed(
        self, cluster: ClusterMetadata, operations: Iterable[Operation], error: KafkaError
    ) -> None:
        """Note a failure.

        If the coordinator is another one, or does not respond, it is looked for again.
        """
        for operation in operations:
            self.history.end(operation, error)
        if error.code in MOVED:
            cluster.forget_coordinator(GROUP)


def _raise_for(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode.of(code))


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for where in sorted(partitions):
        found.setdefault(where.topic, []).append(where.partition)
    return found


def _position(commit: TaskCommit) -> commits.OffsetCommitRequestPartition:
    return commits.OffsetCommitRequestPartition(
        partition_index=commit.partition.partition, committed_offset=commit.offset
    )
