"""A log that refuses: nothing changes, the request hears its own error, and everything else goes
on.

The walks at the end are the model: a random walk of requests, some of which the log refuses, ends
in the state of the same walk without the refused ones. The seed is the test's parameter.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.config.views import GroupConfig
from log_service.coordinator.group.classic.group import ClassicGroup
from log_service.coordinator.group.group_coordinator import GroupCoordinatorShard
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from log_service.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from log_service.state_machine.runtime import RETRY_MS, Runtime
from tests.unit.coordinator.memory_log import (
    CLIENT,
    MemoryLog,
    commit,
    commit_error,
    fetch,
    with_leader,
)

UNDER_MIN_ISR = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas are in sync")
SESSION_MS = 10_000
REBALANCE_MS = 30_000


@dataclass
class CountingLog(MemoryLog):
    load_count: int = 0

    def read_batches(self) -> Iterator[bytes]:
        self.load_count += 1
        yield from self.batches


def test_commits_that_the_log_refuses_load_no_shard_and_hear_that_the_coordinator_is_not_available() -> (
    None
):
    log = CountingLog()
    replies: list[Any] = []

    def story(groups: GroupService) -> None:
        log.failure = UNDER_MIN_ISR
        for offset in range(20):
            commit(groups, offset, replies)
        log.failure = None
        commit(groups, 77, replies)
        fetch(groups, replies, "g")

    with_leader(log, story)
    assert [commit_error(reply) for reply in replies[:20]] == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ] * 20
    assert commit_error(replies[20]) == ErrorCode.NONE
    assert replies[21][0].topics[0].partitions[0].committed_offset == 77
    assert log.load_count == 1


@pytest.mark.parametrize(
    ("refused_with", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_each_api_tells_a_refused_append_with_its_own_code(
    refused_with: ErrorCode, told: ErrorCode
) -> None:
    log = MemoryLog(failure=KafkaError(refused_with, "refused"))
    replies: list[Any] = []

    def story(groups: GroupService) -> None:
        commit(groups, 1, replies)
        groups.join_group(join_request(), CLIENT, replies.append)
        groups.describe_groups(DescribeGroupsRequest(groups=["g"]), CLIENT, replies.append)

    with_leader(log, story)
    committed, joined, described = replies
    assert (commit_error(committed), joined.error_code) == (told, told)
    assert described.groups[0].group_state == "Dead", (
        "a group that the log does not have must not be there"
    )


def test_a_heartbeat_to_a_group_that_is_being_loaded_hears_no_error() -> None:
    """As with Kafka: the member need not look for another coordinator."""
    replies: list[Any] = []

    def story(groups: GroupService) -> None:
        groups.lead(MemoryLog())
        groups.heartbeat(HeartbeatRequest(group_id="g", member_id="m"), CLIENT, replies.append)

    with_leader(MemoryLog(), story)
    assert replies[0].error_code == ErrorCode.NONE


def join_request(
    member_id: str = "", *, group_id: str = "g", instance: str | None = None, metadata: bytes = b""
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


# One shard under a runtime, and a log in memory


@dataclass
class Clock:
    now_ms: int = 0

    def wall_ms(self) -> int:
        return 1_000_000 + self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


@dataclass
class RecordLog:
    """A log of records whose high watermark is its end."""

    records: list[GroupRecord] = field(default_factory=list)
    failure: KafkaError | None = None

    @property
    def high_watermark(self) -> int:
        return len(self.records)

    def append(self, records: Sequence[GroupRecord], wall_ms: int) -> int:
        if self.failure is not None:
            raise self.failure
        self.records += records
        return len(self.records)


class Refused:
    """The error of a refused request."""


class Stage:
    """A shard, its runtime, and every reply by the number of its request."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.timers = TimerQueue()
        self.log = RecordLog()
        self.number = 0
        self.shard = GroupCoordinatorShard(
            GroupConfig(initial_rebalance_delay_ms=3_000), lambda prefix: f"{prefix}-{self.number}"
        )
        self.runtime: Runtime[GroupRecord] = Runtime(
            self.shard, self.log, clock=self.clock, timers=self.timers, appended_end=0
        )
        self.runtime.decide_alone(self.shard.on_loaded)
        self.replies: dict[int, Any] = {}
        self.numbers: dict[Any, int] = {}

    def ask(self, number: int, handler: str, request: Any, *, is_refused: bool = False) -> None:
        self.number = number
        handle = getattr(self.shard, f"handle_{handler}")

        def decide(decision: Any, token: Any) -> None:
            self.numbers[token] = number
            handle(
                request,
                RequestContext(api_version=5, client_id="c", client_host="h", reply_to=token),
                decision,
            )

        self.log.failure = UNDER_MIN_ISR if is_refused else None
        self.runtime.ask(decide, partial(self._on_reply, number), lambda _: Refused)
        self.log.failure = None

    def _on_reply(self, number: int, response: Any) -> None:
        assert number not in self.replies, "replied to twice"
        self.replies[number] = response

    def advance(self, ms: int) -> None:
        end_ms = self.clock.now_ms + ms
        while (due_ms := self.timers.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.clock.now_ms = due_ms
            self.timers.fire_due(due_ms)
        self.clock.now_ms = end_ms

    def state(self) -> list[Any]:
        """Everything that a request could find, with requests named by their numbers."""
        groups = {
            key: group
            for key, group in self.shard.groups.items()
            if isinstance(group, ClassicGroup)
        }
        members = [
            [self._member(member) for member in group.members.values()] for group in groups.values()
        ]
        shown = [
            [getattr(group, name) for name in type(group).__slots__ if name != "members"]
            for group in groups.values()
        ]
        timers = sorted(
            (repr(key), deadline_ms) for key, deadline_ms in self.runtime.timer_deadlines.items()
        )
        waiting = sorted(self.numbers[token] for token in self.runtime.waiting_requests)
        offsets = {
            group_id: self.shard.offsets.of(group_id) for group_id in self.shard.offsets.group_ids()
        }
        return deepcopy([shown, members, timers, waiting, self.log.records, offsets])

    def _member(self, member: Any) -> list[Any]:
        return [
            self.numbers[getattr(member, name)]
            if name.startswith("awaiting_") and getattr(member, name)
            else getattr(member, name)
            for name in type(member).__slots__
        ]


def stable_pair(stage: Stage) -> tuple[str, str]:
    for number in (1, 2):
        stage.ask(number, "join_group", join_request())
    first, second = (stage.replies[number].member_id for number in (1, 2))
    stage.ask(3, "join_group", join_request(first))
    stage.ask(4, "join_group", join_request(second))
    stage.advance(6_000)
    return first, second


def sync_request(
    member_id: str, generation_id: int, *assigned: str, group_id: str = "g"
) -> SyncGroupRequest:
    assignments = [
        SyncGroupRequestAssignment(member_id=each, assignment=each.encode()) for each in assigned
    ]
    return SyncGroupRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, assignments=assignments
    )


