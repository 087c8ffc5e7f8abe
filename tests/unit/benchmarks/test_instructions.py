"""What an authorizer costs is told operation by operation, against the bound that the table of brokers has."""

import pytest

from benchmarks.guarded import MAX_COST_PERCENT
from benchmarks.instructions import cost_verdict

PLAIN = {"produce": 200.0, "fetch": 100.0}


def guarded(fetch_percent: float) -> dict[str, float]:
    return {"produce": 201.0, "fetch": 100.0 + fetch_percent}


@pytest.mark.parametrize("percent", [-1.0, MAX_COST_PERCENT - 0.1])
def test_costs_within_the_bound_are_met(percent: float) -> None:
    assert cost_verdict(PLAIN, guarded(percent)) == "an authorizer costs at most 5 %: 2 of 2 met"


def test_an_operation_that_costs_more_is_named() -> None:
    told = cost_verdict(PLAIN, guarded(MAX_COST_PERCENT + 0.5))
    assert told == "an authorizer costs at most 5 %: 1 of 2 met; missed: fetch (5.5 %)"
