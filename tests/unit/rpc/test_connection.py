"""Typed requests over one connection have versions and deadlines.

Something happens before the first one, and a hostile peer achieves nothing.
"""

import struct
from collections.abc import Callable

import pytest
import trio

from log_service.common.env import Connection
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader
from log_service.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from log_service.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from log_service.protocol.messages.fetch import FetchResponse
from log_service.protocol.messages.vote import ResponseTopicData, VoteRequest, VoteResponse
from log_service.protocol.schema import has_records
from log_service.rpc.connection import (
    Destination,
    RpcConnection,
    RpcSettings,
    open_connection,
)
from tests.sim.world import World
from tests.unit.rpc.scripted_node import (
    DESTINATION,
    HANG_UP,
    SILENCE,
    Reply,
    ScriptedNode,
    tell,
    tell_with_connection,
)


def test_versions_are_negotiated_first_and_a_request_goes_out_in_the_highest_common_one() -> None:
    async def story(connection: RpcConnection, node: ScriptedNode) -> None:
        assert [header[:2] for header, _ in node.requests] == [(ApiKey.API_VERSIONS, 3)]
        assert connection.versions.ranges[ApiKey.VOTE] == (0, 2)
        response = await connection.request(VoteRequest(voter_id=2), VoteResponse)
        assert response.error_code == ErrorCode.NONE
        header, request = node.requests[1]
        assert header == (ApiKey.VOTE, 2, 2, "raft-client-1")
        assert request.voter_id == 2
        await connection.request(VoteRequest(), VoteResponse, max_version=1)
        assert node.requests[2][0].api_version == 1

    tell_with_connection(story)


def test_a_peer_that_does_not_know_our_question_is_asked_the_oldest_one() -> None:
    async def story(world: World, node: ScriptedNode) -> None:
        node.is_old = True
        async with open_connection(
            world.client_env(), DESTINATION, RpcSettings(client_id="c")
        ) as connection:
            assert connection.version_of(ApiKey.VOTE) == 2
        assert [header.api_version for header, _ in node.requests] == [3, 0]

    tell(story)


def test_a_request_that_the_peer_does_not_speak_is_refused_here() -> None:
    async def story(connection: RpcConnection, node: ScriptedNode) -> None:
        with pytest.raises(
            KafkaError,
            match="no common version of EndQuorumEpoch: the broker speaks none, this client 0-1",
        ) as caught:
            await connection.request(EndQuorumEpochRequest(), EndQuorumEpochResponse)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert len(node.requests) == 1

    tell_with_connection(story)


def test_a_request_timeout_is_kept_also_when_it_is_short() -> None:
    async def story(connection: RpcConnection, node: ScriptedNode) -> None:
        node.replies[ApiKey.VOTE] = lambda _: SILENCE
        started = trio.current_time()
        with pytest.raises(
            KafkaError, match="node-2:9093 did not respond within 1000 ms"
        ) as caught:
            await connection.request(VoteRequest(), VoteResponse)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() - started == pytest.approx(1)
        assert connection.is_closed

    tell_with_connection(story, request_timeout_ms=1_000)


def test_a_request_that_makes_the_node_wait_is_given_that_time_too() -> None:
    async def story(connection: RpcConnection, node: ScriptedNode) -> None:
        node.replies[ApiKey.VOTE] = lambda _: SILENCE
        started = trio.current_time()
        with pytest.raises(KafkaError, match="within 15000 ms"):
            await connection.request(VoteRequest(), VoteResponse, waits_ms=10_000)
        assert trio.current_time() - started == pytest.approx(15)

    tell_with_connection(story, request_timeout_ms=1_000)


def test_one_request_in_flight_is_one() -> None:
    async def story(connection: RpcConnection, node: ScriptedNode) -> None:
        seen: list[int] = []
        node.replies[ApiKey.VOTE] = lambda _: SILENCE

        async def ask() -> None:
            with pytest.raises(KafkaError):
                await connection.request(VoteRequest(), VoteResponse)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.sleep(0.5)
            seen.append(node.count(ApiKey.VOTE))
        assert seen == [1]

    tell_with_connection(story, max_requests_in_flight=1, request_timeout_ms=1_000)


def wrong_correlation_id(header: RequestHeader) -> Reply:
    return struct.pack(">ii", 10, header.correlation_id + 1) + bytes(6)


def cut_frame(header: RequestHeader) -> Reply:
    return struct.pack(">ii", 1_000, header.correlation_id)


def huge_length(header: RequestHeader) -> Reply:
    return struct.pack(">i", 2**31 - 1) + bytes(100)


def negative_length(header: RequestHeader) -> Reply:
    return struct.pack(">i", -1)


def body_of_another_api(header: RequestHeader) -> Reply:
    return struct.pack(">ii", 12, header.correlation_id) + b"\xff" * 8


def count_beyond_the_frame(header: RequestHeader) -> Reply:
    """An array of two thousand million topics in ten bytes."""
    return (
        struct.pack(">iibhb", 14, header.correlation_id, 0, 0, 0) + b"\xff\xff\xff\xff\x07" + b"\0"
    )


def hang_up(header: RequestHeader) -> Reply:
    return HANG_UP


HOSTILE = [
    wrong_correlation_id,
    cut_frame,
    huge_length,
    negative_length,
    body_of_another_api,
    count_beyond_the_frame,
    hang_up,
]


