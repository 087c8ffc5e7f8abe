"""Measures a thousand clients that do little: idle connections, and groups that commit each second.

A group is one member on a connection of its own that joins as a classic consumer, heartbeats every
three seconds and commits one partition's offset each second, a thousandth of a second after the
group before it. The members are one trio program over this project's wire layer, the same for both
brokers, because a thousand clients of any library would drown the machine. ``commits per second``
tells whether it kept up.

The brokers had load before, because a JVM spends a multiple on its first thousands of requests. Its
heap has grown by then. So the memory to compare is all that a process has while these clients are
there. Its growth is printed beside it.
"""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from functools import partial

import trio

from benchmarks.broker_process import BenchmarkError
from benchmarks.measured import Asked, Measured
from benchmarks.table import Row, at_most
from log_service.client.connections.env import real_env
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from log_service.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from log_service.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from log_service.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from log_service.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from log_service.rpc.connection import Destination, RpcConnection, RpcSettings, open_connection

CLIENT_COUNT = 1_000
WARM_UP_S, WINDOW_S = 15.0, 10.0
SETTLE_S, MIN_SETTLE_S = 5.0, 1.0
MIN_WINDOW_S = 2.0
COMMIT_EVERY_S, HEARTBEAT_EVERY = 1.0, 3
SESSION_TIMEOUT_MS = 45_000
JOIN_DEADLINE_S = 120.0
RETRY_S = 0.2
NAMED_BY_TOPIC_VERSION = 9
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
NOT_READY = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


class Member:
    """The only member of a group."""

    def __init__(self, connection: RpcConnection, group_id: str, topic: str) -> None:
        self._connection = connection
        self._group_id = group_id
        self._topic = topic
        self._member_id = ""
        self._generation_id = -1
        self.commit_count = 0

    async def join(self) -> None:
        """Join and take the assignment, as often as a coordinator that is being set up requires."""
        while (code := await self._try_to_join()) != ErrorCode.NONE:
            if code != ErrorCode.MEMBER_ID_REQUIRED:
                self._require(code, "JoinGroup", NOT_READY)
                await trio.sleep(RETRY_S)
        assignment = SyncGroupRequestAssignment(member_id=self._member_id)
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )
        self._require(
            (await self._connection.request(request, SyncGroupResponse)).error_code, "SyncGroup"
        )

    async def _try_to_join(self) -> int:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        answer = await self._connection.request(
            request, JoinGroupResponse, waits_ms=SESSION_TIMEOUT_MS
        )
        self._member_id, self._generation_id = answer.member_id, answer.generation_id
        return answer.error_code

    async def commit(self) -> None:
        partition = OffsetCommitRequestPartition(committed_offset=self.commit_count)
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self._generation_id,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=[partition])],
        )
        answer = await self._connection.request(
            request, OffsetCommitResponse, max_version=NAMED_BY_TOPIC_VERSION
        )
        self._require(answer.topics[0].partitions[0].error_code, "OffsetCommit")
        self.commit_count += 1

    async def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._group_id, generation_id=self._generation_id, member_id=self._member_id
        )
        self._require(
            (await self._connection.request(request, HeartbeatResponse)).error_code, "Heartbeat"
        )

    async def leave(self) -> None:
        """Leave, so that the broker has nothing to expire in the next round."""
        identity = MemberIdentity(member_id=self._member_id)
        request = LeaveGroupRequest(group_id=self._group_id, members=[identity])
        self._require(
            (await self._connection.request(request, LeaveGroupResponse)).error_code, "LeaveGroup"
        )

    def _require(
        self,
        code: int,
        name: str,
        expected: set[ErrorCode] | frozenset[ErrorCode] = frozenset((ErrorCode.NONE,)),
    ) -> None:
        if code not in expected:
            raise BenchmarkError(
                f"{name} of group {self._group_id} was answered with {ErrorCode(code).name}"
            )


async def coordinators_of(address: str, group_ids: Sequence[str]) -> dict[str, Destination]:
    """Return the addresses of the groups' coordinators, once each group has one.

    The requests make the broker create the topic of groups.
    """
    host, port = address.split(",", maxsplit=1)[0].split(":")
    found: dict[str, Destination] = {}
    with trio.fail_after(JOIN_DEADLINE_S):
        async with open_connection(
            real_env(), Destination(host=host, port=int(port)), RpcSettings(client_id="bench")
        ) as connection:
            while missing := [group_id for group_id in group_ids if group_id not in found]:
                answer = await connection.request(
                    FindCoordinatorRequest(coordinator_keys=missing), FindCoordinatorResponse
                )
                for each in answer.coordinators:
                    if each.error_code == ErrorCode.NONE:
                        found[each.key] = Destination(host=each.host, port=each.port)
                if len(found) < len(group_ids):
                    await trio.sleep(RETRY_S)
    return found