def test_a_generation_that_the_log_refuses_leaves_its_members_waiting_and_the_next_try_assigns_to_all() -> (
    None
):
    stage = Stage()
    leader, follower = stable_pair(stage)
    stage.ask(5, "sync_group", sync_request(follower, 1))
    before = stage.state()
    stage.ask(6, "sync_group", sync_request(leader, 1, leader, follower), is_refused=True)
    assert stage.replies[6] is Refused
    assert stage.state() == before
    stage.ask(7, "sync_group", sync_request(leader, 1, leader, follower))
    assert [stage.replies[number].assignment for number in (5, 7)] == [
        follower.encode(),
        leader.encode(),
    ]


def test_a_silent_member_expires_once_the_log_takes_records_again() -> None:
    stage = Stage()
    leader, follower = stable_pair(stage)
    stage.ask(5, "sync_group", sync_request(follower, 1))
    stage.ask(6, "sync_group", sync_request(leader, 1, leader, follower))
    stage.log.failure = UNDER_MIN_ISR
    stage.advance(SESSION_MS + REBALANCE_MS + 5_000)
    (group,) = stage.shard.groups.values()
    assert group.state.value == "PreparingRebalance", (
        "an empty generation has to be stored before it counts"
    )
    stage.log.failure = None
    stage.advance(RETRY_MS)
    assert group.state.value == "Empty"


# Walks

Step = Callable[[Stage, int, bool], None]