@pytest.mark.parametrize("key", [ApiKey.VOTE, ApiKey.API_VERSIONS], ids=lambda key: key.name)
@pytest.mark.parametrize("reply", HOSTILE)
def test_a_hostile_peer_gets_a_closed_connection_and_its_user_a_clear_error(
    reply: Callable[[RequestHeader], Reply], key: ApiKey
) -> None:
    async def story(world: World, node: ScriptedNode) -> None:
        node.replies[key] = reply
        settings = RpcSettings(client_id="c", request_timeout_ms=2_000, max_response_bytes=1 << 20)
        connections: list[RpcConnection] = []

        async def ask() -> None:
            async with open_connection(world.client_env(), DESTINATION, settings) as connection:
                connections.append(connection)
                try:
                    await connection.request(VoteRequest(), VoteResponse)
                finally:
                    assert connection.is_closed

        with pytest.raises(KafkaError, match="node-2:9093") as caught:
            await ask()
        assert len(connections) == (key is ApiKey.VOTE)
        assert caught.value.code in {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
        assert trio.current_time() <= 3

    tell(story)


def test_a_long_response_is_decoded_beside_the_loop() -> None:
    """Ten thousand partitions would hold up everything else for 40 ms."""

    async def story(connection: RpcConnection, node: ScriptedNode) -> None:
        topics = [ResponseTopicData(topic_name=str(number)) for number in range(20_000)]
        node.replies[ApiKey.VOTE] = lambda _: VoteResponse(topics=topics)
        responses: list[VoteResponse] = []

        async def ask() -> None:
            responses.append(await connection.request(VoteRequest(), VoteResponse))

        limiter = trio.to_thread.current_default_thread_limiter()
        async with trio.open_nursery() as nursery:
            await limiter.acquire_on_behalf_of(node)
            limiter.total_tokens = 1  # so that no thread is free
            nursery.start_soon(ask)
            await trio.sleep(1)
            assert not responses
            limiter.release_on_behalf_of(node)
        assert [len(each.topics) for each in responses] == [len(topics)]

    tell_with_connection(story, long_frame_bytes=10_000)


def test_a_long_response_of_nonsense_closes_the_connection() -> None:
    async def story(connection: RpcConnection, node: ScriptedNode) -> None:
        node.replies[ApiKey.VOTE] = lambda header: (
            struct.pack(">ii", 4 + 20_000, header.correlation_id) + b"\xff" * 20_000
        )
        with pytest.raises(KafkaError, match="sent what is not a VoteResponse"):
            await connection.request(VoteRequest(), VoteResponse)
        assert connection.is_closed

    tell_with_connection(story, long_frame_bytes=10_000)


def test_a_response_with_records_has_little_to_decode() -> None:
    assert has_records(FetchResponse)
    assert not has_records(VoteResponse)


def test_silence_between_connecting_and_the_first_response_ends_by_the_deadline() -> None:
    async def story(world: World, node: ScriptedNode) -> None:
        node.replies[ApiKey.API_VERSIONS] = lambda _: SILENCE
        with pytest.raises(KafkaError, match="did not respond within 700 ms"):
            async with open_connection(
                world.client_env(), DESTINATION, RpcSettings(client_id="c", request_timeout_ms=700)
            ):
                pass

    tell(story)


class Watched:
    """A ``Security`` that writes down what it was asked for, and may stall or refuse."""

    def __init__(self, *, stalls: bool = False, refuses: bool = False) -> None:
        self.seen: list[str] = []
        self.stream: Connection | None = None
        self._stalls = stalls
        self._refuses = refuses

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        self.seen.append(f"secure {destination}")
        self.stream = stream
        if self._stalls:
            await trio.sleep_forever()
        return stream

    async def authenticate(self, connection: RpcConnection) -> None:
        self.seen.append("authenticate")
        await connection.negotiate()
        if self._refuses:
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "wrong password")


def test_a_connection_is_secured_then_authenticated_then_negotiated() -> None:
    async def story(world: World, node: ScriptedNode) -> None:
        security = Watched()
        async with open_connection(
            world.client_env(), DESTINATION, RpcSettings(client_id="c"), security
        ) as connection:
            assert security.seen == ["secure node-2:9093", "authenticate"]
            assert node.count(ApiKey.API_VERSIONS) == 1, "the authentication's own is not repeated"
            await connection.request(BeginQuorumEpochRequest(), BeginQuorumEpochResponse)

    tell(story)


def test_a_peer_that_refuses_who_we_are_is_told_with_its_own_code() -> None:
    async def story(world: World, node: ScriptedNode) -> None:
        with pytest.raises(KafkaError, match="wrong password") as caught:
            async with open_connection(
                world.client_env(), DESTINATION, RpcSettings(client_id="c"), Watched(refuses=True)
            ):
                pass
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED

    tell(story)


def test_a_stalled_handshake_ends_by_the_deadline_of_connecting_and_leaves_no_stream_open() -> None:
    async def story(world: World, node: ScriptedNode) -> None:
        security = Watched(stalls=True)
        with pytest.raises(TimeoutError, match="within 3000 ms"):
            async with open_connection(
                world.client_env(),
                DESTINATION,
                RpcSettings(client_id="c", connect_timeout_ms=3_000),
                security,
            ):
                pass
        assert trio.current_time() == pytest.approx(3)
        assert security.stream is not None
        with pytest.raises(OSError, match="closed on our side"):
            await security.stream.receive_into(bytearray(1))

    tell(story)
