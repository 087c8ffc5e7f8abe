"""A client's view of a cluster at one moment: nodes, topics, partitions and leaders.

The values are immutable. A response produces a new view. Of two descriptions of a partition, the
one with the higher leader epoch is newer, unless the topic was created again (KIP-320). This module
knows no sockets and no clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from log_service.client.arguments import whole_number
from log_service.common.errors import ErrorCode
from log_service.common.types import NO_LEADER_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from log_service.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker with the address that the cluster reports to clients."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition. ``leader`` is -1 while the partition has no leader."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic, where ``partitions[i].partition == i``.

    ``topic_id`` is zero if the broker is too old to report it.
    """

    name: str
    topic_id: TopicId
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    available: tuple[int, ...]

    @property
    def partition_count(self) -> int:
        """The number of the topic's partitions."""
        return len(self.partitions)

    def has(self, partition: int | None) -> bool:
        """Return whether the topic has this partition. For None the result is always true.

        Raises:
            TypeError: ``partition`` is not a whole number.
        """
        if partition is None:
            return True
        number = partition if type(partition) is int else whole_number(partition, "a partition")
        return 0 <= number < len(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The last known state of the cluster.

    ``errors`` holds the topics that the last response refused, with their error codes. Each
    response replaces it.
    """

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Node] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicView] = field(default_factory=lambda: MappingProxyType({}))
    names_by_id: Mapping[TopicId, str] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, ErrorCode] = field(default_factory=lambda: MappingProxyType({}))

    def partition(self, topic_partition: TopicPartition) -> PartitionView | None:
        """Return a partition, or None if it is unknown."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def leader_of(self, topic_partition: TopicPartition) -> int:
        """Return the node id of the leader, or -1 if no leader is known."""
        partition = self.partition(topic_partition)
        return (
            NO_LEADER
            if partition is None or partition.leader not in self.nodes
            else partition.leader
        )

    def leader_epoch_of(self, topic_partition: TopicPartition) -> int:
        """Return the leader epoch of a partition, or -1 if it is unknown.

        A request carries it, because a broker refuses an epoch in which it is not the leader.
        """
        found = self.partition(topic_partition)
        return NO_LEADER_EPOCH if found is None else found.leader_epoch

    def racks_of(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """Return the racks of each partition's replicas, without replicas whose rack is unknown."""
        rack_of = {node_id: node.rack for node_id, node in self.nodes.items() if node.rack}
        if not rack_of:
            return {}
        return {
            TopicPartition(topic, each.partition): frozenset(
                rack_of[node_id] for node_id in each.replicas if node_id in rack_of
            )
            for topic in sorted(self.topics.keys() & set(topics))
            for each in self.topics[topic].partitions
        }

    def topic_id_of(self, topic: str) -> TopicId:
        """Return the topic's id, or zero if no broker reported it."""
        known = self.topics.get(topic)
        return NO_TOPIC_ID if known is None else known.topic_id

    def updated(
        self,
        response: MetadataResponse,
        *,
        is_full: bool,
        described_topics: Sequence[TopicView] = (),
    ) -> "ClusterView":
        """Return the view after a response.

        ``is_full`` means that topics which are not in the response do not exist.
        ``described_topics`` is the result of ``topic_views(response)``, if the caller has it
        already.
        """
        topics = {} if is_full else dict(self.topics)
        errors: dict[str, ErrorCode] = {}
        views = described_topics or topic_views(response)
        for described, fresh in zip(response.topics, views, strict=True):
            name = described.name or self.names_by_id.get(TopicId(described.topic_id), "")
            code = ErrorCode.of(described.error_code)
            topic = _newest(name, fresh, self.topics.get(name))
            if (
                code in {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}
                and name
                and topic.partitions
            ):
                topics[name] = topic
            else:
                errors[name] = (
                    code if code is not ErrorCode.NONE else ErrorCode.LEADER_NOT_AVAILABLE
                )
                if code in {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}:
                    topics.pop(name, None)
        nodes = {
            node.node_id: Node(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in response.brokers
        }
        return ClusterView(
            version=self.version + 1,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            nodes=MappingProxyType(nodes),
            topics=MappingProxyType(topics),
            names_by_id=MappingProxyType({topic.topic_id: name for name, topic in topics.items()}),
            errors=MappingProxyType(errors),
        )

    def without(self, topics: Iterable[str]) -> "ClusterView":
        """Return the view without some topics."""
        gone = set(topics)
        kept = {name: topic for name, topic in self.topics.items() if name not in gone}
        names_by_id = {topic.topic_id: name for name, topic in kept.items()}
        return replace(
            self,
            version=self.version + 1,
            topics=MappingProxyType(kept),
            names_by_id=MappingProxyType(names_by_id),
        )

    def without_nodes(self) -> "ClusterView":
        """Return the view without any broker. The client then asks the bootstrap servers again."""
        return replace(
            self, version=self.version + 1, nodes=MappingProxyType({}), controller_id=NO_LEADER
        )

    def with_nodes(self, nodes: Iterable[Node]) -> "ClusterView":
        """Return the view with additional brokers that a response named."""
        by_id = {node.node_id: node for node in nodes}
        if all(self.nodes.get(node_id) == node for node_id, node in by_id.items()):
            return self
        return replace(
            self, nodes=MappingProxyType({**self.nodes, **by_id}), version=self.version + 1
        )

    def with_leader(
        self, topic_partition: TopicPartition, leader: int, leader_epoch: int
    ) -> "ClusterView":
        """Return the view with a leader that a produce or fetch response named (KIP-951).

        Return the view unchanged if the epoch is not newer, or if the leader's address is unknown.
        """
        topic, partition = self.topics.get(topic_partition.topic), self.partition(topic_partition)
        if (
            topic is None
            or partition is None
            or leader_epoch <= partition.leader_epoch
            or leader not in self.nodes
        ):
            return self
        partitions = list(topic.partitions)
        partitions[topic_partition.partition] = replace(
            partition, leader=leader, leader_epoch=leader_epoch
        )
        changed = replace(topic, partitions=tuple(partitions), available=_available(partitions))
        topics = MappingProxyType({**self.topics, topic.name: changed})
        return replace(self, topics=topics, version=self.version + 1)


def topic_views(response: MetadataResponse) -> list[TopicView]:
    """Return the topics of a response in the response's order.

    This needs no earlier view, so another thread may do it for a long response.
    """
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    return [_topic_view(described, shared) for described in response.topics]


def _topic_view(
    described: MetadataResponseTopic, shared: dict[tuple[int, ...], tuple[int, ...]]
) -> TopicView:
    """Return the view of a topic in a response.

    Equal lists of brokers become one tuple in ``shared``, because there are few different ones.
    """
    partitions = []
    for index, partition in enumerate(
        sorted(described.partitions, key=lambda each: each.partition_index)
    ):
        if partition.partition_index != index:
            break  # after a gap the numbers of a broker's response cannot be trusted
        partitions.append(_partition_view(partition, shared))
    return TopicView(
        name=described.name or "",
        topic_id=TopicId(described.topic_id),
        is_internal=described.is_internal,
        partitions=tuple(partitions),
        available=_available(partitions),
    )


def _newest(name: str, fresh: TopicView, known: TopicView | None) -> TopicView:
    """Merge two views of a topic: for each partition the one with the higher leader epoch.

    If the topic ids differ, ``fresh`` is returned.
    """
    if fresh.name != name:
        fresh = replace(fresh, name=name)
    if known is None or known.topic_id != fresh.topic_id:
        return fresh
    pairs = list(zip(known.partitions, fresh.partitions, strict=False))
    if all(older.leader_epoch <= newer.leader_epoch for older, newer in pairs):
        return fresh
    partitions = [
        older if older.leader_epoch > newer.leader_epoch else newer for older, newer in pairs
    ]
    partitions += fresh.partitions[len(pairs) :]
    return replace(fresh, partitions=tuple(partitions), available=_available(partitions))


def _partition_view(
    described: MetadataResponsePartition, shared: dict[tuple[int, ...], tuple[int, ...]]
) -> PartitionView:
    def nodes(listed: Sequence[int]) -> tuple[int, ...]:
        found = tuple(listed)
        return shared.setdefault(found, found)

    return PartitionView(
        partition=described.partition_index,
        leader=described.leader_id,
        leader_epoch=described.leader_epoch,
        replicas=nodes(described.replica_nodes),
        isr=nodes(described.isr_nodes),
        offline_replicas=nodes(described.offline_replicas),
    )


def _available(partitions: list[PartitionView]) -> tuple[int, ...]:
    return tuple(partition.partition for partition in partitions if partition.leader >= 0)
