"""A classic group's counts of its members equal a walk over them, whatever happens to it.

No request walks over them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic.group import ClassicGroup, ClassicMember
from log_service.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.unit.coordinator.group_story import GROUP, REBALANCE_MS, GroupStory


class Step(NamedTuple):
    """One step of a random story.

    ``choice`` picks a member, its protocols and sizes; of a refused step everything is taken back.
    """

    kind: str
    choice: int
    is_refused: bool


KINDS = (
    "join",
    "join",
    "old",
    "static",
    "rejoin",
    "rejoin",
    "sync",
    "sync all",
    "settle",
    "settle",
    "leave",
    "advance",
    "restart",
)
PROTOCOLS = (
    ("range",),
    ("range", "roundrobin"),
    ("sticky", "range"),
    ("roundrobin", "roundrobin", "range"),
    ("sticky",),
)
steps = st.lists(
    st.builds(
        Step, st.sampled_from(KINDS), st.integers(0, 59), st.sampled_from([False, False, True])
    ),
    min_size=10,
    max_size=40,
)


def group_of(story: GroupStory) -> ClassicGroup | None:
    return story.shard.classic_group(GROUP)


def perform(story: GroupStory, step: Step) -> None:
    group, choice = group_of(story), step.choice
    members = [*group.pending_join_members, *group.members] if group is not None else []
    member_id = members[choice % len(members)] if members else "none"
    generation = group.generation_id if group is not None else 0
    protocols, metadata = PROTOCOLS[choice % len(PROTOCOLS)], bytes(choice)
    match step.kind:
        case "join":
            story.join(protocols=protocols, metadata=metadata)
        case "old":
            story.join(protocols=protocols, metadata=metadata, api_version=3)
        case "static":
            story.join(instance="ab"[choice % 2], protocols=protocols, metadata=metadata)
        case "rejoin":
            story.join(member_id, protocols=protocols, metadata=metadata)
        case "sync":
            story.sync(member_id, generation, {member_id: bytes(choice * 9)})
        case "sync all" if group is not None and group.leader_id is not None:
            story.sync(group.leader_id, generation, {each: bytes(choice * 9) for each in members})
        case "settle":
            settle(story, choice)
        case "leave":
            story.ask(
                "leave_group",
                LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)]),
                api_version=5,
            )


def settle(story: GroupStory, choice: int) -> None:
    """Have all members join, and the leader assign something to each of them."""
    group = group_of(story)
    members = [*group.pending_join_members, *group.members] if group is not None else []
    for each in members:
        story.join(each, protocols=PROTOCOLS[choice % 2], metadata=bytes(choice))
    story.advance(0)
    group = group_of(story)
    if group is not None and group.leader_id is not None:
        story.sync(
            group.leader_id,
            group.generation_id,
            {each: bytes(choice % 30) for each in group.members},
        )


def counted(group: ClassicGroup) -> tuple[object, ...]:
    return group.joined_count, dict(group.supporters), group.protocol_bytes, group.assignment_bytes


def walked(members: Sequence[ClassicMember]) -> tuple[object, ...]:
    return (
        sum(member.awaiting_join is not None for member in members),
        dict(
            Counter(name for member in members for name in {name for name, _ in member.protocols})
        ),
        sum(len(metadata) for member in members for _, metadata in member.protocols),
        sum(len(member.assignment) for member in members),
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps)
def test_counts_are_what_a_walk_finds(steps: list[Step]) -> None:
    story = GroupStory(GroupConfig(initial_rebalance_delay_ms=0, max_metadata_record_bytes=900))
    for step in steps:
        if step.kind == "advance":
            story.advance(step.choice * REBALANCE_MS // 20)
        elif step.kind == "restart":
            story.restart()
        else:
            story.is_refusing = step.is_refused
            perform(story, step)
        group = group_of(story)
        if group is not None:
            assert counted(group) == walked(list(group.members.values())), step


class CountedMembers(dict[str, ClassicMember]):
    """Members that count how often they are walked over."""

    walk_count = 0

    def values(self):  # type: ignore[no-untyped-def]
        """All members."""
        self.walk_count += 1
        return super().values()


@pytest.mark.parametrize("member_count", [2, 40])
def test_members_that_join_are_not_walked_over_one_by_one(member_count: int) -> None:
    """Or a rebalance takes as many steps as the square of its members."""
    story = GroupStory()
    ids = story.stable_group(member_count)
    group = group_of(story)
    assert group is not None
    members = CountedMembers(group.members)
    group.members = members
    for member_id in ids:
        story.join(member_id)
    assert group.generation_id == 2
    assert members.walk_count < 10
