"""Sets of partitions by topic id, as groups of KIP-848 and later assign them. Values: no function changes its arguments.

``Partitions`` are what a member is to have or says that it has; ``HeldPartitions`` are what it holds, each since some epoch. A topic
without partitions is not in them, so that equal sets are equal mappings.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
HeldPartitions = Mapping[UUID, Mapping[int, int]]
"""The epoch in which each partition was assigned to its member (KIP-1251), by topic id and partition."""

NO_PARTITIONS: Partitions = {}
NOTHING_HELD: HeldPartitions = {}


class TopicPartitionList(Protocol):
    """The shape in which messages and records name partitions of one topic."""

    topic_id: UUID
    partitions: list[int]


def partitions_of(topics: Iterable[TopicPartitionList]) -> Partitions:
    """Return what a message names."""
    found: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return found


def in_order(partitions: Mapping[UUID, Collection[int]]) -> list[tuple[UUID, list[int]]]:
    """Return topics and partitions in the order in which they are stored and told."""
    return [(topic_id, sorted(partitions[topic_id])) for topic_id in sorted(partitions)]


def without_epochs(held: HeldPartitions) -> Partitions:
    """Return what is held, whenever it was assigned."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in held.items()}


def is_same_set(first: HeldPartitions, second: HeldPartitions) -> bool:
    """Whether both hold the same partitions, whenever they were assigned."""
    return first.keys() == second.keys() and all(first[topic_id].keys() == second[topic_id].keys() for topic_id in first)


def overlaps(partitions: Partitions, held: HeldPartitions) -> bool:
    """Whether a partition is in both."""
    return any(not partitions[topic_id].isdisjoint(epochs) for topic_id, epochs in held.items() if topic_id in partitions)


def is_subset(partitions: Partitions, held: HeldPartitions) -> bool:
    """Whether all partitions are held."""
    return all(indexes <= held.get(topic_id, {}).keys() for topic_id, indexes in partitions.items())


def merged(first: HeldPartitions, second: HeldPartitions) -> HeldPartitions:
    """Return what is in either."""
    return {topic_id: {**first.get(topic_id, {}), **second.get(topic_id, {})} for topic_id in {**first, **second}}


def in_epoch(held: HeldPartitions, epoch: int) -> HeldPartitions:
    """Return the same partitions, all assigned in one epoch."""
    return {topic_id: dict.fromkeys(epochs, epoch) for topic_id, epochs in held.items()}
