"""Replicas are striped over racks and brokers, as Kafka's controller does it."""

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.rules.placement import place_replicas
from log_service.metadata.image import BrokerRegistration


def brokers(
    *active: int, fenced: tuple[int, ...] = (), racks: dict[int, str] | None = None
) -> list[BrokerRegistration]:
    return [
        BrokerRegistration(
            node_id=NodeId(node_id),
            epoch=BrokerEpoch(1),
            incarnation_id=UUID(int=node_id),
            endpoints={},
            rack=(racks or {}).get(node_id),
            is_fenced=node_id in fenced,
        )
        for node_id in (*active, *fenced)
    ]


def place(
    there: list[BrokerRegistration], partition_count: int, replication_factor: int, seed: int = 1
) -> list[tuple[NodeId, ...]]:
    return place_replicas(
        there, partition_count=partition_count, replication_factor=replication_factor, seed=seed
    )


@pytest.mark.parametrize("seed", range(10))
def test_each_partition_begins_one_broker_further(seed: int) -> None:
    placed = place(brokers(0, 1, 2), 3, 2, seed)
    first = placed[0][0]
    assert placed == [((first + step) % 3, (first + step + 1) % 3) for step in range(3)]


@pytest.mark.parametrize("seed", range(10))
def test_after_a_round_the_order_is_another_one_so_that_placements_differ(seed: int) -> None:
    placed = place(brokers(*range(5)), 100, 3, seed)
    assert len(set(placed)) > 20


@pytest.mark.parametrize("seed", range(10))
def test_replicas_spread_over_racks_first_and_leaders_too(seed: int) -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}
    placed = place(brokers(*racks, racks=racks), 12, 3, seed)
    assert all({racks[node_id] for node_id in replicas} == {"a", "b", "c"} for replicas in placed)
    assert Counter(racks[replicas[0]] for replicas in placed) == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("seed", range(10))
def test_a_rack_whose_brokers_are_all_fenced_gives_no_leader_but_followers(seed: int) -> None:
    racks = {0: "a", 1: "b", 2: "b"}
    placed = place(brokers(1, 2, fenced=(0,), racks=racks), 4, 2, seed)
    assert all(replicas[0] != 0 for replicas in placed)
    assert all(0 in replicas for replicas in placed), (
        "the other rack comes before a second broker of the leader's"
    )


def test_fenced_brokers_come_last() -> None:
    assert {replicas[0] for replicas in place(brokers(1, fenced=(2, 3)), 2, 2)} == {1}
    assert {frozenset(replicas) for replicas in place(brokers(1, 2, fenced=(3,)), 4, 2)} == {
        frozenset((1, 2))
    }


def test_one_active_broker_leads_any_number_of_partitions() -> None:
    assert [replicas[0] for replicas in place(brokers(1, fenced=(2, 3)), 50, 3)] == [1] * 50


@pytest.mark.parametrize(("active", "fenced"), [((), (1, 2)), ((1,), (2,)), ((), ())])
def test_more_replicas_than_brokers_cannot_be_placed(
    active: tuple[int, ...], fenced: tuple[int, ...]
) -> None:
    with pytest.raises(KafkaError) as raised:
        place(brokers(*active, fenced=fenced), 1, 3 if active else 1)
    assert raised.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@given(st.integers(1, 6), st.integers(0, 3), st.integers(1, 20), st.integers(0, 2**128), st.data())
def test_no_broker_holds_two_replicas_of_a_partition_and_leaders_are_even(
    active_count: int, fenced_count: int, partition_count: int, seed: int, data: st.DataObject
) -> None:
    there = brokers(*range(active_count), fenced=tuple(range(100, 100 + fenced_count)))
    factor = data.draw(st.integers(1, active_count + fenced_count))
    placed = place(there, partition_count, factor, seed)
    assert placed == place(there, partition_count, factor, seed)
    assert len(placed) == partition_count
    assert all(len(set(replicas)) == factor for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert (
        max(leaders.values())
        - min(leaders.get(NodeId(node_id), 0) for node_id in range(active_count))
        <= 1
    )