@dataclass
class Walk:
    """Steps over a stage; what a step asks for depends on what the stage replied before."""

    stage: Stage = field(default_factory=Stage)
    known: list[tuple[str, str, int]] = field(default_factory=list)
    """Group, member id and generation, of every join that was replied to."""

    def learn(self) -> None:
        for number, reply in sorted(self.stage.replies.items()):
            if getattr(reply, "member_id", "") and hasattr(reply, "generation_id"):
                entry = (GROUPS[number % len(GROUPS)], reply.member_id, reply.generation_id)
                if entry not in self.known:
                    self.known.append(entry)


GROUPS = ("g", "h")
KINDS = (
    "join",
    "join",
    "join again",
    "join again",
    "static",
    "sync",
    "sync",
    "heartbeat",
    "leave",
    "commit",
    "commit",
    "outsider",
    "advance",
)


def perform(walk: Walk, number: int, kind: str, choice: float, *, is_refused: bool) -> None:
    """Perform one step; ``choice`` picks among the members that are known by then."""
    stage, ask = walk.stage, partial(walk.stage.ask, number, is_refused=is_refused)
    group_id = GROUPS[number % len(GROUPS)]
    known = [entry for entry in walk.known if entry[0] == group_id]
    _, member_id, generation_id = (
        known[int(choice * len(known))] if known else (group_id, "nobody", 1)
    )
    group = stage.shard.classic_group(group_id)
    if group is not None and choice < 0.9:
        awaited = [each.member_id for each in group.members.values() if each.awaiting_join is None]
        present = (
            [*group.pending_join_members, *awaited] if kind == "join again" else list(group.members)
        )
        member_id = present[int(choice * len(present))] if present else member_id
        generation_id = group.generation_id
    match kind:
        case "join":
            ask("join_group", join_request(group_id=group_id))
        case "join again":
            ask(
                "join_group",
                join_request(
                    member_id, group_id=group_id, metadata=b"new" if choice > 0.7 else b""
                ),
            )
        case "static":
            ask(
                "join_group",
                join_request(group_id=group_id, instance="one" if choice < 0.5 else "two"),
            )
        case "sync":
            everyone = list(group.members) if group is not None else []
            leads = group is not None and group.leader_id is not None and choice < 0.6
            asking = (
                group.leader_id if group is not None and leads and group.leader_id else member_id
            )
            ask("sync_group", sync_request(asking, generation_id, *everyone, group_id=group_id))
        case "heartbeat":
            ask(
                "heartbeat",
                HeartbeatRequest(
                    group_id=group_id, generation_id=generation_id, member_id=member_id
                ),
            )
        case "leave":
            ask(
                "leave_group",
                LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)]),
            )
        case "commit" | "outsider":
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
            is_member = kind == "commit"
            request = OffsetCommitRequest(
                group_id=group_id,
                generation_id_or_member_epoch=generation_id if is_member else -1,
                member_id=member_id if is_member else "",
                topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
            )
            ask("offset_commit", request)
        case "advance":
            stage.advance(int(choice * 12_000))


@pytest.mark.parametrize("seed", range(30))
def test_a_walk_with_refused_steps_ends_where_the_walk_without_them_does(seed: int) -> None:
    random = Random(seed)
    steps = [(random.choice(KINDS), random.random(), random.random() < 0.3) for _ in range(250)]
    walk, shorter = Walk(), Walk()
    refused_count = 0
    for number, (kind, choice, is_refused) in enumerate(steps):
        before = walk.stage.state() if is_refused else []
        perform(walk, number, kind, choice, is_refused=is_refused)
        if walk.stage.replies.get(number) is Refused:
            refused_count += 1
            assert walk.stage.state() == before, f"step {number}: {kind}"
            del walk.stage.replies[number]
        else:
            perform(shorter, number, kind, choice, is_refused=False)
        walk.learn()
        shorter.learn()
    assert refused_count > 2
    assert walk.stage.state() == shorter.stage.state()
    assert walk.stage.replies == shorter.stage.replies
    for each in (walk, shorter):
        each.stage.advance(10 * REBALANCE_MS)
    assert walk.stage.state() == shorter.stage.state()
    assert walk.stage.replies == shorter.stage.replies
