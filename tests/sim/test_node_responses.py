"""Each forgotten request is noticed, also if its client has gone.

Requests that may wait are not reported.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest
import trio

from log_service.client import Admin, NewTopic
from log_service.common.types import NO_TOPIC_ID
from log_service.coordinator.group.group_coordinator import GroupCoordinatorShard
from log_service.network.connection import ServerConnection
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.join_group import JoinGroupRequest
from log_service.protocol.messages.produce import ProduceRequest
from log_service.protocol.messages.sync_group import SyncGroupRequest
from tests.sim import World
from tests.sim.node_host import BOOTSTRAP, Death, NodeHost, node_config
from tests.sim.node_responses import (
    GRACE_SECONDS,
    LONGEST_REBALANCE_MS,
    RULE,
    Responses,
    allowed_seconds,
)
from tests.sim.node_waits import FETCH, Line
from tests.sim.world import sim_run

HEARTBEAT, FIND = 4, 4
"""The versions that are spoken."""
A_WHILE = 2 * GRACE_SECONDS + 30


def play(story: Callable[[World, NodeHost, Line], Awaitable[None]]) -> tuple[int, list[str]]:
    """Play with one node and one connection, then let time pass.

    Return the number of promises, and the broken ones.
    """
    found: list[str] = []
    promise_count = 0

    async def main(world: World) -> None:
        nonlocal promise_count
        async with trio.open_nursery() as nursery:
            host = NodeHost(world, nursery, *node_config({}))
            responses = Responses(world, {host: lambda: None})
            with responses.watching():
                await host.start()
                async with Admin(BOOTSTRAP, env=world.client_env("admin")) as admin:
                    await admin.create_topics([NewTopic(name="t", partition_count=1)])
                line = Line(await world.client_env("client").network.connect(host.name, host.port))
                await until_coordinated(line)
                await story(world, host, line)
                line.close()
                await trio.sleep(A_WHILE)
            found.extend(violation.text for violation in responses.of([host]))
            assert all(violation.rule == RULE for violation in responses.of([host]))
            promise_count = responses.promise_count
            host.die(Death.KILL)

    sim_run(1, main)
    return promise_count, found


async def until_coordinated(line: Line) -> None:
    while (  # noqa: ASYNC110 - the node loads it
        (await line.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FIND))
        .coordinators[0]
        .error_code
    ):
        await trio.sleep(0.1)


async def beat(line: Line) -> None:
    with trio.move_on_after(1):
        await line.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), HEARTBEAT)


async def fetch(line: Line, max_wait_ms: int) -> None:
    wanted = FetchTopic(
        topic="t",
        topic_id=NO_TOPIC_ID,
        partitions=[FetchPartition(partition=0, partition_max_bytes=1)],
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1,
        session_epoch=-1,
        topics=[wanted],
    )
    await line.ask(request, FETCH)


def test_a_request_that_a_coordinator_forgets_is_noticed_once_its_client_has_gone() -> None:
    async def story(_world: World, _host: NodeHost, line: Line) -> None:
        await beat(line)

    with mock.patch.object(GroupCoordinatorShard, "handle_heartbeat", return_value=None):
        _, (told,) = play(story)
    assert "HEARTBEAT" in told


def test_a_fetch_that_waits_long_and_one_whose_client_goes_are_no_forgotten_ones() -> None:
    async def story(_world: World, _host: NodeHost, line: Line) -> None:
        await beat(line)
        await fetch(line, 60_000)
        with trio.move_on_after(1):
            await fetch(line, 1_000_000)

    promise_count, found = play(story)
    assert found == []
    assert promise_count >= 2


def test_the_time_for_which_a_node_is_paused_does_not_count() -> None:
    async def story(world: World, host: NodeHost, line: Line) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch, line, 1_000)
            await trio.sleep(0.5)
            world.pause(host.name)
            await trio.sleep(A_WHILE)
            world.resume(host.name)

    assert play(story)[1] == []


def test_a_node_that_dies_owes_nothing() -> None:
    async def story(_world: World, host: NodeHost, line: Line) -> None:
        await beat(line)
        host.die(Death.KILL)
        await host.start()

    with mock.patch.object(GroupCoordinatorShard, "handle_heartbeat", return_value=None):
        assert play(story)[1] == []


def test_a_response_that_is_ready_and_never_sent_is_noticed() -> None:
    async def story(world: World, host: NodeHost, _line: Line) -> None:
        with (
            mock.patch.object(ServerConnection, "wake_writer", return_value=None),
            trio.move_on_after(3),
        ):
            await fetch(
                Line(await world.client_env("another").network.connect(host.name, host.port)), 1_000
            )

    _, found = play(story)
    assert found
    assert all("nothing sends it" in text for text in found)


@pytest.mark.parametrize(
    ("api_key", "request_", "seconds"),
    [
        (ApiKey.FETCH, FetchRequest(max_wait_ms=500), 0.5),
        (ApiKey.HEARTBEAT, HeartbeatRequest(), 5.0),
        (ApiKey.SYNC_GROUP, SyncGroupRequest(), LONGEST_REBALANCE_MS / 1_000 + 5),
        (ApiKey.JOIN_GROUP, JoinGroupRequest(rebalance_timeout_ms=60_000), 65.0),
        (ApiKey.DESCRIBE_QUORUM, object(), 30.0),
        (ApiKey.PRODUCE, ProduceRequest(timeout_ms=5_000), 5.0),
        (ApiKey.PRODUCE, ProduceRequest(timeout_ms=5_000, transactional_id="t"), 35.0),
    ],
)
def test_a_request_may_take_as_long_as_what_it_waits_for(
    api_key: ApiKey, request_: Any, seconds: float
) -> None:
    assert allowed_seconds(api_key, request_) == seconds
