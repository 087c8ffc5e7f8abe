"""Rounds of families: turns, failures and interruptions."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from benchmarks.broker_process import BenchmarkError
from benchmarks.rounds import Bench, Family, Results, Sides, measure
from benchmarks.table import Row


class Recorded:
    """Sides that note when they are measured and return the number of their turn."""

    def __init__(self) -> None:
        self.turns: list[str] = []

    def side(
        self, name: str, *, failing_at: int = 0, error: type[BaseException] = BenchmarkError
    ) -> Callable[[], list[Row]]:
        def measure_side() -> list[Row]:
            self.turns.append(name)
            if self.turns.count(name) == failing_at:
                raise error(f"{name} is tired")
            return [Row(figure="turn", unit="", rounds=(float(len(self.turns)),))]

        return measure_side


def family_of(sides: Sides, closed: list[str] | None = None) -> Family:
    @contextlib.contextmanager
    def family(_bench: Bench) -> Iterator[Sides]:
        try:
            yield sides
        finally:
            if closed is not None:
                closed.append("closed")

    return family


def a_bench(scale: float = 1.0) -> Bench:
    return Bench(scale=scale, has_peer=False, warm_up=lambda _broker, _bench: None)


def measured(families: dict[str, Family], *, rounds: int = 3) -> Results:
    results = Results()
    measure(families.items(), a_bench(), round_count=rounds, results=results)
    return results


def test_sides_take_turns_and_every_other_round_goes_backwards() -> None:
    seen = Recorded()
    results = measured(
        {
            "one": family_of(
                Sides(
                    measures={"tidelog": seen.side("tidelog"), "peer": seen.side("peer")},
                    peer="peer",
                )
            )
        }
    )
    assert seen.turns == ["tidelog", "peer", "peer", "tidelog", "tidelog", "peer"]
    (row,) = results.rows
    assert (row.rounds, row.peer_rounds, row.peer) == ((1.0, 4.0, 5.0), (2.0, 3.0, 6.0), "peer")


def test_failing_family_names_itself_and_the_others_go_on() -> None:
    seen, closed = Recorded(), list[str]()
    failing = Sides(measures={"tidelog": seen.side("a", failing_at=1)})
    results = measured(
        {
            "failing": family_of(failing, closed),
            "next": family_of(Sides(measures={"tidelog": seen.side("b")})),
        }
    )
    assert results.failures == {"failing": "BenchmarkError: a is tired"}
    assert closed == ["closed"]
    assert [row.rounds for row in results.rows] == [(2.0, 3.0, 4.0)]


def test_rounds_before_a_failure_are_kept() -> None:
    seen = Recorded()
    sides = Sides(
        measures={"tidelog": seen.side("tidelog"), "peer": seen.side("peer", failing_at=2)},
        peer="peer",
    )
    (row,) = measured({"one": family_of(sides)}).rows
    assert (row.rounds, row.peer_rounds) == ((1.0,), (2.0,))


def test_everything_so_far_is_kept_after_each_turn() -> None:
    seen, kept = Recorded(), list[list[tuple[str, int, int]]]()

    def keep(rows: list[Row]) -> None:
        kept.append([(row.figure, len(row.rounds), len(row.peer_rounds)) for row in rows])

    sides = Sides(
        measures={"tidelog": seen.side("tidelog"), "peer": seen.side("peer")}, peer="peer"
    )
    before = Row(figure="before", unit="", rounds=(1.0,))
    measure(
        [("one", family_of(sides))],
        a_bench(),
        round_count=2,
        results=Results(rows=[before], keep=keep),
    )
    assert kept == [
        [("before", 1, 0), ("turn", 1, 0)],
        [("before", 1, 0), ("turn", 1, 1)],
        [("before", 1, 0), ("turn", 1, 2)],
        [("before", 1, 0), ("turn", 2, 2)],
    ]


def test_family_that_cannot_be_prepared_fails_alone() -> None:
    def broken(_bench: Bench) -> contextlib.AbstractContextManager[Sides]:
        raise BenchmarkError("there is no java")

    assert measured({"broken": broken}).failures == {"broken": "BenchmarkError: there is no java"}


def test_interruption_keeps_what_was_measured_and_puts_everything_away() -> None:
    seen, closed, results = Recorded(), list[str](), Results()
    sides = Sides(measures={"tidelog": seen.side("tidelog", failing_at=3, error=KeyboardInterrupt)})
    with pytest.raises(KeyboardInterrupt):
        measure([("one", family_of(sides, closed))], a_bench(), round_count=3, results=results)
    assert [row.rounds for row in results.rows] == [(1.0, 2.0)]
    assert closed == ["closed"]


@pytest.mark.parametrize(("scale", "count"), [(1.0, 1_000), (0.1, 100), (0.001, 10)])
def test_loads_follow_the_scale_down_to_a_floor(scale: float, count: int) -> None:
    assert a_bench(scale).count(1_000, at_least=10) == count
