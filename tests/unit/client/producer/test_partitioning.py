"""Placement of records: the same as every other Kafka client's."""

from random import Random

import pytest

from log_service.client import TopicPartition
from log_service.client.producer.partitioning import (
    KeyPlacement,
    StickyPlacement,
    murmur2,
    partition_of_key,
)

GOLDEN_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), GOLDEN_HASHES.items())
def test_murmur2_equals_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % (1 << 32)
    assert murmur2(bytearray(key)) == murmur2(memoryview(key)) == expected % (1 << 32)


def test_key_placement_ignores_the_sign_bit() -> None:
    assert partition_of_key(b"21", 7) == (-973932308 & 0x7FFFFFFF) % 7
    assert KeyPlacement().partition(b"21", 7) == partition_of_key(b"21", 7)


def test_keyless_records_stay_until_a_batch_is_full_and_then_move() -> None:
    sticky = StickyPlacement(Random(1), switch_bytes=100)
    first = sticky.place("t", 60, 3, (0, 1, 2))
    assert sticky.place("t", 60, 3, (0, 1, 2)) == first
    assert sticky.place("t", 60, 3, (0, 1, 2)) != first


def test_keyless_records_avoid_partitions_without_leader() -> None:
    sticky = StickyPlacement(Random(1), switch_bytes=1)
    for _ in range(20):
        assert sticky.place("t", 1, 4, (1, 3)) in {1, 3}


def test_a_partition_that_lost_its_leader_is_left_at_once() -> None:
    sticky = StickyPlacement(Random(1), switch_bytes=1_000)
    first = sticky.place("t", 1, 2, (0, 1))
    sticky.leave(TopicPartition("t", first))
    assert sticky.place("t", 1, 2, (1 - first,)) == 1 - first


def test_topics_stick_independently() -> None:
    sticky = StickyPlacement(Random(1), switch_bytes=10)
    first = sticky.place("a", 100, 2, (0, 1))
    other = sticky.place("b", 1, 2, (0, 1))
    assert sticky.place("b", 1, 2, (0, 1)) == other
    assert sticky.place("a", 1, 2, (0, 1)) == 1 - first
