"""The classic group protocol is tested without a client between.

A member gets a certain error in each state of its group.

Each test holds on Apache Kafka 4.3 as well.
"""

from typing import Any

import pytest

from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from log_service.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.integration.confluent import wait_until
from tests.integration.wire import Wire

NONE, ILLEGAL_GENERATION, INCONSISTENT, UNKNOWN_MEMBER, REBALANCING, MEMBER_ID_REQUIRED, FENCED = (
    0,
    22,
    23,
    25,
    27,
    79,
    82,
)


class GroupMember:
    """One member on a connection of its own."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        protocols: tuple[str, ...] = ("range",),
        instance: str | None = None,
    ) -> None:
        self.wire = Wire(bootstrap)
        self.group = group
        self.topic = topic
        self.member_id = ""
        self.generation = -1
        self.instance = instance
        self.protocols = protocols
        wait_until(lambda: self.heartbeat() not in {14, 15, 16}, "the coordinator is loaded")

    def close(self) -> None:
        self.wire.close()

    def join_request(self, **more: Any) -> JoinGroupRequest:
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in self.protocols
        ]
        settings = {
            "protocol_type": "consumer",
            "protocols": protocols,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
        }
        return JoinGroupRequest(
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance,
            **{**settings, **more},
        )

    def send_join(self) -> None:
        self.wire.send(self.join_request(), 7)

    def receive_join(self) -> Any:
        answer = self.wire.receive(11, 7)  # type: ignore[arg-type]
        if answer.error_code in {NONE, MEMBER_ID_REQUIRED}:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self) -> Any:
        """Join, with the id that the first answer gives."""
        self.send_join()
        answer = self.receive_join()
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.send_join()
            answer = self.receive_join()
        return answer

    def sync_request(
        self, assignments: dict[str, bytes] | None = None, **more: Any
    ) -> SyncGroupRequest:
        given = [
            SyncGroupRequestAssignment(member_id=one, assignment=content)
            for one, content in (assignments or {}).items()
        ]
        settings = {
            "generation_id": self.generation,
            "protocol_type": "consumer",
            "protocol_name": self.protocols[0],
            **more,
        }
        return SyncGroupRequest(
            group_id=self.group,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=given,
            **settings,
        )

    def sync(
        self, assignments: dict[str, bytes] | None = None, version: int = 5, **more: Any
    ) -> Any:
        return self.wire.ask(self.sync_request(assignments, **more), version)

    def heartbeat(self, **more: Any) -> int:
        settings = {"member_id": self.member_id, "generation_id": self.generation, **more}
        code: int = self.wire.ask(
            HeartbeatRequest(group_id=self.group, group_instance_id=self.instance, **settings), 4
        ).error_code
        return code

    def commit(self, version: int = 8, **more: Any) -> int:
        settings = {
            "member_id": self.member_id,
            "generation_id_or_member_epoch": self.generation,
            **more,
        }
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        topics = [OffsetCommitRequestTopic(name=self.topic, partitions=partitions)]
        request = OffsetCommitRequest(group_id=self.group, topics=topics, **settings)
        code: int = self.wire.ask(request, version).topics[0].partitions[0].error_code
        return code

    def leave(self, **more: Any) -> Any:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance, **more)
        return self.wire.ask(LeaveGroupRequest(group_id=self.group, members=[identity]), 4)


@pytest.fixture
def members(bootstrap: str, topic: str, name: str) -> Any:
    """Make members of one group: ``members()``."""
    made: list[GroupMember] = []

    def make(**more: Any) -> GroupMember:
        made.append(GroupMember(bootstrap, name, topic, **more))
        return made[-1]

    with Wire(bootstrap) as wire:
        wait_until(
            lambda: wire.ask(FindCoordinatorRequest(key=name), 0).error_code == 0,
            "there is a coordinator",
        )
    yield make
    for member in made:
        member.close()


def stable(member: GroupMember) -> GroupMember:
    """Let a member be alone in a stable generation."""
    answer = member.join()
    assert (answer.error_code, answer.leader) == (NONE, member.member_id)
    assert member.sync({member.member_id: b"all"}).assignment == b"all"
    return member


def test_a_newcomer_gets_an_id_first(members: Any) -> None:
    """KIP-394."""
    member = members()
    member.send_join()
    answer = member.receive_join()
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (
        MEMBER_ID_REQUIRED,
        -1,
        None,
    )
    assert member.member_id
    assert member.join().error_code == NONE


def test_the_leader_alone_is_told_the_members(members: Any) -> None:
    leader, follower = stable(members()), members()
    follower.send_join()
    assert follower.receive_join().error_code == MEMBER_ID_REQUIRED
    follower.send_join()
    wait_until(lambda: leader.heartbeat() == REBALANCING, "the leader hears of the newcomer")
    leader.send_join()
    first, second = leader.receive_join(), follower.receive_join()
    assert first.generation_id == second.generation_id == 2
    assert first.leader == second.leader == leader.member_id
    assert sorted(one.member_id for one in first.members) == sorted(
        [leader.member_id, follower.member_id]
    )
    assert second.members == []


def test_what_a_member_may_do_in_each_phase_of_a_rebalance(members: Any) -> None:
    leader, follower = stable(members()), members()
    assert (leader.heartbeat(), leader.commit()) == (NONE, NONE)
    follower.send_join()
    follower.receive_join()
    follower.send_join()
    wait_until(lambda: leader.heartbeat() == REBALANCING, "the leader hears of the newcomer")
    assert leader.commit() == NONE, "a member may commit what it has before it joins again"
    assert leader.sync().error_code == REBALANCING
    leader.send_join()
    assert leader.receive_join().error_code == follower.receive_join().error_code == NONE
    assert leader.commit() == REBALANCING, "nobody owns anything before the leader has synced"
    follower.wire.send(follower.sync_request(), 5)
    assert leader.sync({leader.member_id: b"one", follower.member_id: b"two"}).assignment == b"one"
    assert follower.wire.receive(14, 5).assignment == b"two"
    assert (leader.commit(), follower.commit(), follower.heartbeat()) == (NONE, NONE, NONE)


def test_strangers_and_old_generations_are_told_so(members: Any) -> None:
    member = stable(members())
    assert member.heartbeat(member_id="nobody") == UNKNOWN_MEMBER
    assert member.heartbeat(generation_id=member.generation + 1) == ILLEGAL_GENERATION
    assert member.commit(member_id="nobody") == UNKNOWN_MEMBER
    assert member.commit(generation_id_or_member_epoch=member.generation - 1) == ILLEGAL_GENERATION
    assert member.commit(member_id="", generation_id_or_member_epoch=-1) == UNKNOWN_MEMBER
    assert member.sync(generation_id=member.generation + 1).error_code == ILLEGAL_GENERATION
    assert member.leave().members[0].error_code == NONE
    assert member.heartbeat() == UNKNOWN_MEMBER
    assert member.leave().members[0].error_code == UNKNOWN_MEMBER


@pytest.mark.parametrize(
    ("version", "code"), [(2, ILLEGAL_GENERATION), (8, ILLEGAL_GENERATION), (9, 69)]
)
def test_a_commit_for_a_group_that_was_never_there_is_refused(
    members: Any, name: str, version: int, code: int
) -> None:
    member = members()
    member.group = f"{name}-never"
    wait_until(lambda: member.heartbeat() not in {14, 15, 16}, "the coordinator is loaded")
    assert member.commit(version, member_id="somebody", generation_id_or_member_epoch=3) == code


@pytest.mark.parametrize("version", [3, 8, 9])
def test_a_commit_of_a_member_for_a_group_with_offsets_alone_is_refused(
    members: Any, version: int
) -> None:
    outsider = members()
    assert outsider.commit() == NONE
    assert (
        outsider.commit(version, member_id="somebody", generation_id_or_member_epoch=3)
        == UNKNOWN_MEMBER
    )


def test_a_sync_must_name_its_protocol(members: Any) -> None:
    """KIP-559: from version 5 on."""
    member = members()
    member.join()
    assert member.sync(protocol_type=None).error_code == INCONSISTENT
    assert member.sync(protocol_name=None).error_code == INCONSISTENT
    assert member.sync(protocol_name="other").error_code == INCONSISTENT
    assert member.sync(protocol_type="connect").error_code == INCONSISTENT
    assert member.sync({member.member_id: b"all"}).error_code == NONE


def test_members_without_a_common_protocol_are_refused(members: Any) -> None:
    stable(members(protocols=("range", "sticky")))
    assert members(protocols=("other",)).join().error_code == INCONSISTENT
    stranger = members()
    assert (
        stranger.wire.ask(stranger.join_request(protocol_type="connect"), 5).error_code
        == INCONSISTENT
    )


def test_any_protocol_type_may_have_groups(members: Any) -> None:
    """Kafka Connect has ``connect``, schema registries ``sr``."""
    member = members()
    for _ in range(2):
        answer = member.wire.ask(member.join_request(protocol_type="sr"), 7)
        member.member_id, member.generation = answer.member_id, answer.generation_id
    assert (answer.error_code, answer.protocol_type) == (NONE, "sr")
    (described,) = member.wire.ask(DescribeGroupsRequest(groups=[member.group]), 5).groups
    assert described.protocol_type == "sr"


def test_a_static_member_that_comes_again_replaces_its_former_self(members: Any) -> None:
    """KIP-345: without a rebalance, and the former id is fenced."""
    first = stable(members(instance="static"))
    second = members(instance="static")
    answer = second.join()
    assert answer.error_code == NONE
    assert second.member_id != first.member_id
    assert answer.generation_id == first.generation
    assert first.heartbeat() == FENCED
    assert second.sync().assignment == b"all"
    assert second.heartbeat() == NONE


def test_groups_are_listed_by_state_and_type(members: Any, name: str) -> None:
    member = stable(members())

    def listed(**more: Any) -> list[str]:
        return [group.group_id for group in member.wire.ask(ListGroupsRequest(**more), 5).groups]

    assert name in listed()
    assert name in listed(states_filter=["Stable"])
    assert name in listed(states_filter=["stable"], types_filter=["classic"])
    assert name not in listed(states_filter=["Empty"])
    assert name not in listed(types_filter=["share"])


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(members: Any, name: str, version: int) -> None:
    member = stable(members())
    (described,) = member.wire.ask(DescribeGroupsRequest(groups=[name]), version).groups
    (one,) = described.members
    assert (described.error_code, described.group_state, described.protocol_data) == (
        NONE,
        "Stable",
        "range",
    )
    assert (one.member_id, one.member_metadata, one.member_assignment) == (
        member.member_id,
        b"range",
        b"all",
    )
    assert one.client_host.startswith("/127.0.0.1")
    (missing,) = member.wire.ask(DescribeGroupsRequest(groups=[f"{name}-never"]), version).groups
    assert (missing.error_code, missing.group_state) == (69 if version >= 6 else NONE, "Dead")
