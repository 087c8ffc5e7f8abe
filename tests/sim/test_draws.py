"""A purpose that draws more or less changes nothing for the others; and all depends on the seed
alone.
"""

from collections.abc import Iterator

import pytest
import trio

from tests.sim.draws import Draws
from tests.sim.pauses import HOST
from tests.sim.world import World, sim_run


def draw_a_latency(draws: Draws) -> float:
    return draws.uniform(1, 2)


def draw_an_id(draws: Draws) -> int:
    return draws.getrandbits(128)


def for_one(draws: Draws) -> int:
    return draw_an_id(draws)


def for_another(draws: Draws) -> int:
    return draw_an_id(draws)


def test_a_function_that_draws_more_changes_nothing_for_another_one() -> None:
    def latencies(draws: Draws, id_count: int) -> Iterator[float]:
        for _ in range(3):
            for _ in range(id_count):
                draw_an_id(draws)
            yield draw_a_latency(draws)

    assert [*latencies(Draws("node 1"), 0)] == [*latencies(Draws("node 1"), 2)]


def test_a_helper_draws_for_each_of_its_callers_apart() -> None:
    first, second = Draws("node 1"), Draws("node 1")
    expected = [for_one(first) for _ in range(2)]
    assert for_one(second) == expected[0]
    assert for_another(second) not in expected
    assert for_one(second) == expected[1]


def test_streams_depend_on_whose_they_are() -> None:
    assert draw_an_id(Draws("node 1")) != draw_an_id(Draws("node 2"))


@pytest.mark.parametrize("draw", ["choice", "sample", "shuffle", "randbytes", "expovariate"])
def test_every_way_to_draw_takes_the_stream_of_who_draws(draw: str) -> None:
    def drawn(draws: Draws) -> object:
        items = list(range(100))
        match draw:
            case "choice":
                return draws.choice(items)
            case "sample":
                return draws.sample(items, 5)
            case "shuffle":
                draws.shuffle(items)
                return items
            case "randbytes":
                return draws.randbytes(9)
            case _:
                return draws.expovariate(2)

    first, second = Draws("node"), Draws("node")
    draw_an_id(second)
    assert [drawn(first) for _ in range(3)] == [drawn(second) for _ in range(3)]


def orders(host_of_more: str) -> list[str]:
    """The orders in which the tasks of a host run, while another one runs more or less."""
    seen: list[str] = []

    async def main(world: World) -> None:
        async def run(host: str, name: str) -> None:
            HOST.set(host)
            for _ in range(20):
                await trio.sleep(1)
                if host == "watched":
                    seen.append(name)

        async with trio.open_nursery() as nursery:
            if host_of_more:
                for number in range(3):
                    nursery.start_soon(run, host_of_more, f"more {number}")
            for name in "abcd":
                nursery.start_soon(run, "watched", name)

    sim_run(5, main)
    return seen


def test_the_order_of_a_hosts_tasks_does_not_depend_on_other_hosts() -> None:
    alone = orders("")
    assert orders("other") == alone
    assert len({tuple(alone[start : start + 4]) for start in range(0, 80, 4)}) > 5, (
        "another order at each moment"
    )
