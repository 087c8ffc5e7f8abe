"""Sets of partitions by topic id, as groups of KIP-848 and later assign them.

The sets are values, and no function changes its arguments. ``Partitions`` is a target, or the
partitions that a member reports. ``HeldPartitions`` is the set that a member holds, with the
assignment epoch of each partition. A topic without partitions is left out, so that equal sets are
equal mappings. Most functions take any keys, because tasks of streams groups (KIP-1071) are sets of
partitions by subtopology id.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
HeldPartitions = Mapping[UUID, Mapping[int, int]]
"""The assignment epoch of each held partition (KIP-1251), by topic id and partition."""

K = TypeVar("K", UUID, str)

NO_PARTITIONS: Partitions = {}
NOTHING_HELD: HeldPartitions = {}


class TopicPartitionList(Protocol):
    """The type of messages and records that name partitions of one topic."""

    topic_id: UUID
    partitions: list[int]


def partitions_of(topics: Iterable[TopicPartitionList]) -> Partitions:
    """Return the partitions that a message names."""
    found: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()) | frozenset(
                topic.partitions
            )
    return found


def in_order(partitions: Mapping[K, Collection[int]]) -> list[tuple[K, list[int]]]:
    """Return partitions sorted by topic id and number, as records and responses list them."""
    return [(topic_id, sorted(partitions[topic_id])) for topic_id in sorted(partitions)]


def without_epochs(held: Mapping[K, Mapping[int, int]]) -> Mapping[K, frozenset[int]]:
    """Return held partitions without their epochs."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in held.items()}


def is_same_set(first: HeldPartitions, second: HeldPartitions) -> bool:
    """Whether both mappings hold the same partitions, regardless of their epochs."""
    return first.keys() == second.keys() and all(
        first[topic_id].keys() == second[topic_id].keys() for topic_id in first
    )


def overlaps(partitions: Mapping[K, frozenset[int]], held: Mapping[K, Collection[int]]) -> bool:
    """Whether ``held`` contains at least one of ``partitions``."""
    return any(
        not partitions[topic_id].isdisjoint(epochs)
        for topic_id, epochs in held.items()
        if topic_id in partitions
    )


def is_subset(partitions: Mapping[K, frozenset[int]], held: Mapping[K, Collection[int]]) -> bool:
    """Whether ``held`` contains all of ``partitions``."""
    return all(indexes.issubset(held.get(topic_id, ())) for topic_id, indexes in partitions.items())


def merged(
    first: Mapping[K, Mapping[int, int]], second: Mapping[K, Mapping[int, int]]
) -> Mapping[K, Mapping[int, int]]:
    """Return the union of both mappings. For a common partition, ``second`` gives the epoch."""
    return {
        topic_id: {**first.get(topic_id, {}), **second.get(topic_id, {})}
        for topic_id in {**first, **second}
    }


def split(
    held: Mapping[K, Mapping[int, int]], wanted: Mapping[K, frozenset[int]]
) -> tuple[dict[K, dict[int, int]], dict[K, dict[int, int]]]:
    """Split held partitions into those that are in ``wanted``, and the others."""
    kept: dict[K, dict[int, int]] = {}
    lost: dict[K, dict[int, int]] = {}
    for topic_id, epochs in held.items():
        indexes = wanted.get(topic_id, frozenset())
        for index, epoch in epochs.items():
            (kept if index in indexes else lost).setdefault(topic_id, {})[index] = epoch
    return kept, lost


def in_epoch(held: HeldPartitions, epoch: int) -> HeldPartitions:
    """Return the same partitions, all with assignment epoch ``epoch``."""
    return {topic_id: dict.fromkeys(epochs, epoch) for topic_id, epochs in held.items()}
