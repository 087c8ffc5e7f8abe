"""Errors name ids of no broker, and voters that the quorum needs."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
import trio

from log_service.client.admin.values import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    FeatureDescription,
    QuorumDescription,
    QuorumReplica,
    RaftVoter,
)
from log_service.cluster_operations.membership import (
    AUTO_JOIN_KEY,
    refuse_removal,
    refuse_undone_removal,
    refuse_unknown_brokers,
    refuse_voter,
    refuse_voter_removal,
    remove_voter,
)
from log_service.cluster_plans.layout import PlanRefused
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import KRAFT_VERSION
from tests.unit.cluster_plans.layouts import broker, layout


class Admin:
    """An admin of a cluster with two brokers and a separate controller, 3001.

    Without a leader it does not describe the quorum.
    """

    def __init__(self, *, has_leader: bool = True) -> None:
        self.has_leader = has_leader

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        assert timeout_ms is not None
        if not self.has_leader:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no response")
        controller, observer = (
            QuorumReplica(
                node_id=node_id,
                directory_id=UUID(int=0),
                log_end_offset=5,
                last_fetch_ms=1,
                last_caught_up_ms=1,
            )
            for node_id in (3001, 2)
        )
        return QuorumDescription(
            leader_id=3001,
            leader_epoch=1,
            high_watermark=5,
            voters=(controller,),
            observers=(observer,),
            endpoints={},
        )


CLUSTER = layout([broker(1), broker(2)], [])


@pytest.mark.parametrize(
    ("broker_ids", "said"),
    [
        ([1, 9], "there is no broker 9; there are 1, 2"),
        ([9, 1, 8, 9], "there are no brokers 9, 8; there are 1, 2"),
        ([3001], "node 3001 is a controller and no broker, so it has no replicas; there are 1, 2"),
        (
            [3001, 7],
            "node 3001 is a controller and no broker, so it has no replicas; there is no broker 7; there are 1, 2",
        ),
    ],
)
def test_all_ids_that_are_of_no_broker_are_told_at_once(broker_ids: list[int], said: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        trio.run(refuse_unknown_brokers, cast("Any", Admin()), CLUSTER, broker_ids)
    assert str(refused.value) == said


def test_ids_are_told_without_a_quorum_too() -> None:
    trio.run(refuse_unknown_brokers, cast("Any", Admin(has_leader=False)), CLUSTER, [1, 2])
    with pytest.raises(PlanRefused, match="there is no broker 3001; there are 1, 2"):
        trio.run(refuse_unknown_brokers, cast("Any", Admin(has_leader=False)), CLUSTER, [3001])


class Voters:
    """An admin of three brokers that vote, led by 1. Voter 3 caught up with the leader
    ``silent_ms`` ago.
    """

    def __init__(self, silent_ms: int, *, is_fenced: bool = False) -> None:
        self.silent_ms = silent_ms
        self.is_fenced = is_fenced
        self.removed: list[int] = []

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        voters = tuple(
            QuorumReplica(
                node_id=each,
                directory_id=UUID(int=each),
                log_end_offset=5,
                last_fetch_ms=now,
                last_caught_up_ms=now,
            )
            for each, now in ((1, 1_000_000), (2, 1_000_000), (3, 1_000_000 - self.silent_ms))
        )
        return QuorumDescription(
            leader_id=1, leader_epoch=1, high_watermark=5, voters=voters, observers=(), endpoints={}
        )

    async def describe_brokers(self) -> list[BrokerDescription]:
        return [
            BrokerDescription(
                node_id=each, host="h", port=1, rack=None, is_fenced=self.is_fenced and each == 3
            )
            for each in (1, 2, 3)
        ]

    async def describe_features(self) -> FeatureDescription:
        return FeatureDescription(supported={}, finalized={KRAFT_VERSION: 1}, finalized_epoch=1)

    async def describe_configs(
        self, resources: list[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return {each: {} for each in resources}

    async def remove_raft_voter(self, node_id: int, directory_id: UUID) -> None:
        assert directory_id == UUID(int=node_id)
        self.removed.append(node_id)


THREE = layout([broker(1), broker(2), broker(3)], [])
DEAD = [{"silent_ms": 60_000}, {"silent_ms": 1_000, "is_fenced": True}]


@pytest.mark.parametrize("how", DEAD, ids=["behind", "fenced"])
def test_a_live_voter_is_not_taken_out_while_another_is_dead(how: dict[str, Any]) -> None:
    admin: Any = Voters(**how)
    brokers = layout([broker(1), broker(2), broker(3, is_fenced=admin.is_fenced)], [])
    for refused in (
        lambda: trio.run(refuse_voter_removal, admin, 2),
        lambda: trio.run(refuse_removal, admin, brokers, 2),
        lambda: trio.run(remove_voter, admin, 2),
    ):
        with pytest.raises(
            PlanRefused,
            match=r"voter 3 is down or behind: without node 2 .* tidelog cluster voters remove 3 --execute",
        ):
            refused()
    assert admin.removed == []


@pytest.mark.parametrize("how", DEAD, ids=["behind", "fenced"])
def test_the_dead_voter_itself_is_taken_out(how: dict[str, Any]) -> None:
    admin: Any = Voters(**how)
    assert trio.run(refuse_voter_removal, admin, 3) == {1: True, 2: True, 3: False}
    assert list(trio.run(refuse_removal, admin, THREE, 3)) == [1, 2, 3]
    assert trio.run(remove_voter, admin, 3)
    assert admin.removed == [3]


def test_a_voter_is_taken_out_while_all_are_there() -> None:
    admin: Any = Voters(0)
    assert (
        trio.run(refuse_voter_removal, admin, 2)
        == trio.run(refuse_removal, admin, THREE, 2)
        == {1: True, 2: True, 3: True}
    )
    assert trio.run(remove_voter, admin, 2)


class Joining(Voters):
    """Voter 2 joins the quorum by itself.

    ``is_telling`` says whether a client may ask for its configuration, as for that of a broker.
    """

    def __init__(self, *, is_telling: bool) -> None:
        super().__init__(0)
        self.is_telling = is_telling

    async def describe_configs(
        self, resources: list[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        if not self.is_telling:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "no broker")
        return {
            each: {AUTO_JOIN_KEY: cast("Any", SimpleNamespace(value="true"))} for each in resources
        }


JOINS = f"node 2 has {AUTO_JOIN_KEY}=true in its file, and joins the quorum by itself for as long as it runs: stop it first"


def test_a_voter_that_would_join_again_by_itself_is_not_taken_out() -> None:
    admin: Any = Joining(is_telling=True)
    with pytest.raises(PlanRefused, match=JOINS):
        trio.run(refuse_voter_removal, admin, 2)
    with pytest.raises(PlanRefused, match=JOINS):
        trio.run(refuse_removal, admin, THREE, 2)


def test_a_voter_that_is_back_by_itself_is_told() -> None:
    admin: Any = Joining(is_telling=False)
    trio.run(refuse_voter_removal, admin, 2)
    with pytest.raises(PlanRefused, match=f"node 2 was taken out, and is a voter again: {JOINS}"):
        trio.run(refuse_undone_removal, admin, 2)


# Quorums of other kinds


def replica(node_id: int) -> QuorumReplica:
    return QuorumReplica(
        node_id=node_id,
        directory_id=UUID(int=node_id),
        log_end_offset=5,
        last_fetch_ms=9,
        last_caught_up_ms=9,
    )


class Quorum:
    """An admin of cluster c, in which ``voters`` vote, led by the first; node 7 observes. Without
    ``is_dynamic`` files fix the voters.
    """

    def __init__(self, *voters: int, is_dynamic: bool = True) -> None:
        self.voters = voters
        self.is_dynamic = is_dynamic
        self.removed: list[int] = []

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription(cluster_id="c", controller_id=1, nodes=(), is_tidelog=True)

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumDescription:
        assert timeout_ms is None or timeout_ms > 0
        voters = tuple(map(replica, self.voters))
        return QuorumDescription(
            leader_id=self.voters[0],
            leader_epoch=1,
            high_watermark=5,
            voters=voters,
            observers=(replica(7), replica(8)),
            endpoints={},
        )

    async def describe_brokers(self) -> list[BrokerDescription]:
        return []

    async def describe_features(self) -> FeatureDescription:
        return FeatureDescription(
            supported={}, finalized={KRAFT_VERSION: 1} if self.is_dynamic else {}, finalized_epoch=1
        )

    async def remove_raft_voter(self, node_id: int, _directory_id: UUID) -> None:
        self.removed.append(node_id)


def refusal(check: Any, *arguments: object) -> str:
    with pytest.raises(PlanRefused) as refused:
        trio.run(check, *arguments)
    return str(refused.value)


def voter(node_id: int, directory: int | None = None) -> RaftVoter:
    return RaftVoter(node_id=node_id, directory_id=UUID(int=directory or node_id))


FIXED = "the quorum is fixed in the nodes' files (controller.quorum.voters): its voters change with kraft.version 1 only"


def test_the_last_voter_is_not_taken_out() -> None:
    admin: Any = Quorum(1)
    said = "node 1 is the last voter of the metadata quorum: add another voter first"
    assert refusal(refuse_removal, admin, THREE, 1) == said
    assert refusal(refuse_voter_removal, admin, 1) == said
    assert refusal(remove_voter, admin, 1) == said
    assert admin.removed == []


def test_the_last_broker_is_not_removed_and_one_that_is_not_there_neither() -> None:
    admin: Any = Quorum(3001, 3002, 3003)
    assert (
        refusal(refuse_removal, admin, layout([broker(1)], []), 1)
        == "broker 1 is the last one: without it there is no cluster"
    )
    assert refusal(refuse_removal, admin, THREE, 9) == "there is no broker 9; there are 1, 2, 3"
    assert trio.run(refuse_removal, admin, layout([broker(1), broker(2)], []), 1) == {}, (
        "it votes not, and so it leaves no quorum"
    )


def test_a_broker_that_votes_not_ends_no_vote() -> None:
    admin: Any = Quorum(1, 2, 3)
    assert not trio.run(remove_voter, admin, 7)
    assert admin.removed == []
    assert (
        refusal(refuse_voter_removal, admin, 7) == "node 7 is not a voter: the voters are 1, 2, 3"
    )


def test_voters_that_files_name_are_neither_added_nor_taken_out() -> None:
    admin: Any = Quorum(1, 2, 3, is_dynamic=False)
    assert refusal(refuse_removal, admin, THREE, 2) == (
        "node 2 is a voter of a quorum that is fixed in the nodes' files (controller.quorum.voters): "
        "empty it with tidelog cluster drain 2, and take it out of all files"
    )
    assert refusal(refuse_voter_removal, admin, 2).startswith(FIXED)
    assert refusal(refuse_voter, admin, "c", voter(7)).startswith(FIXED)


def test_a_voter_is_added_once_it_follows_from_the_directory_that_is_named() -> None:
    admin: Any = Quorum(1, 2, 3)
    assert trio.run(refuse_voter, admin, "c", voter(7)) == {1: True, 2: True, 3: True}
    assert (
        refusal(refuse_voter, admin, "other", voter(7))
        == "node 7 was formatted for cluster other, and this is cluster c"
    )
    assert (
        refusal(refuse_voter, admin, "c", voter(2))
        == "node 2 is a voter already: the voters are 1, 2, 3"
    )
    said = "does not follow the metadata log: start it, and try again once tidelog cluster quorum shows it"
    assert refusal(refuse_voter, admin, "c", voter(9)) == f"node 9 {said}"
    assert refusal(refuse_voter, admin, "c", voter(7, 8)) == f"node 7 {said}", (
        "another disk follows under its id"
    )
