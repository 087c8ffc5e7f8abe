"""What is said of ids that are those of no broker, and of voters that the quorum cannot be without."""

from typing import Any, cast
from uuid import UUID

import pytest

from log_service.client.admin.values import BrokerDescription, FeatureDescription, QuorumDescription, QuorumReplica
from log_service.cluster_operations.membership import refuse_removal, refuse_unknown_brokers, refuse_voter_removal, remove_voter
from log_service.cluster_plans.layout import PlanRefused
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import KRAFT_VERSION
from tests.unit.cluster_plans.layouts import broker, layout


class Admin:
    """An admin of a cluster with two brokers and a controller apart, 3001; without a leader it does not tell the quorum."""

    def __init__(self, *, has_leader: bool = True) -> None:
        self.has_leader = has_leader

    def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        assert timeout_ms is not None
        if not self.has_leader:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no response")
        controller, observer = (
            QuorumReplica(node_id=node_id, directory_id=UUID(int=0), log_end_offset=5, last_fetch_ms=1, last_caught_up_ms=1)
            for node_id in (3001, 2)
        )
        return QuorumDescription(
            leader_id=3001, leader_epoch=1, high_watermark=5, voters=(controller,), observers=(observer,), endpoints={}
        )


CLUSTER = layout([broker(1), broker(2)], [])


@pytest.mark.parametrize(
    ("broker_ids", "said"),
    [
        ([1, 9], "there is no broker 9; there are 1, 2"),
        ([9, 1, 8, 9], "there are no brokers 9, 8; there are 1, 2"),
        ([3001], "node 3001 is a controller and no broker, so it has no replicas; there are 1, 2"),
        ([3001, 7], "node 3001 is a controller and no broker, so it has no replicas; there is no broker 7; there are 1, 2"),
    ],
)
def test_all_ids_that_are_of_no_broker_are_told_at_once(broker_ids: list[int], said: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        refuse_unknown_brokers(cast("Any", Admin()), CLUSTER, broker_ids)
    assert str(refused.value) == said


def test_ids_are_told_without_a_quorum_too() -> None:
    refuse_unknown_brokers(cast("Any", Admin(has_leader=False)), CLUSTER, [1, 2])
    with pytest.raises(PlanRefused, match="there is no broker 3001; there are 1, 2"):
        refuse_unknown_brokers(cast("Any", Admin(has_leader=False)), CLUSTER, [3001])


class Voters:
    """An admin of three brokers that vote, led by 1. Voter 3 caught up with the leader ``silent_ms`` ago."""

    def __init__(self, silent_ms: int, *, is_fenced: bool = False) -> None:
        self.silent_ms = silent_ms
        self.is_fenced = is_fenced
        self.removed: list[int] = []

    def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        voters = tuple(
            QuorumReplica(node_id=each, directory_id=UUID(int=each), log_end_offset=5, last_fetch_ms=now, last_caught_up_ms=now)
            for each, now in ((1, 1_000_000), (2, 1_000_000), (3, 1_000_000 - self.silent_ms))
        )
        return QuorumDescription(leader_id=1, leader_epoch=1, high_watermark=5, voters=voters, observers=(), endpoints={})

    def describe_brokers(self) -> list[BrokerDescription]:
        return [BrokerDescription(node_id=each, host="h", port=1, rack=None, is_fenced=self.is_fenced and each == 3) for each in (1, 2, 3)]

    def describe_features(self) -> FeatureDescription:
        return FeatureDescription(supported={}, finalized={KRAFT_VERSION: 1}, finalized_epoch=1)

    def remove_raft_voter(self, node_id: int, directory_id: UUID) -> None:
        assert directory_id == UUID(int=node_id)
        self.removed.append(node_id)


THREE = layout([broker(1), broker(2), broker(3)], [])
DEAD = [{"silent_ms": 60_000}, {"silent_ms": 1_000, "is_fenced": True}]


@pytest.mark.parametrize("how", DEAD, ids=["behind", "fenced"])
def test_a_live_voter_is_not_taken_out_while_another_is_dead(how: dict[str, Any]) -> None:
    admin: Any = Voters(**how)
    brokers = layout([broker(1), broker(2), broker(3, is_fenced=admin.is_fenced)], [])
    for refused in (
        lambda: refuse_voter_removal(admin, 2),
        lambda: refuse_removal(admin, brokers, 2),
        lambda: remove_voter(admin, 2),
    ):
        with pytest.raises(PlanRefused, match=r"voter 3 is down or behind: without node 2 .* tidelog cluster voters remove 3 --execute"):
            refused()
    assert admin.removed == []


@pytest.mark.parametrize("how", DEAD, ids=["behind", "fenced"])
def test_the_dead_voter_itself_is_taken_out(how: dict[str, Any]) -> None:
    admin: Any = Voters(**how)
    assert refuse_voter_removal(admin, 3) == refuse_removal(admin, THREE, 3) == [1, 2, 3]
    assert remove_voter(admin, 3)
    assert admin.removed == [3]


def test_a_voter_is_taken_out_while_all_are_there() -> None:
    admin: Any = Voters(0)
    assert refuse_voter_removal(admin, 2) == refuse_removal(admin, THREE, 2) == [1, 2, 3]
    assert remove_voter(admin, 2)
