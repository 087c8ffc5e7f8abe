"""Hashes and orders of Java, with values that a JVM printed."""

import pytest

from log_service.common.java_hashing import bucket_count_of_copy, in_hash_map_order, java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("", 0), ("a", 97), ("properties", -926053069), ("console-consumer", -648006740)),
        *(("grüße", 98768023), ("\U0001f600", 1772899), ("a" * 101, -1443024351)),
    ],
)
def test_a_hash_is_that_of_a_java_string(text: str, expected: int) -> None:
    """Characters beyond 16 bits count as two."""
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 2), (2, 4), (3, 8), (5, 8), (6, 16), (11, 16), (12, 32), (23, 32), (24, 64), (48, 128)],
)
def test_a_copied_map_has_room_for_its_entries(count: int, expected: int) -> None:
    """A copy has more buckets than a map that grew to the same size."""
    assert bucket_count_of_copy(count) == expected


def test_few_buckets_give_another_order() -> None:
    """A map with two buckets puts together what a map with sixteen keeps apart."""
    assert in_hash_map_order(["b", "c", "a"]) == ["a", "b", "c"]
    assert in_hash_map_order(["b", "c", "a"], bucket_count=4) == ["a", "b", "c"]
    assert in_hash_map_order(["d", "a"], bucket_count=2) == ["d", "a"]
