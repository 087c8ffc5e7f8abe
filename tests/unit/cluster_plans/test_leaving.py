"""A broker that serves is not forgotten, and what is on one that is down is told."""

import pytest

from log_service.cluster_plans.layout import PlanRefused
from log_service.cluster_plans.leaving import refuse_to_forget, what_is_on
from tests.unit.cluster_plans.layouts import broker, layout, partition

PARTITIONS = [partition("t", 0, [1, 2]), partition("t", 1, [2, 1]), partition("solo", 2, [2]), partition("t", 2, [1, 3])]


def test_what_is_on_a_broker_is_told() -> None:
    cluster = layout([broker(1), broker(2), broker(3), broker(4)], PARTITIONS)
    assert what_is_on(cluster, 2) == ("3 replicas, the leaders of 2 partitions and the only replica in sync of 1 partition (solo-2)")
    assert what_is_on(cluster, 3) == "1 replica"
    assert what_is_on(cluster, 4) == "no replica"


def test_the_first_few_partitions_that_only_one_broker_has_are_named() -> None:
    cluster = layout([broker(1, is_fenced=True)], [partition("t", number, [1], leader=-1) for number in range(5)])
    assert what_is_on(cluster, 1) == "5 replicas and the only replica in sync of 5 partitions (t-0, t-1, t-2 and 2 more)"


def test_a_broker_that_serves_is_not_forgotten() -> None:
    with pytest.raises(PlanRefused, match=r"broker 2 serves, with 3 replicas.*tidelog cluster remove 2 --execute"):
        refuse_to_forget(layout([broker(1), broker(2)], PARTITIONS), 2)
    with pytest.raises(PlanRefused, match="there is no broker 7; there are 1, 2"):
        refuse_to_forget(layout([broker(1), broker(2)], PARTITIONS), 7)
    refuse_to_forget(layout([broker(1), broker(2, is_fenced=True)], PARTITIONS), 2)
