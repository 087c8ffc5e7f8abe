"""The benchmark tells an authorizer's cost pair by pair.

Brokers have the listeners that a family asks for.
"""

import pytest

from benchmarks.broker_process import Beside, listener_properties
from benchmarks.guarded import MAX_COST_PERCENT, Taken, cost_rows


def test_the_cost_is_that_of_each_pair_in_per_cent() -> None:
    open_ones = [Taken(per_s=1_000, cpu_us_each=10), Taken(per_s=2_000, cpu_us_each=20)]
    guarded = [Taken(per_s=800, cpu_us_each=11), Taken(per_s=2_000, cpu_us_each=19)]
    cpu, time = cost_rows("produce", open_ones, guarded)
    assert cpu.rounds == pytest.approx((10, -5))
    assert time.rounds == pytest.approx((25, 0))


@pytest.mark.parametrize(
    ("cpu_us", "is_met"), [(10 * (1 + MAX_COST_PERCENT / 100) - 0.01, True), (11, False)]
)
def test_the_goal_is_a_bound_of_the_cost_itself(cpu_us: float, is_met: bool) -> None:
    cpu, _ = cost_rows(
        "produce", [Taken(per_s=1, cpu_us_each=10)], [Taken(per_s=1, cpu_us_each=cpu_us)]
    )
    assert cpu.is_met is is_met


def test_one_turn_in_the_units_of_the_table() -> None:
    taken = Taken(per_s=500_000, cpu_us_each=0.5)
    assert taken.mb_per_s(1_000) == pytest.approx(500)
    assert taken.cpu_s_per_gb(1_000) == pytest.approx(0.5)


def test_the_listener_in_the_clear_stands_first() -> None:
    beside = [Beside(name="LOGIN", protocol="SASL_SSL", address="127.0.0.1:2")]
    assert listener_properties("127.0.0.1:1", beside) == {
        "listeners": "PLAINTEXT://127.0.0.1:1,LOGIN://127.0.0.1:2",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL",
    }


def test_what_costs_is_named() -> None:
    rows = cost_rows(
        "consume 1 KiB",
        [Taken(per_s=1, cpu_us_each=10)],
        [Taken(per_s=1, cpu_us_each=10)],
        of="quotas",
    )
    assert [row.figure for row in rows] == [
        "cost of quotas in broker CPU, consume 1 KiB",
        "cost of quotas in time, consume 1 KiB",
    ]
