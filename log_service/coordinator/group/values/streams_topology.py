"""The topology of a Kafka Streams application (KIP-1071): subtopologies and their topics.

A topology is a value. The first member of a group sends it, and the log stores it. A group never
changes its topology in Kafka 4.3. ``streams.configuration`` derives partition counts from the
topology. Source topics belong to the user. Repartition and changelog topics are *internal*. The
application writes and reads internal topics, and the broker creates them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages import streams_group_heartbeat as heartbeat
from log_service.protocol.stored import streams_group_records as stored

UNDECIDED = 0
"""A partition count that the broker decides, or the cluster's default replication factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A topic that the application uses internally."""

    name: str
    partitions: int = UNDECIDED
    replication_factor: int = UNDECIDED
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup:
    """Topics that need equal partition counts, as indexes into the lists of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """A part of a topology that is connected to other parts only by repartition topics.

    It has one task for each partition of its largest input topic.
    """

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    def input_topics(self) -> Iterator[str]:
        """Iterate over the names of its input topics."""
        yield from self.source_topics
        yield from (topic.name for topic in self.repartition_source_topics)

    def topics(self) -> Iterator[str]:
        """Iterate over the names of its input topics and changelogs."""
        yield from self.input_topics()
        yield from (topic.name for topic in self.state_changelog_topics)

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """Iterate over the groups of topics that need equal partition counts, by name."""
        for group in self.copartition_groups:
            sources = (self.source_topics[index] for index in group.source_topics)
            repartitioned = (
                self.repartition_source_topics[index].name
                for index in group.repartition_source_topics
            )
            yield frozenset((*sources, *repartitioned))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The subtopologies of an application, with the topology epoch that the application sent.

    Subtopologies keep the order in which the member sent them.
    """

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    def by_id(self) -> Mapping[str, Subtopology]:
        """Return the subtopologies by their ids."""
        return {each.subtopology_id: each for each in self.subtopologies}

    def is_same(self, other: "Topology") -> bool:
        """Whether another topology is equal, apart from the order of subtopologies."""
        return self.epoch == other.epoch and self.by_id() == other.by_id()

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that must exist."""
        return frozenset(name for each in self.subtopologies for name in each.topics())

    def readers(self) -> Mapping[str, str]:
        """Return the id of the subtopology that reads a topic, for each topic name."""
        return {
            name: each.subtopology_id for each in self.subtopologies for name in each.input_topics()
        }


def validate_topology(topology: Topology) -> None:
    """Validate a topology without looking at existing topics.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY, with the reason.
    """
    if topology.epoch < 0:
        raise _invalid(f"Topology epoch {topology.epoch} is negative.")
    if len(topology.by_id()) < len(topology.subtopologies):
        raise _invalid("Two subtopologies have the same id.")
    for each in topology.subtopologies:
        _validate_subtopology(each)


def _validate_subtopology(subtopology: Subtopology) -> None:
    for topic in subtopology.state_changelog_topics:
        if topic.partitions != UNDECIDED:
            text = (
                f"Changelog topic {topic.name} must have an undefined partition count, but it is"
                f" set to {topic.partitions}."
            )
            raise _invalid(text)
    for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
        if len({topic.name for topic in topics}) < len(topics):
            raise _invalid(
                f"Subtopology {subtopology.subtopology_id} names a topic twice in one list."
            )
    negative = next(
        (topic.name for topic in subtopology.repartition_source_topics if topic.partitions < 0),
        None,
    )
    if negative is not None:
        raise _invalid(f"Repartition topic {negative} has a negative partition count.")
    for group in subtopology.copartition_groups:
        places = (
            (group.source_topics, len(subtopology.source_topics)),
            (group.repartition_source_topics, len(subtopology.repartition_source_topics)),
        )
        if any(not 0 <= index < count for indexes, count in places for index in indexes):
            raise _invalid(
                f"A copartition group of subtopology {subtopology.subtopology_id} points beyond its"
                " topics."
            )


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def topology_of(message: heartbeat.Topology | stored.StreamsGroupTopologyValue) -> Topology:
    """Return the topology of a request or a record."""
    return Topology(
        epoch=message.epoch,
        subtopologies=tuple(_subtopology(each) for each in message.subtopologies),
    )


def _subtopology(message: heartbeat.Subtopology | stored.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=message.subtopology_id,
        source_topics=tuple(message.source_topics),
        source_topic_regex=tuple(message.source_topic_regex),
        state_changelog_topics=tuple(
            _internal_topic(each) for each in message.state_changelog_topics
        ),
        repartition_sink_topics=tuple(message.repartition_sink_topics),
        repartition_source_topics=tuple(
            _internal_topic(each) for each in message.repartition_source_topics
        ),
        copartition_groups=tuple(
            CopartitionGroup(
                source_topics=tuple(each.source_topics),
                source_topic_regex=tuple(each.source_topic_regex),
                repartition_source_topics=tuple(each.repartition_source_topics),
            )
            for each in message.copartition_groups
        ),
    )


def _internal_topic(message: heartbeat.TopicInfo | stored.TopicInfo) -> InternalTopic:
    return InternalTopic(
        name=message.name,
        partitions=message.partitions,
        replication_factor=message.replication_factor,
        configs=tuple((each.key, each.value) for each in message.topic_configs),
    )


def stored_topology(topology: Topology) -> stored.StreamsGroupTopologyValue:
    """Return the stored form of a topology."""
    return stored.StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            stored.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=[
                    _stored_topic(topic) for topic in each.state_changelog_topics
                ],
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=[
                    _stored_topic(topic) for topic in each.repartition_source_topics
                ],
                copartition_groups=[
                    stored.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _stored_topic(topic: InternalTopic) -> stored.TopicInfo:
    return stored.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[stored.TopicConfig(key=key, value=value) for key, value in topic.configs],
    )
