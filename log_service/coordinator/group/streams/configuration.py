"""Derive partition counts, tasks and missing internal topics from a topology (KIP-1071).

- Source topics must exist.
- A repartition topic gets the partition count of the largest topic upstream of it, unless the
  application fixes the count.
- Joined topics must have equal counts. Repartition topics among them are adapted.
- A changelog gets the count of the largest input of its subtopology.
- A subtopology has one task for each partition of its largest input.

A ``Problem`` prevents the assignment of tasks. Members get it as a status and not as an error,
because they wait until it is solved. This file does not know groups, metadata images or the log.

Source: KIP-1071 as of Kafka 4.3.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from heapq import heappop, heappush

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.java_hashing import in_hash_map_order
from log_service.coordinator.group.values.streams_topology import (
    UNDECIDED,
    InternalTopic,
    Subtopology,
    Topology,
)

PartitionCount = Callable[[str], int | None]
"""Returns the partition count of a topic by name, or None if the topic does not exist."""
MAX_NAMED_TOPICS = 3
"""The largest number of topics that a status names. Further topics are counted."""


class StreamsStatus(IntEnum):
    """Statuses that members get with their tasks. The values are those of the protocol."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The reason why a topology cannot be run yet."""

    status: StreamsStatus
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSubtopology:
    """A subtopology whose internal topics have partition counts.

    A subtopology with changelogs is stateful.
    """

    task_count: int
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    state_changelog_topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    """A topology with its derived partition counts.

    ``subtopologies`` is None if the counts cannot be derived.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None = None
    missing_topics: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


class _UnsolvedError(Exception):
    """Partition counts cannot be derived, for the reason in ``problem``."""

    def __init__(self, status: StreamsStatus, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(status=status, detail=detail)


def configured(topology: Topology, partition_count: PartitionCount) -> ConfiguredTopology:
    """Return the configuration of a valid topology for the topics that exist.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY, the topology cannot run, whatever topics exist.
    """
    try:
        _validate_sources(topology, partition_count)
        decided = _decided_counts(topology, partition_count)
        subtopologies = {
            each.subtopology_id: _configured(each, decided) for each in topology.subtopologies
        }
        missing = _missing_topics(topology, subtopologies, partition_count)
    except _UnsolvedError as error:
        return ConfiguredTopology(epoch=topology.epoch, problem=error.problem)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {_summary([topic.name for topic in missing])}"
        problem = Problem(status=StreamsStatus.MISSING_INTERNAL_TOPICS, detail=detail)
    in_order = {each: subtopologies[each] for each in sorted(subtopologies)}
    return ConfiguredTopology(
        epoch=topology.epoch, subtopologies=in_order, missing_topics=missing, problem=problem
    )


def _validate_sources(topology: Topology, partition_count: PartitionCount) -> None:
    names = {name for each in topology.subtopologies for name in each.source_topics}
    missing = sorted(name for name in names if partition_count(name) is None)
    if missing:
        raise _UnsolvedError(
            StreamsStatus.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing."
        )


def _summary(names: list[str]) -> str:
    rest = len(names) - MAX_NAMED_TOPICS
    return ", ".join(names[:MAX_NAMED_TOPICS]) + (
        f" and {rest} additional topics" if rest > 0 else ""
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    """Partition counts of existing topics, and decided counts of internal topics."""

    existing: PartitionCount
    decided: dict[str, int]

    def of(self, name: str) -> int | None:
        """Return the partition count of a topic, or None if it is not known.

        The count of an existing topic takes precedence over a decided one.
        """
        count = self.existing(name)
        return self.decided.get(name) if count is None else count

    def known(self, name: str) -> int:
        """Return the partition count of a topic.

        Raises:
            KafkaError: STREAMS_INVALID_TOPOLOGY, the count is not known.
        """
        count = self.of(name)
        if count is None:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"Number of partitions is not set for topic: {name}",
            )
        return count


def _decided_counts(topology: Topology, partition_count: PartitionCount) -> _Counts:
    counts = _Counts(partition_count, {})
    counts.decided.update(_repartition_counts(topology, counts))
    repartitioned = [
        topic for each in topology.subtopologies for topic in each.repartition_source_topics
    ]
    fixed = {
        topic.name: counts.known(topic.name)
        for topic in repartitioned
        if topic.partitions != UNDECIDED
    }
    flexible = {topic.name for topic in repartitioned if topic.partitions == UNDECIDED}
    for each in _in_order(topology):
        for names in each.copartitioned():
            counts.decided.update(_copartitioned_counts(names, fixed, flexible, counts))
    for each in topology.subtopologies:
        counts.decided.update(
            dict.fromkeys(
                (topic.name for topic in each.state_changelog_topics), _task_count(each, counts)
            )
        )
    return counts


def _in_order(topology: Topology) -> list[Subtopology]:
    """Return the subtopologies in Kafka's order, because partition counts may depend on it."""
    by_id = topology.by_id()
    return [by_id[each] for each in in_hash_map_order(list(by_id))]


