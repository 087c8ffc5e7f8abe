"""Workers begin with the long modules, and every test is run once."""

import random

import pytest

from tests.helpers.long_first import long_first, piece_sizes


def test_each_worker_begins_with_long_modules_and_the_others_keep_their_order() -> None:
    modules = {"a": [1, 2, 3], "slow": [4, 5], "b": [6], "slower": [7], "c": [8, 9, 10]}
    ordered = long_first(modules, {"slow": 200, "slower": 600}, 2)
    assert ordered == [7, 1, 2, 3, 6, 4, 5, 8, 9, 10]


def test_modules_that_belong_together_are_the_first_of_one_worker_and_the_long_ones_go_to_those_that_have_fewer() -> (
    None
):
    modules = {
        "a": [1, 2, 3, 4],
        "slow": [5],
        "jvm": [6],
        "b": [7, 8],
        "slow jvm": [9],
        "slower": [10],
        "c": [11, 12],
    }
    ordered = long_first(
        modules, {"slow": 200, "slow jvm": 300, "slower": 600}, 2, {"jvm", "slow jvm"}
    )
    assert ordered == [9, 6, 1, 2, 3, 4, 10, 5, 7, 8, 11, 12]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_whatever_the_sizes(seed: int) -> None:
    rng = random.Random(seed)
    modules = {
        f"m{one}": [(one, number) for number in range(rng.randrange(1, 8))]
        for one in range(rng.randrange(1, 12))
    }
    long = {name: rng.randrange(100, 900) for name in modules if rng.random() < 0.4}
    workers = rng.randrange(1, 5)
    together = {name for name in modules if rng.random() < 0.3}
    ordered = long_first(modules, long, workers, together)
    assert sorted(ordered) == sorted(item for items in modules.values() for item in items)
    assert sum(piece_sizes(len(ordered), workers)) == len(ordered)
    if long and not together and all(size > 40 for size in piece_sizes(len(ordered), workers)):
        assert ordered[0][0] == int(max(long, key=lambda one: long[one])[1:])
