"""The benchmark tells an authorizer's cost operation by operation.

It stands against the bound in the table of brokers.
"""

import pytest

from benchmarks.guarded import MAX_COST_PERCENT
from benchmarks.instructions import cost_verdict, main

PLAIN = {"produce": 200.0, "fetch": 100.0}


def guarded(fetch_percent: float) -> dict[str, float]:
    return {"produce": 201.0, "fetch": 100.0 + fetch_percent}


@pytest.mark.parametrize("percent", [-1.0, MAX_COST_PERCENT - 0.1])
def test_costs_within_the_bound_are_met(percent: float) -> None:
    assert cost_verdict(PLAIN, guarded(percent)) == "an authorizer costs at most 5 %: 2 of 2 met"


def test_an_operation_that_costs_more_is_named() -> None:
    told = cost_verdict(PLAIN, guarded(MAX_COST_PERCENT + 0.5))
    assert told == "an authorizer costs at most 5 %: 1 of 2 met; missed: fetch (5.5 %)"


def test_memory_is_no_operation() -> None:
    memory = {"idle memory, MB": 40.0, "memory after a restart with 3,000 partitions, MB": 60.0}
    more = {name: 2 * megabytes for name, megabytes in memory.items()}
    assert (
        cost_verdict(PLAIN | memory, guarded(1.0) | more)
        == "an authorizer costs at most 5 %: 2 of 2 met"
    )


@pytest.mark.parametrize("also", [["--against", "."], ["--with", "num.io.threads=1"]], ids=" ".join)
def test_what_an_authorizer_costs_is_told_of_this_checkout_and_of_nothing_else(
    also: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arguments beside it were left aside, or counted as a cost of the authorizer."""
    monkeypatch.setattr("benchmarks.instructions.figures", lambda *_: PLAIN)
    monkeypatch.setattr("sys.argv", ["instructions", "--authorizer", *also])
    with pytest.raises(SystemExit):
        main()
    assert (
        "--authorizer compares this checkout with itself: it goes with neither --against nor --with"
        in capsys.readouterr().err
    )
