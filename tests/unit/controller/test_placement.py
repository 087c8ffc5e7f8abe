"""Replicas are placed round the brokers."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.controller.rules.placement import place_replicas


def nodes(*numbers: int) -> list[NodeId]:
    return [NodeId(number) for number in numbers]


def test_each_partition_begins_one_broker_further() -> None:
    placed = place_replicas(nodes(1, 2, 3), [], partition_count=4, replication_factor=2, first_broker=1)
    assert placed == [(2, 3), (3, 1), (1, 2), (2, 3)]


def test_added_partitions_go_on_where_the_first_ended() -> None:
    whole = place_replicas(nodes(1, 2, 3), [], partition_count=5, replication_factor=1, first_broker=7)
    added = place_replicas(nodes(1, 2, 3), [], partition_count=3, replication_factor=1, first_broker=7, first_partition=2)
    assert whole[2:] == added


def test_fenced_brokers_come_last() -> None:
    placed = place_replicas(nodes(1), nodes(2, 3), partition_count=2, replication_factor=2, first_broker=0)
    assert [replicas[0] for replicas in placed] == [1, 1]
    assert place_replicas(nodes(1, 2), nodes(3), partition_count=1, replication_factor=2, first_broker=0) == [(1, 2)]


@pytest.mark.parametrize(("active", "fenced"), [((), (1, 2)), ((1,), (2,)), ((), ())])
def test_more_replicas_than_brokers_cannot_be_placed(active: tuple[int, ...], fenced: tuple[int, ...]) -> None:
    with pytest.raises(KafkaError) as raised:
        place_replicas(nodes(*active), nodes(*fenced), partition_count=1, replication_factor=3 if active else 1, first_broker=0)
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@given(st.integers(1, 6), st.integers(0, 3), st.integers(1, 20), st.integers(0, 2**128), st.data())
def test_no_broker_holds_two_replicas_of_a_partition_and_leaders_are_even(
    active_count: int, fenced_count: int, partition_count: int, first_broker: int, data: st.DataObject
) -> None:
    active = nodes(*range(active_count))
    fenced = nodes(*range(100, 100 + fenced_count))
    factor = data.draw(st.integers(1, active_count + fenced_count))
    placed = place_replicas(active, fenced, partition_count=partition_count, replication_factor=factor, first_broker=first_broker)
    assert len(placed) == partition_count
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.get(node_id, 0) for node_id in active) <= 1
