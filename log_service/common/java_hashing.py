"""Hashes as Java computes them.

Kafka assigns groups to partitions and orders votes by these hashes, so clients and existing logs
rely on them. Confluent's schema registry reports properties in the order of a hash map. This file
implements 32-bit arithmetic and the buckets of Java's hash map.
"""

from collections.abc import Collection
from functools import lru_cache

FIRST_BUCKET_COUNT = 16
KNOWN_COUNT = 4_096
KNOWN_LENGTH = 100
"""The bounds of the hash cache: the number of texts and their length.

Hashes are cached because all requests of a group need the same hash.
"""


def java_abs(value: int) -> int:
    """Return the absolute value as Kafka does. The smallest 32-bit number becomes 0."""
    return 0 if value == -(1 << 31) else abs(value)


def hashed_partition(name: str, partition_count: int) -> int:
    """Return the partition of a coordinator's topic to which a name belongs.

    The name is that of a group, a transactional id or a share partition.
    """
    return java_abs(java_hash(name)) % partition_count


def java_hash(text: str) -> int:
    """Return the hash of Java's ``String.hashCode``: over UTF-16 code units, 32 bits, signed."""
    return _known_hash(text) if len(text) <= KNOWN_LENGTH else _computed_hash(text)


def _computed_hash(text: str) -> int:
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (value * 31 + (encoded[index] << 8 | encoded[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


_known_hash = lru_cache(KNOWN_COUNT)(_computed_hash)


def in_hash_map_order(
    names: Collection[str], *, bucket_count: int = FIRST_BUCKET_COUNT
) -> list[str]:
    """Return distinct strings in the iteration order of a Java hash map.

    The map begins with ``bucket_count`` buckets, a power of two. Strings of the same bucket keep
    the order in which they were given.
    """
    while len(names) * 4 > bucket_count * 3:
        bucket_count *= 2
    return sorted(names, key=lambda name: _spread(java_hash(name) & 0xFFFFFFFF) % bucket_count)


def bucket_count_of_copy(count: int) -> int:
    """Return the number of buckets of a Java hash map that copies a map of ``count`` entries."""
    return 1 << max(count * 4 // 3, 0).bit_length()


def _spread(value: int) -> int:
    return value ^ value >> 16
