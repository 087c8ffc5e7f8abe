"""A changed copy of a map in key order equals a dictionary that was changed alike.

The map before stays as it was.
"""

import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from log_service.common.sorted_map import (
    CHUNK_SIZE,
    REBUILT_SHARE,
    ChunkedMap,
    changed_map,
    sorted_map,
)

KEYS = st.integers(0, 3 * CHUNK_SIZE)
LARGE = 40 * CHUNK_SIZE


class Changes(RuleBasedStateMachine):
    """A map, and the dictionary that it must equal after any changes."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: dict[int, int] = {}
        self.found = sorted_map(self.expected)

    @rule(keys=st.sets(KEYS), value=st.integers(), is_removed=st.booleans())
    def change_some(self, keys: set[int], value: int, is_removed: bool) -> None:
        self.change(dict.fromkeys(keys, None if is_removed else value))

    @rule(start=KEYS, count=KEYS, value=st.integers(), is_removed=st.booleans())
    def change_a_range(self, start: int, count: int, value: int, is_removed: bool) -> None:
        self.change(dict.fromkeys(range(start, start + count), None if is_removed else value))

    def change(self, changes: dict[int, int | None]) -> None:
        before, copy = self.found, dict(self.found)
        self.found = changed_map(before, dict(changes))
        self.expected = {
            key: value for key, value in {**self.expected, **changes}.items() if value is not None
        }
        assert dict(before) == copy, "the map before stays as it was"
        check(self.found, self.expected)


def check(found: object, expected: dict[int, int]) -> None:
    assert isinstance(found, dict | ChunkedMap)
    assert found == expected
    assert len(found) == len(expected)
    assert list(found) == sorted(expected)
    assert list(found.items()) == sorted(expected.items())
    assert list(found.values()) == [expected[key] for key in sorted(expected)]
    assert all(
        key in found and found[key] == value == found.get(key) for key, value in expected.items()
    )
    assert isinstance(found, dict) == (len(found) <= CHUNK_SIZE)


TestChanges = Changes.TestCase


def large() -> ChunkedMap[int, int]:
    found = sorted_map({key: -key for key in range(0, 2 * LARGE, 2)})
    assert isinstance(found, ChunkedMap)
    return found


def sizes(found: ChunkedMap[int, int]) -> list[int]:
    return [len(chunk) for chunk in found.chunks]


def test_a_small_map_is_a_dictionary_in_order() -> None:
    found = sorted_map({"b": 2, "a": 1})
    assert type(found) is dict
    assert list(changed_map(found, {"0": 3})) == ["0", "a", "b"]


def test_no_change_is_the_same_map() -> None:
    for found in (sorted_map({1: 1}), large()):
        assert changed_map(found, {}) is found


def test_a_change_shares_all_chunks_but_its_own() -> None:
    before = large()
    after = changed_map(before, {1000: 7, 1001: 7})
    assert isinstance(after, ChunkedMap)
    kept = {id(chunk) for chunk in before.chunks} & {id(chunk) for chunk in after.chunks}
    assert len(kept) == len(before.chunks) - 1


def test_chunks_split_when_they_are_full_and_go_when_they_are_empty() -> None:
    found: object = large()
    for key in range(1, LARGE, 2):
        assert isinstance(found, ChunkedMap)
        found = changed_map(found, {key: 0})
    assert isinstance(found, ChunkedMap)
    assert len(found) == LARGE + LARGE // 2
    assert max(sizes(found)) <= CHUNK_SIZE
    emptied = changed_map(found, dict.fromkeys(range(CHUNK_SIZE)))
    assert isinstance(emptied, ChunkedMap)
    assert min(sizes(emptied)) > 0
    assert next(iter(emptied)) == CHUNK_SIZE


def test_a_map_that_was_nearly_emptied_is_packed_again() -> None:
    found: object = large()
    for start in range(0, 2 * LARGE, 2 * CHUNK_SIZE):
        assert isinstance(found, ChunkedMap)
        found = changed_map(found, dict.fromkeys(range(start, start + 2 * CHUNK_SIZE - 20)))
    assert isinstance(found, ChunkedMap)
    assert len(sizes(found)) <= len(found) * 4 // CHUNK_SIZE + 1
    assert all(low < high for low, high in pairwise(found))


@pytest.mark.parametrize("count", [1, LARGE // REBUILT_SHARE + 1])
def test_few_changes_and_many_give_the_same(count: int) -> None:
    changes: dict[int, int | None] = {
        key: (None if key % 4 else key) for key in range(0, 2 * count, 2)
    }
    expected = {key: value for key, value in {**large(), **changes}.items() if value is not None}
    assert list(changed_map(large(), changes).items()) == sorted(expected.items())


@given(st.dictionaries(st.text(), st.integers()))
def test_text_comes_back_in_the_order_of_its_characters(entries: dict[str, int]) -> None:
    assert list(sorted_map(entries)) == sorted(entries)


def test_what_is_not_there_is_not_found() -> None:
    found = large()
    assert found.get(-1) is None
    assert found.get(1, 5) == 5
    assert sys.maxsize not in found
    with pytest.raises(KeyError):
        found[1]
    assert repr(found) == f"<ChunkedMap of {LARGE} entries in 40 chunks>"
