"""A coordinator was paused for longer than sessions last.

Members whose heartbeats lie unread stay. Members that were silent are removed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from log_service.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from log_service.state_machine.stalls import STALL_GRACE_MS
from tests.unit.broker.context import HOST, Story, tell
from tests.unit.broker.handlers.groups.group_requests import coordinated

SESSION_S = 45.0
"""The longest of the sessions by default: that of consumer, share and streams groups, and asked for
by the classic member.
"""
FENCED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}


@dataclass(frozen=True)
class Kind:
    """A kind of group: ``join`` makes a member and returns its heartbeat, with the version of that."""

    name: str
    join: Callable[[Story], Awaitable[tuple[Any, int]]]


async def join_classic(node: Story) -> tuple[Any, int]:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    asked = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=int(SESSION_S * 1e3),
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    asked.member_id = (await node.ask(asked, 5)).member_id
    joined = await node.ask(asked, 5)
    member = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
    assert (await node.ask(SyncGroupRequest(**member, assignments=assignments), 3)).error_code == 0
    return HeartbeatRequest(**member), 3


async def join_consumer(node: Story) -> tuple[Any, int]:
    joined = await node.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["a"],
            topic_partitions=[],
        ),
        1,
    )
    assert joined.error_code == 0, joined
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=joined.member_epoch
    ), 1


async def join_share(node: Story) -> tuple[Any, int]:
    update = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)
    assert (
        await node.ask(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update]), 1)
    ).error_code == 0
    joined = await node.ask(
        ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["a"]), 1
    )
    assert joined.error_code == 0, joined
    return ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=joined.member_epoch
    ), 1


async def join_streams(node: Story) -> tuple[Any, int]:
    topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["a"])])
    nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    joined = await node.ask(
        StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=60_000,
            topology=topology,
            process_id="p",
            **nothing,
        ),
        0,
    )
    assert joined.error_code == 0, joined
    return StreamsGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=joined.member_epoch
    ), 0


KINDS = [
    Kind("classic", join_classic),
    Kind("consumer", join_consumer),
    Kind("share", join_share),
    Kind("streams", join_streams),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_member_whose_heartbeats_lie_unread_stays(kind: Kind, seed: int) -> None:
    async def story(node: Story) -> None:
        heartbeat, version = await member_of(node, kind)
        node.world.pause(HOST)
        await node.client.send(heartbeat, version)
        await trio.sleep(SESSION_S * 2)
        node.world.resume(HOST)
        assert (await node.client.receive()).error_code == ErrorCode.NONE

    tell(story, seed=seed)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_member_that_is_silent_after_a_stall_goes(kind: Kind) -> None:
    async def story(node: Story) -> None:
        heartbeat, version = await member_of(node, kind)
        node.world.pause(HOST)
        await trio.sleep(SESSION_S * 2)
        node.world.resume(HOST)
        await trio.sleep(STALL_GRACE_MS / 1_000 + 1)
        assert (await node.ask(heartbeat, version)).error_code in FENCED

    tell(story)


async def member_of(node: Story, kind: Kind) -> tuple[Any, int]:
    await coordinated(node)
    await node.create_topic("a", 2)
    await trio.sleep(1)
    return await kind.join(node)
