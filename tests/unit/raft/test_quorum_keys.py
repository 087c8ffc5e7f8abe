"""Each key of the quorum in a node's file has an effect.

There are three metadata logs in virtual time, each with one key that is not the default.
"""

from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
import trio

from log_service.common.types import NodeId
from log_service.config.server import parse_server_properties
from log_service.config.views import QuorumConfig
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from log_service.raft import wire
from log_service.raft.messages import EndQuorumEpochRequest
from tests.sim.world import World, sim_run
from tests.unit.raft.three_drivers import (
    LISTENER,
    Quorum,
    append,
    config,
    three_nodes,
    until,
    voters,
)

VALUES = [f"{number} " + "x" * 100 for number in range(40)]


def of_file(text: str) -> QuorumConfig:
    parsed, _ = parse_server_properties(
        "node.id=1\ncontroller.quorum.voters=1@node1:9093,2@node2:9093,3@node3:9093\n"
        f"listeners=PLAINTEXT://node1:9092,CONTROLLER://node1:9093\n{text}"
    )
    return parsed.quorum


def tell(key: str, story: Callable[[Quorum], Awaitable[None]]) -> None:
    """Run three nodes whose files have the same key, for two minutes at most."""

    async def main(world: World) -> None:
        with trio.fail_after(120):
            async with three_nodes(world, of_file(key)) as quorum:
                await story(quorum)

    sim_run(1, main)


def others(leader: int) -> list[int]:
    return sorted({1, 2, 3} - {leader})


def test_the_first_election_begins_when_its_timeout_is_over() -> None:
    async def story(quorum: Quorum) -> None:
        began = trio.current_time()
        await quorum.leader()
        assert 19 <= trio.current_time() - began < 60

    tell("controller.quorum.election.timeout.ms=20000", story)


def test_a_silent_leader_is_followed_until_the_fetch_timeout_is_over() -> None:
    async def story(quorum: Quorum) -> None:
        leader = await quorum.leader()
        await append(quorum, leader, ["1"])
        quorum.network.silent.add(f"node{leader}")
        began = trio.current_time()
        await until(lambda: any(quorum.driver(each).is_leader for each in others(leader)))
        assert 29 <= trio.current_time() - began < 50

    tell("controller.quorum.fetch.timeout.ms=30000", story)


def test_a_later_successor_stands_for_election_after_its_share_of_the_backoff() -> None:
    async def story(quorum: Quorum) -> None:
        leader = await quorum.leader()
        await append(quorum, leader, ["1"])
        first, second = others(leader)
        epoch, driver = quorum.driver(leader).epoch, quorum.driver(second)
        quorum.network.silent.update((f"node{leader}", f"node{first}"))
        await trio.sleep(0.01)  # what has come through already arrives
        successors = tuple(voters()[each - 1].key for each in (first, second))
        request = EndQuorumEpochRequest(
            leader_id=NodeId(leader), epoch=epoch, successors=successors
        )
        await driver.handle(
            wire.write_request(request, wire.Context("cluster", LISTENER)), listener_name=LISTENER
        )
        began = trio.current_time()
        await until(lambda: driver.role_name != "follower")
        assert 20 <= trio.current_time() - began < 21, (
            "the second of two waits for half of the longest backoff"
        )

    tell("controller.quorum.election.backoff.max.ms=40000", story)


def test_a_request_is_given_up_when_its_timeout_is_over() -> None:
    async def story(quorum: Quorum) -> None:
        leader = await quorum.leader()
        quorum.network.silent.add(f"node{others(leader)[0]}")
        await trio.sleep(20)
        assert max(quorum.network.given_up_after_s) == pytest.approx(7, abs=0.1)

    tell("controller.quorum.request.timeout.ms=7000", story)


def test_a_peer_that_refuses_is_left_alone_for_the_retry_backoff() -> None:
    async def story(quorum: Quorum) -> None:
        leader = await quorum.leader()
        dead = others(leader)[0]
        quorum.kill(dead)
        began = trio.current_time()
        await trio.sleep(40)
        way = (f"node{leader}", f"node{dead}")
        times = [
            at
            for at, sender, receiver in quorum.network.sent
            if at > began + 1 and (sender, receiver) == way
        ]
        assert len(times) > 3
        assert min(later - earlier for earlier, later in pairwise(times)) >= 5

    tell("controller.quorum.retry.backoff.ms=5000", story)


async def catch_up(quorum: Quorum, *, is_log_gone: bool = False) -> str:
    """Kill a follower, write forty records, and start it again; returns its name once it has them."""
    leader = await quorum.leader()
    late = others(leader)[0]
    quorum.kill(late)
    await append(quorum, leader, VALUES)
    if is_log_gone:
        for _ in range(2):
            await append(quorum, leader, ["more"])
            await quorum.driver(leader).write_snapshot([config(value) for value in VALUES])
    quorum.network.received.clear()
    await quorum.start(late)
    await until(lambda: quorum.records(late)[: len(VALUES)] == [config(value) for value in VALUES])
    return f"node{late}"


def test_a_fetch_of_the_log_asks_for_no_more_than_the_file_says() -> None:
    async def story(quorum: Quorum) -> None:
        late = await catch_up(quorum)
        fetched = [
            found
            for name, found in quorum.network.received
            if name == late and isinstance(found, FetchResponse)
        ]
        sizes = [
            len(each.responses[0].partitions[0].records or b"")
            for each in fetched
            if each.responses
        ]
        assert max(sizes) <= 1_000 < sum(sizes)

    tell("controller.quorum.fetch.max.bytes=1000", story)


def test_a_fetch_of_a_snapshot_asks_for_no_more_than_the_file_says() -> None:
    async def story(quorum: Quorum) -> None:
        late = await catch_up(quorum, is_log_gone=True)
        fetched = [
            found
            for name, found in quorum.network.received
            if name == late and isinstance(found, FetchSnapshotResponse)
        ]
        sizes = [len(each.topics[0].partitions[0].unaligned_records or b"") for each in fetched]
        assert max(sizes) == 1_000 < sum(sizes)

    tell("controller.quorum.fetch.snapshot.max.bytes=1000", story)
