"""Chooses the partition of a record: murmur2 for keys, sticky without a key, or a user's function.

A keyed record gets the same partition as from the Java client, so producers in all languages agree.
The functions are pure. The caller passes randomness and the cluster.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from struct import iter_unpack

from log_service.common.types import Buffer, TopicPartition

Partitioner = Callable[[str, bytes | None, bytes | None, int], int | None]
"""``(topic, key, value, partition_count) -> partition``, or None to use the default."""

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
REMEMBERED_KEYS = 8_192


def murmur2(key: Buffer) -> int:
    """Return the unsigned 32-bit murmur2 hash with Kafka's seed."""
    size = len(key)
    whole = size & ~3
    digest = _SEED ^ size
    for (word,) in iter_unpack("<I", memoryview(key)[:whole]):
        mixed = (word * _MULTIPLIER) & _MASK
        mixed = ((mixed ^ (mixed >> 24)) * _MULTIPLIER) & _MASK
        digest = ((digest * _MULTIPLIER) & _MASK) ^ mixed
    if whole != size:
        digest = ((digest ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER) & _MASK
    digest = ((digest ^ (digest >> 13)) * _MULTIPLIER) & _MASK
    return digest ^ (digest >> 15)


def partition_of_key(key: Buffer, partition_count: int) -> int:
    """Return the partition of a key, as Java's default and librdkafka's ``murmur2_random`` do."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class KeyPlacement:
    """``partition_of_key`` with a cache of recent hashes, because services repeat their keys."""

    def __init__(self) -> None:
        self._hash = lru_cache(maxsize=REMEMBERED_KEYS)(murmur2)

    def partition(self, key: bytes, partition_count: int) -> int:
        """Return the partition of ``key``."""
        return (self._hash(key) & 0x7FFFFFFF) % partition_count


Load = Callable[[str, int], int]
"""``(topic, partition) -> number of waiting batches``"""


class StickyPlacement:
    """Keeps keyless records on one partition for about a batch, then switches (KIP-480, KIP-794).

    The next partition is random. If ``load`` tells how many batches wait for each partition, those
    with more batches are less likely to be chosen. So a slow broker gets fewer records.
    """

    def __init__(self, rng: Random, switch_bytes: int, load: Load | None = None) -> None:
        self._rng = rng
        self._load = load
        self._switch_bytes = max(switch_bytes, 1)
        self._current: dict[str, int] = {}
        self._bytes: dict[str, int] = {}

    def place(
        self, topic: str, size_bytes: int, partition_count: int, available: Sequence[int]
    ) -> int:
        """Return the partition of the next keyless record.

        ``available`` are the partitions with a leader. One of these is chosen if there are any.
        """
        current = self._current.get(topic, -1)
        if current < 0 or current >= partition_count or self._bytes[topic] >= self._switch_bytes:
            current = self._move(topic, partition_count, available, current)
        self._bytes[topic] += size_bytes
        return current

    def note_placed(self, topic_partition: TopicPartition, size_bytes: int) -> None:
        """Count more bytes for a partition, if it is the current one of its topic."""
        if self._current.get(topic_partition.topic) == topic_partition.partition:
            self._bytes[topic_partition.topic] += size_bytes

    def leave(self, topic_partition: TopicPartition) -> None:
        """Make the next record of the topic switch, because the partition has no leader now."""
        if self._current.get(topic_partition.topic) == topic_partition.partition:
            self._bytes[topic_partition.topic] = self._switch_bytes

    def _move(
        self, topic: str, partition_count: int, available: Sequence[int], current: int
    ) -> int:
        candidates = available or range(partition_count)
        chosen = self._draw(topic, candidates)
        if chosen == current and len(candidates) > 1:
            chosen = candidates[(candidates.index(chosen) + 1) % len(candidates)]
        self._current[topic], self._bytes[topic] = chosen, 0
        return chosen

    def _draw(self, topic: str, candidates: Sequence[int]) -> int:
        loads = [self._load(topic, each) for each in candidates] if self._load is not None else [0]
        heaviest = max(loads)
        if heaviest == min(loads):
            return candidates[self._rng.randrange(len(candidates))]
        drawn = self._rng.randrange(sum(heaviest + 1 - load for load in loads))
        for each, load in zip(candidates, loads, strict=True):
            drawn -= heaviest + 1 - load
            if drawn < 0:
                return each
        raise AssertionError("the drawn number is below the sum of all weights")
