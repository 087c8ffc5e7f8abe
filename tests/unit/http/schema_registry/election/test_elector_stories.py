"""A member of the registries' group stands against a coordinator that moves, forgets and falls
silent.

The time is virtual.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import trio

from log_service.client.admin.admin import Admin
from log_service.common.errors import ErrorCode
from log_service.http.schema_registry.election.elector import ElectionSettings, Elector, Leadership
from log_service.http.schema_registry.election.protocol import (
    RegistryInstance,
    choose,
    encode_assignment,
    encode_instance,
)
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from log_service.protocol.messages.heartbeat import HeartbeatResponse
from log_service.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from log_service.protocol.messages.leave_group import LeaveGroupResponse
from log_service.protocol.messages.sync_group import SyncGroupResponse
from tests.sim.world import World, sim_run
from tests.unit.client.scripted_broker import HOST, PORT, ScriptedBroker

ME = RegistryInstance(scheme="http", host="me", port=8081)
OTHER = RegistryInstance(scheme="http", host="other", port=8081)
SETTINGS = ElectionSettings(instance=ME, session_timeout_ms=10_000, heartbeat_interval_ms=3_000)
MEMBER_ID = "m1"


class Group:
    """The group's coordinator. ``others`` are members beside the one under test, which chooses
    unless ``assigned`` is given.
    """

    def __init__(self, broker: ScriptedBroker) -> None:
        self.others: dict[str, RegistryInstance] = {}
        self.assigned: bytes | None = None
        self.generation = 0
        self.may_speak = trio.Event()
        self.may_speak.set()
        self.beats: deque[ErrorCode] = deque()
        self.join_codes: deque[ErrorCode] = deque()
        self.told: list[bytes] = []
        self.leaves: list[Any] = []
        self.find_count = 0
        broker.other |= {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.JOIN_GROUP: self._join,
            ApiKey.SYNC_GROUP: self._sync,
            ApiKey.HEARTBEAT: self._beat,
            ApiKey.LEAVE_GROUP: self._leave,
        }

    async def _find(self, request: Any, version: int) -> FindCoordinatorResponse:
        await trio.lowlevel.checkpoint()
        self.find_count += 1
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key="schema-registry", node_id=1, host=HOST, port=PORT)]
        )

    async def _join(self, request: Any, version: int) -> JoinGroupResponse:
        await self._speak()
        assert (request.group_id, request.protocol_type, request.protocols[0].name) == (
            "schema-registry",
            "sr",
            "v0",
        )
        if not request.member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=MEMBER_ID)
        if self.join_codes:
            return JoinGroupResponse(error_code=self.join_codes.popleft(), member_id=MEMBER_ID)
        self.generation += 1
        self.told.append(request.protocols[0].metadata)
        told = {MEMBER_ID: request.protocols[0].metadata} | {
            each: encode_instance(other) for each, other in self.others.items()
        }
        is_choosing = self.assigned is None
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="sr",
            protocol_name="v0",
            leader=MEMBER_ID if is_choosing else "other",
            member_id=MEMBER_ID,
            members=[
                JoinGroupResponseMember(member_id=each, metadata=metadata)
                for each, metadata in told.items()
            ]
            if is_choosing
            else [],
        )

    async def _sync(self, request: Any, version: int) -> SyncGroupResponse:
        await self._speak()
        mine = {each.member_id: each.assignment for each in request.assignments}.get(
            MEMBER_ID, self.assigned or b""
        )
        return SyncGroupResponse(assignment=mine)

    async def _beat(self, request: Any, version: int) -> HeartbeatResponse:
        await self._speak()
        return HeartbeatResponse(error_code=self.beats.popleft() if self.beats else ErrorCode.NONE)

    async def _leave(self, request: Any, version: int) -> LeaveGroupResponse:
        await self._speak()
        self.leaves.append(request)
        return LeaveGroupResponse()

    async def _speak(self) -> None:
        await trio.lowlevel.checkpoint()
        await self.may_speak.wait()


Story = Callable[[Group, Elector], Awaitable[None]]


def tell(
    story: Story,
    settings: ElectionSettings = SETTINGS,
    prepare: Callable[[Group], None] = lambda _: None,
) -> Group:
    """Run a story of one member, which then leaves."""

    async def main(world: World) -> Group:
        broker = ScriptedBroker(world)
        group = Group(broker)
        prepare(group)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with (
                Admin("broker:9092", env=world.client_env()) as admin,
                trio.open_nursery() as members,
            ):
                elector = Elector(settings, admin)
                members.start_soon(elector.run)
                with trio.fail_after(1_000):
                    await story(group, elector)
                members.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
        return group

    return sim_run(1, main)


async def leads(elector: Elector) -> Leadership:
    """Wait until the member leads."""
    current = elector.leadership
    while not current.is_self:
        current = await elector.wait_changed(current)
    return current


async def change_of(elector: Elector) -> Leadership:
    return await elector.wait_changed(elector.leadership)


def test_a_member_alone_leads_and_leaves_at_the_end() -> None:
    """The group need not wait for its session."""

    async def story(group: Group, elector: Elector) -> None:
        assert elector.leadership == Leadership()
        assert await leads(elector) == Leadership(
            leader_url="http://me:8081", is_self=True, generation=1
        )
        await trio.sleep(100)
        assert elector.leadership.is_self

    told = tell(story)
    assert [member.member_id for leave in told.leaves for member in leave.members] == [MEMBER_ID]


def test_a_member_that_does_not_choose_takes_what_is_assigned() -> None:
    """It forwards to the URL of the leader."""

    def prepare(group: Group) -> None:
        group.assigned = encode_assignment(choose({"other": OTHER}))

    async def story(group: Group, elector: Elector) -> None:
        assert await change_of(elector) == Leadership(
            leader_url="http://other:8081", is_self=False, generation=1
        )

    tell(story, prepare=prepare)


def test_equal_urls_are_reported_and_no_one_leads() -> None:
    """The text says what to do."""

    def prepare(group: Group) -> None:
        group.others = {"other": ME}

    async def story(group: Group, elector: Elector) -> None:
        await trio.sleep(1)
        assert elector.leadership == Leadership()
        assert elector.fault is not None
        assert "same URL" in elector.fault
        group.others = {}
        group.beats.append(ErrorCode.REBALANCE_IN_PROGRESS)
        await leads(elector)
        assert elector.fault is None

    tell(story, prepare=prepare)


def test_a_member_that_is_not_eligible_never_leads() -> None:
    """Without another member there is no leader."""

    async def story(group: Group, elector: Elector) -> None:
        await trio.sleep(1)
        assert elector.leadership == Leadership()
        assert elector.fault is not None
        assert "master_eligibility" in elector.fault

    tell(story, replace(SETTINGS, instance=replace(ME, is_eligible=False)))


def test_a_member_that_cannot_be_understood_stops_no_election() -> None:
    """It gets the assignment like all others."""

    def prepare(group: Group) -> None:
        group.others = {"broken": replace(OTHER, port=-1)}

    async def story(group: Group, elector: Elector) -> None:
        await leads(elector)

    tell(story, prepare=prepare)


def test_a_leader_stays_one_while_the_group_elects_again() -> None:
    """It tells the others that it leads, so that they may keep it."""

    async def story(group: Group, elector: Elector) -> None:
        await leads(elector)
        group.others = {"other": replace(OTHER, host="a smaller host")}
        group.beats.append(ErrorCode.REBALANCE_IN_PROGRESS)
        assert await change_of(elector) == Leadership(
            leader_url="http://me:8081", is_self=True, generation=2
        )

    assert b'"leader":true' in tell(story).told[-1]


def test_without_stickiness_the_smallest_url_takes_over() -> None:
    """As Confluent's registry does."""

    async def story(group: Group, elector: Elector) -> None:
        await leads(elector)
        group.others = {"other": replace(OTHER, host="a")}
        group.beats.append(ErrorCode.REBALANCE_IN_PROGRESS)
        assert await change_of(elector) == Leadership(
            leader_url="http://a:8081", is_self=False, generation=2
        )

    tell(story, replace(SETTINGS, is_sticky=False))


