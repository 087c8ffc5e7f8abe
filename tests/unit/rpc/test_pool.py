"""A pool has one connection per destination.

It opens once for all who ask, again after it broke, and never in a tight loop.
"""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.vote import NodeEndpoint, VoteRequest, VoteResponse
from log_service.rpc.connection import Destination, RpcSettings
from log_service.rpc.pool import ConnectionPool
from log_service.rpc.retry import Backoff
from tests.sim.world import World
from tests.unit.rpc.scripted_node import (
    DESTINATION,
    HANG_UP,
    HOST,
    SILENCE,
    ScriptedNode,
    tell,
    tell_with_pool,
)

NOWHERE = Destination(host="nowhere", port=9093)
RAFT: dict[str, Any] = {
    "request_timeout_ms": 2_000,
    "reconnect_backoff": Backoff(first_ms=50, max_ms=500),
    "max_requests_in_flight": 1,
}


async def vote(pool: ConnectionPool, destination: Destination = DESTINATION) -> None:
    await pool.request(destination, VoteRequest(), VoteResponse)


def test_requests_share_a_connection_and_purposes_do_not() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(vote, pool)
        await vote(pool)
        assert (len(node.accepted_at), node.count(ApiKey.VOTE)) == (1, 6)
        await vote(pool, Destination(host=HOST, port=9093, purpose="fetch"))
        assert (len(node.accepted_at), pool.open_count, pool.opened_total) == (2, 2, 2)
        assert min(pool.bytes_received, pool.bytes_sent) > 100

    tell_with_pool(story)


def test_a_connection_that_broke_is_opened_and_negotiated_again() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        await vote(pool)
        received = pool.bytes_received
        world.network.reset_connections(HOST)
        await trio.sleep(1)
        node.ranges[ApiKey.VOTE] = (0, 1)
        await vote(pool)
        assert node.requests[-1][0].api_version == 1
        assert pool.connected(DESTINATION) is not None
        assert (pool.opened_total, pool.failed_total) == (2, 0)
        assert pool.bytes_received > received

    tell_with_pool(story)


def test_a_node_that_refuses_is_asked_after_pauses_that_double_up_to_the_bound() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        failed_at = []
        for _ in range(8):
            with pytest.raises(
                KafkaError,
                match=r"^cannot reach a broker at nowhere:9093( of \S+)?: Connection refused$",
            ) as caught:
                await vote(pool, NOWHERE)
            assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
            failed_at.append(trio.current_time())
        pauses = [after - before for before, after in pairwise(failed_at)]
        for pause, plain in zip(pauses, (0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5), strict=True):
            assert 0.79 * plain <= pause <= min(1.21 * plain, 0.501)
        assert len(set(pauses)) > 4, "jitter"
        assert pool.failed_total == 8

    tell_with_pool(story, **RAFT)


def test_pauses_begin_anew_once_a_connection_was_opened() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        node.replies[ApiKey.API_VERSIONS] = lambda _: HANG_UP
        for _ in range(6):
            with pytest.raises(KafkaError):
                await vote(pool)
        node.replies[ApiKey.API_VERSIONS] = lambda _: node.api_versions()
        await vote(pool)
        await trio.sleep(5)
        world.network.reset_connections(HOST)
        await trio.sleep(0.001)
        before = trio.current_time()
        await vote(pool)
        assert trio.current_time() - before < 0.05

    tell_with_pool(story, **RAFT)


def test_a_node_that_takes_connections_and_closes_them_is_not_asked_in_a_tight_loop() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        node.hangs_up_after_versions = True
        with trio.move_on_after(2):
            while True:
                with pytest.raises(KafkaError):
                    await vote(pool)
        assert 20 < len(node.accepted_at) < 2 / 0.04 + 2

    tell_with_pool(story, **RAFT)


def test_a_silent_node_costs_its_deadline_and_the_next_request_a_new_connection() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        node.replies[ApiKey.VOTE] = lambda _: SILENCE
        with pytest.raises(KafkaError) as caught:
            await vote(pool)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() == pytest.approx(2, abs=0.01)
        node.replies[ApiKey.VOTE] = lambda _: VoteResponse()
        await vote(pool)
        assert pool.opened_total == 2

    tell_with_pool(story, **RAFT)


