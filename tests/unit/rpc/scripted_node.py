"""A node at the end of a wire does as a test tells it.

It takes typed requests, and sends typed responses or raw bytes.
"""

import struct
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from log_service.common.env import Connection
from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey, request_class
from log_service.protocol.codec import decode
from log_service.protocol.frames import RequestHeader, encode_response, parse_request_header
from log_service.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from log_service.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from log_service.protocol.messages.vote import VoteResponse
from log_service.protocol.schema import Message
from log_service.rpc.connection import Destination, RpcConnection, RpcSettings, open_connection
from log_service.rpc.pool import ConnectionPool
from tests.helpers.pool import open_pool
from tests.sim.world import World, sim_run
from tests.unit.network.harness import Peer

HOST, PORT = "node-2", 9093
DESTINATION = Destination(host=HOST, port=PORT)
RANGES = {ApiKey.API_VERSIONS: (0, 4), ApiKey.VOTE: (0, 2), ApiKey.BEGIN_QUORUM_EPOCH: (0, 1)}
HANG_UP = b"hang up"
SILENCE = b""

Reply = Message | bytes


class ScriptedNode:
    """``replies`` holds, by API, a response, or bytes as they are.

    HANG_UP closes, SILENCE sends nothing.
    """

    def __init__(self, world: World) -> None:
        self.network = world.network.host(HOST)
        self.requests: list[tuple[RequestHeader, Any]] = []
        self.accepted_at: list[float] = []
        self.ranges = dict(RANGES)
        self.is_old = False
        self.hangs_up_after_versions = False
        self.replies: dict[ApiKey, Callable[[RequestHeader], Reply]] = {
            ApiKey.API_VERSIONS: lambda _: self.api_versions(),
            ApiKey.VOTE: lambda _: VoteResponse(),
            ApiKey.BEGIN_QUORUM_EPOCH: lambda _: BeginQuorumEpochResponse(),
        }

    def count(self, key: ApiKey) -> int:
        return sum(header.api_key is key for header, _ in self.requests)

    def api_versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.ranges.items()
            ]
        )

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        listener = await self.network.listen(HOST, PORT)
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                connection = await listener.accept()
                self.accepted_at.append(trio.current_time())
                nursery.start_soon(self._serve, connection)

    async def _serve(self, connection: Connection) -> None:
        peer = Peer(connection)
        try:
            while (frame := await peer.receive()) is not None:
                await self._respond(connection, frame)
        except OSError:
            connection.close()

    async def _respond(self, connection: Connection, frame: bytes) -> None:
        header, position = parse_request_header_of_any(frame)
        request, _ = decode(request_class(header.api_key), header.api_version, frame, position)
        self.requests.append((header, request))
        reply = self.replies[header.api_key](header)
        if header.api_key is ApiKey.API_VERSIONS and self.is_old and header.api_version:
            reply = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            header = header._replace(api_version=0)
        if reply == HANG_UP:
            raise OSError("scripted")
        chunks: Any = (
            [reply]
            if isinstance(reply, bytes)
            else encode_response(header.api_key, header.api_version, header.correlation_id, reply)
        )
        await connection.send_gathered(chunks)
        if header.api_key is ApiKey.API_VERSIONS and self.hangs_up_after_versions:
            raise OSError("scripted")


def encoded(header: RequestHeader, reply: Reply) -> Any:
    if isinstance(reply, bytes):
        return [reply]
    return encode_response(header.api_key, header.api_version, header.correlation_id, reply)


def parse_request_header_of_any(frame: bytes) -> tuple[RequestHeader, int]:
    """Return (header, offset of the body).

    Requests between nodes, which no listener of clients takes, are read, too.
    """
    key, version, correlation_id, size = struct.unpack_from(">hhih", frame)
    if key == ApiKey.API_VERSIONS:
        return parse_request_header(frame)
    is_flexible = key == ApiKey.VOTE or version >= 1
    header = RequestHeader(ApiKey(key), version, correlation_id, frame[10 : 10 + size].decode())
    return header, 10 + size + is_flexible


def tell(story: Callable[[World, ScriptedNode], Awaitable[None]], seed: int = 1) -> None:
    """Run a story beside a node in virtual time."""

    async def main(world: World) -> None:
        node = ScriptedNode(world)
        async with trio.open_nursery() as nursery:
            await nursery.start(node.run)
            with trio.fail_after(10_000):
                await story(world, node)
            nursery.cancel_scope.cancel()

    sim_run(seed, main)


def tell_with_connection(
    story: Callable[[RpcConnection, ScriptedNode], Awaitable[None]], **settings: Any
) -> None:
    async def connected(world: World, node: ScriptedNode) -> None:
        async with open_connection(
            world.client_env(), DESTINATION, RpcSettings(client_id="raft-client-1", **settings)
        ) as connection:
            await story(connection, node)

    tell(connected)


def tell_with_pool(
    story: Callable[[ConnectionPool, World, ScriptedNode], Awaitable[None]],
    *,
    seed: int = 1,
    **settings: Any,
) -> None:
    async def pooled(world: World, node: ScriptedNode) -> None:
        async with open_pool(
            world.client_env(), RpcSettings(client_id="raft-client-1", **settings)
        ) as pool:
            await story(pool, world, node)

    tell(pooled, seed)
