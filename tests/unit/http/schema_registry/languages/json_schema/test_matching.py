"""Pairs of two sides."""

import random
from itertools import permutations

import pytest

from log_service.http.schema_registry.languages.json_schema.matching import maximum_matching
from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget, SchemaLimits

Graph = list[list[bool]]


def matched(
    graph: Graph, right_count: int, budget: Budget | None = None
) -> tuple[dict[int, int], int]:
    """The left member of each matched right one, and how often was asked."""
    steps = maximum_matching(
        len(graph), right_count, lambda _: range(right_count), budget or Budget()
    )
    asked = 0
    try:
        left, right = next(steps)
        while True:
            asked += 1
            left, right = steps.send(graph[left][right])
    except StopIteration as end:
        found: dict[int, int] = end.value
        return found, asked


def largest(graph: Graph, right_count: int) -> int:
    """The size of the largest matching, by trying all of them."""
    width = max(len(graph), right_count)
    padded = [
        [left < len(graph) and right < right_count and graph[left][right] for right in range(width)]
        for left in range(width)
    ]
    return max(
        sum(padded[left][right] for left, right in enumerate(order))
        for order in permutations(range(width))
    )


@pytest.mark.parametrize("seed", range(200))
def test_a_matching_is_as_large_as_one_can_be(seed: int) -> None:
    """All matchings of small graphs are the judge."""
    rng = random.Random(seed)
    left_count, right_count, density = rng.randint(0, 6), rng.randint(0, 6), rng.random()
    graph = [[rng.random() < density for _ in range(right_count)] for _ in range(left_count)]
    found, asked = matched(graph, right_count)
    assert all(graph[left][right] for right, left in found.items())
    assert len(set(found.values())) == len(found) == largest(graph, right_count)
    assert asked <= left_count * right_count, "nothing is asked twice"


def test_members_that_fit_their_first_partner_need_one_question_each() -> None:
    """A comparison of schemas is dear."""
    assert matched([[True] * 50 for _ in range(50)], 50)[1] <= 50 * 51 // 2
    steps = maximum_matching(50, 50, lambda left: [left], Budget())
    asked = [next(steps)]
    while True:
        try:
            asked.append(steps.send(True))
        except StopIteration:
            break
    assert asked == [(n, n) for n in range(50)]


def test_a_matching_is_bounded() -> None:
    """The budget counts each look at a pair."""
    with pytest.raises(InvalidSchemaError):
        matched([[False] * 100 for _ in range(100)], 100, Budget(SchemaLimits(step_count=1_000)))