def test_a_node_behind_a_cut_is_reached_once_it_is_healed() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        world.network.isolate("client", [HOST])
        with pytest.raises(KafkaError, match="did not accept a connection within 1000 ms"):
            await vote(pool)
        world.network.heal()
        await vote(pool)

    tell_with_pool(story, connect_timeout_ms=1_000)


def test_closing_ends_an_attempt_that_is_under_way_for_all_who_wait() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        node.replies[ApiKey.API_VERSIONS] = lambda _: SILENCE

        async def ask() -> None:
            with pytest.raises(KafkaError, match="closed on our side"):
                await vote(pool)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.sleep(1)
            pool.channel(DESTINATION).close()
        assert trio.current_time() == pytest.approx(1)
        node.replies[ApiKey.API_VERSIONS] = lambda _: node.api_versions()
        await vote(pool)

    tell_with_pool(story)


def test_a_forgotten_address_is_closed_and_what_it_counted_stays_counted() -> None:
    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        await vote(pool)
        connection = pool.connected(DESTINATION)
        assert connection is not None
        pool.forget_address(DESTINATION.host, DESTINATION.port)
        assert connection.is_closed
        assert (pool.connected(DESTINATION), pool.open_count) == (None, 0)
        await vote(pool)
        assert (pool.opened_total, pool.open_count) == (2, 1)

    tell_with_pool(story)


def test_a_task_outside_of_the_pools_nursery_hears_that_the_pool_ended() -> None:
    async def story(world: World, node: ScriptedNode) -> None:
        node.replies[ApiKey.API_VERSIONS] = lambda _: SILENCE
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            pool = ConnectionPool(world.client_env(), RpcSettings(client_id="c"), inner)

            async def ask() -> None:
                with pytest.raises(KafkaError, match="closed on our side"):
                    await vote(pool)

            outer.start_soon(ask)
            await trio.sleep(1)
            inner.cancel_scope.cancel()

    tell(story)


@pytest.mark.parametrize("seed", range(12))
def test_every_response_belongs_to_its_request_in_any_weather(seed: int) -> None:
    """A request ends with its own response or a clear error, and in time.

    There is latency, with odd chunks, small windows, resets and cuts.
    """
    succeeded: list[int] = []
    failed_with: set[ErrorCode] = set()

    async def story(pool: ConnectionPool, world: World, node: ScriptedNode) -> None:
        world.network.weather = world.draw_weather()
        node.replies[ApiKey.VOTE] = lambda _: VoteResponse(
            node_endpoints=[
                NodeEndpoint(
                    node_id=node.requests[-1][1].voter_id, host="x" * node.requests[-1][1].voter_id
                )
            ]
        )

        async def ask(number: int) -> None:
            await trio.sleep(world.rng.random() * 20)
            started = trio.current_time()
            try:
                response = await pool.request(
                    DESTINATION, VoteRequest(voter_id=number), VoteResponse
                )
            except KafkaError as error:
                failed_with.add(error.code)
            else:
                assert response.node_endpoints[0].node_id == number
                succeeded.append(number)
            assert trio.current_time() - started < 40

        async def disturb() -> None:
            for _ in range(10):
                await trio.sleep(world.rng.random() * 2)
                world.network.reset_connections(HOST)
                if world.rng.random() < 0.3:
                    world.network.cut(*world.rng.choice((("client", HOST), (HOST, "client"))))
                    await trio.sleep(world.rng.random() * 3)
                    world.network.heal()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(disturb)
            for number in range(100):
                nursery.start_soon(ask, number)
        await vote(pool)

    tell_with_pool(story, seed=seed, request_timeout_ms=2_000, max_requests_in_flight=1 + seed % 5)
    assert len(succeeded) > 30
    assert failed_with <= {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}


def test_the_same_seed_makes_the_same_pauses() -> None:
    backoff = Backoff(first_ms=50, max_ms=500)
    drawn = [
        [backoff.delay_ms(attempt, rng) for attempt in range(6)]
        for rng in (Random(7), Random(7), Random(8))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