def test_a_leader_without_heartbeats_stops_before_its_session_can_have_ended() -> None:
    """The session began when the last heartbeat was sent, at the latest."""

    async def story(group: Group, elector: Elector) -> None:
        await leads(elector)
        last_beat_s = trio.current_time()
        group.may_speak = trio.Event()
        while elector.leadership.is_self:
            await change_of(elector)
        session_s = SETTINGS.session_timeout_ms / 1_000
        assert session_s / 2 < trio.current_time() - last_beat_s < session_s
        group.may_speak.set()
        await leads(elector)

    tell(story)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_leader_that_the_group_dropped_stops_at_once_and_joins_again(code: ErrorCode) -> None:
    """Another may lead already."""

    async def story(group: Group, elector: Elector) -> None:
        await leads(elector)
        group.beats.append(code)
        assert await change_of(elector) == Leadership()
        assert (await leads(elector)).generation == 2

    tell(story)


def test_a_coordinator_that_moved_is_looked_for_again() -> None:
    """The membership goes on."""

    async def story(group: Group, elector: Elector) -> None:
        await leads(elector)
        group.beats.append(ErrorCode.NOT_COORDINATOR)
        await trio.sleep(60)
        assert elector.leadership.generation == 1

    assert tell(story).find_count == 2


def test_a_refused_member_says_why_and_tries_again() -> None:
    """An operator may allow it later."""

    def prepare(group: Group) -> None:
        group.join_codes.extend([ErrorCode.GROUP_AUTHORIZATION_FAILED] * 3)

    async def story(group: Group, elector: Elector) -> None:
        await trio.sleep(0.05)
        assert elector.fault is not None
        assert "GROUP_AUTHORIZATION_FAILED" in elector.fault
        await leads(elector)
        assert elector.fault is None

    tell(story, prepare=prepare)