class Crowd:
    """All groups of a round."""

    def __init__(self, address: str, topic: str, count: int) -> None:
        self._address = address
        self._env = real_env()
        self._topic = topic
        self._count = count
        self._joined: list[Member] = []
        self._everybody_joined = trio.Event()
        self._is_over = trio.Event()

    @property
    def commit_count(self) -> int:
        return sum(member.commit_count for member in self._joined)

    def _group_id(self, index: int) -> str:
        return f"{self._topic}-{index}"

    async def live(self, index: int, coordinator: Destination) -> None:
        """Join, wait for the others, commit and heartbeat until the round is over, and leave."""
        async with open_connection(
            self._env, coordinator, RpcSettings(client_id="bench")
        ) as connection:
            member = Member(connection, self._group_id(index), self._topic)
            await member.join()
            self._joined.append(member)
            if len(self._joined) == self._count:
                self._everybody_joined.set()
            await self._everybody_joined.wait()
            due = trio.current_time() + COMMIT_EVERY_S * index / self._count
            while not self._is_over.is_set():
                with trio.move_on_at(due):
                    await self._is_over.wait()
                    break
                due += COMMIT_EVERY_S
                await member.commit()
                if member.commit_count % HEARTBEAT_EVERY == 0:
                    await member.heartbeat()
            await member.leave()

    async def observe(
        self, broker: Measured, *, warm_up_s: float, window_s: float
    ) -> tuple[float, float, int]:
        """Return the broker's figures while all groups commit.

        These are CPU seconds per second, commits per second, and RSS.
        """
        group_ids = [self._group_id(index) for index in range(self._count)]
        coordinators = await coordinators_of(self._address, group_ids)
        async with trio.open_nursery() as nursery:
            for index, group_id in enumerate(group_ids):
                nursery.start_soon(self.live, index, coordinators[group_id])
            with trio.fail_after(JOIN_DEADLINE_S):
                await self._everybody_joined.wait()
            await trio.sleep(warm_up_s)
            started, cpu_before, commits_before = (
                trio.current_time(),
                broker.cpu_s(),
                self.commit_count,
            )
            await trio.sleep(window_s)
            seconds = trio.current_time() - started
            cpu_s, commits, rss_bytes = (
                broker.cpu_s() - cpu_before,
                self.commit_count - commits_before,
                broker.rss_bytes(),
            )
            self._is_over.set()
        return cpu_s / seconds, commits / seconds, rss_bytes


def observe_groups(
    broker: Measured, topic: str, count: int, bench: Asked
) -> tuple[float, float, int]:
    crowd = Crowd(broker.address, topic, count)
    observe = partial(
        crowd.observe, broker, warm_up_s=WARM_UP_S * bench.scale, window_s=window_s(bench)
    )
    try:
        return trio.run(observe)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def window_s(bench: Asked) -> float:
    return max(MIN_WINDOW_S, WINDOW_S * bench.scale)


@contextlib.contextmanager
def idle_connections(address: str, count: int) -> Iterator[None]:
    """Open connections that ask for the broker's versions and then stay silent.

    Every client asks for them first.
    """
    host, port = address.split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(
                socket.create_connection((host, int(port)), timeout=10)
            )
            connection.sendall(API_VERSIONS_REQUEST)
            if not connection.recv(64 << 10):
                raise BenchmarkError("the broker closed a connection")
        yield


def idle_connection_rows(broker: Measured, count: int, bench: Asked) -> list[Row]:
    name = f"{count:,} idle connections"
    rss_before = broker.rss_bytes()
    with idle_connections(broker.address, count):
        time.sleep(max(MIN_SETTLE_S, SETTLE_S * bench.scale))
        started, cpu_before = time.monotonic(), broker.cpu_s()
        time.sleep(window_s(bench))
        cpu_share = (broker.cpu_s() - cpu_before) / (time.monotonic() - started)
        rss = broker.rss_bytes()
    return [
        Row(
            figure=f"{name}, broker CPU",
            unit="ms per s",
            rounds=(cpu_share * 1e3,),
            goal=at_most(1.0),
        ),
        Row(figure=f"{name}, RSS", unit="MB", rounds=(rss / 1e6,), goal=at_most(1.0)),
        Row(figure=f"  growth of RSS with {name}", unit="MB", rounds=((rss - rss_before) / 1e6,)),
    ]


def group_rows(broker: Measured, count: int, bench: Asked) -> list[Row]:
    name = f"{count:,} groups committing each second"
    with broker.topic() as topic:
        rss_before = broker.rss_bytes()
        cpu_share, commits, rss = observe_groups(broker, topic, count, bench)
    return [
        Row(
            figure=f"{name}, broker CPU",
            unit="ms per s",
            rounds=(cpu_share * 1e3,),
            goal=at_most(1.0),
        ),
        Row(figure=f"{name}, RSS", unit="MB", rounds=(rss / 1e6,), goal=at_most(1.0)),
        Row(figure=f"  growth of RSS with {name}", unit="MB", rounds=((rss - rss_before) / 1e6,)),
        Row(figure=f"  {name}: commits per second", unit="1/s", rounds=(commits,)),
    ]


def measure(broker: Measured, bench: Asked) -> list[Row]:
    """Measure one round."""
    return [
        *idle_connection_rows(broker, client_count(bench), bench),
        *measure_groups(broker, bench),
    ]


def measure_groups(broker: Measured, bench: Asked) -> list[Row]:
    """Measure one round of the groups alone."""
    return group_rows(broker, client_count(bench), bench)


def client_count(bench: Asked) -> int:
    return bench.count(CLIENT_COUNT, at_least=10)