def _repartition_counts(topology: Topology, counts: _Counts) -> dict[str, int]:
    """Return the partition counts of repartition topics, either fixed or derived from upstream.

    Kafka passes over the subtopologies repeatedly. A subtopology gives its sinks the count of its
    largest input in the first pass in which the count of one input is known. Here, the passes after
    the first one visit only subtopologies with an input whose count has just become known.
    Therefore the cost of a long chain grows only with its length.
    """
    in_order = _in_order(topology)
    found = {
        topic.name: topic.partitions
        for each in in_order
        for topic in each.repartition_source_topics
        if topic.partitions != UNDECIDED
    }
    readers: dict[str, list[int]] = {}
    for place, each in enumerate(in_order):
        for topic in each.repartition_source_topics:
            readers.setdefault(topic.name, []).append(place)
    waiting = set(range(len(in_order)))
    turns = [(0, place) for place in range(len(in_order))]
    while turns:
        turn, place = heappop(turns)
        upstream = (
            _largest_known_input(in_order[place], found, counts) if place in waiting else None
        )
        if upstream is None:
            continue
        waiting.discard(place)
        for sink in in_order[place].repartition_sink_topics:
            if sink not in found:
                found[sink] = upstream
                for reader in readers.get(sink, ()):
                    heappush(turns, (turn if reader > place else turn + 1, reader))
    _validate_found(in_order, found)
    return found


def _validate_found(subtopologies: Sequence[Subtopology], found: Mapping[str, int]) -> None:
    """Check that every repartition topic has a count.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY.
    """
    failure = "Failed to compute number of partitions for all repartition topics"
    if any(sink not in found for each in subtopologies for sink in each.repartition_sink_topics):
        text = f"{failure}. There may be loops in the topology that cannot be resolved."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if any(
        topic.name not in found
        for each in subtopologies
        for topic in each.repartition_source_topics
    ):
        text = f"{failure}, because a repartition source topic is never used as a sink topic."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _largest_known_input(
    subtopology: Subtopology, found: Mapping[str, int], counts: _Counts
) -> int | None:
    repartitioned = (found.get(topic.name) for topic in subtopology.repartition_source_topics)
    sources = (counts.of(name) for name in subtopology.source_topics)
    return max((count for count in (*repartitioned, *sources) if count is not None), default=None)


def _copartitioned_counts(
    names: frozenset[str], fixed: Mapping[str, int], flexible: set[str], counts: _Counts
) -> dict[str, int]:
    """Return the partition counts of the repartition topics among co-partitioned ``names``.

    All get the common count of the other topics among ``names``. Without other topics they get the
    common count of all ``fixed`` topics, and without those the largest of their own counts.

    Raises:
        KafkaError: STREAMS_INVALID_TOPOLOGY, a topic has no count.
        _UnsolvedError: INCORRECTLY_PARTITIONED_TOPICS, counts that must not change differ.
    """
    repartitioned = {
        name: counts.known(name) for name in sorted(names) if name in fixed or name in flexible
    }
    others = {name: counts.known(name) for name in sorted(names) if name not in repartitioned}
    if others:
        count = _same_count(others, others)
    elif not repartitioned:
        return {}
    elif fixed:
        count = _same_count(fixed, repartitioned)
    else:
        count = max(repartitioned.values())
    for name, own in repartitioned.items():
        if name in fixed and own != count:
            text = (
                f"Number of partitions [{own}] of repartition topic [{name}] doesn't match number"
                f" of partitions [{count}] of the source topic."
            )
            raise _UnsolvedError(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
    return dict.fromkeys(repartitioned, count)


def _same_count(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """Return the common partition count of all topics.

    If the counts differ, the error lists ``shown``.

    Raises:
        _UnsolvedError: INCORRECTLY_PARTITIONED_TOPICS.
    """
    first = next(iter(counts.values()))
    if any(count != first for count in counts.values()):
        listed = ", ".join(f"{name}={count}" for name, count in shown.items())
        text = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        raise _UnsolvedError(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
    return first


def _task_count(subtopology: Subtopology, counts: _Counts) -> int:
    largest = max((counts.known(name) for name in subtopology.input_topics()), default=None)
    if largest is None:
        text = f"No source topics found for subtopology {subtopology.subtopology_id}"
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return largest


def _configured(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    def decided(topics: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
        return tuple(
            replace(topic, partitions=topic.partitions or counts.decided[topic.name])
            for topic in topics
        )

    return ConfiguredSubtopology(
        task_count=_task_count(subtopology, counts),
        source_topics=subtopology.source_topics,
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=decided(subtopology.repartition_source_topics),
        state_changelog_topics=decided(subtopology.state_changelog_topics),
    )


def _missing_topics(
    topology: Topology,
    subtopologies: Mapping[str, ConfiguredSubtopology],
    partition_count: PartitionCount,
) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist.

    Raises:
        _UnsolvedError: INCORRECTLY_PARTITIONED_TOPICS, an existing topic has another count than
            the derived one.
    """
    internal = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    }
    for name in in_hash_map_order(list(topology.topics())):
        count = partition_count(name)
        if count is not None and name in internal and internal[name].partitions != count:
            text = (
                f"Existing topic {name} has different number of partitions: expected"
                f" {internal[name].partitions}, found {count}"
            )
            raise _UnsolvedError(StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, text)
    return tuple(
        internal[name]
        for name in in_hash_map_order(list(internal))
        if partition_count(name) is None
    )
