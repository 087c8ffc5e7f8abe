"""Measures rebalances and heartbeats of one group of many members, in both group protocols.

The figures are the time of a rebalance, and the broker's cost of heartbeats. A rebalance begins
when a member leaves, and is over when all others have heard of it and own all partitions again.
Members send heartbeats far more often than clients do, ``BEATS_PER_SECOND`` all together, so that
not their intervals are measured. The cost of heartbeats is measured with one every three seconds
from each member, as clients send them.

The members are one trio program over this project's wire layer, the same for both brokers. Each has
a connection of its own. In the classic protocol the leading member divides the partitions, one
after the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from uuid import UUID, uuid4

import trio

from benchmarks.broker_process import BenchmarkError
from benchmarks.groups import NOT_READY, RETRY_S, WINDOW_S, coordinators_of
from benchmarks.measured import Asked, Measured
from benchmarks.table import Row, at_most
from log_service.client.connections.env import real_env
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
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
from log_service.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from log_service.rpc.connection import Destination, RpcConnection, RpcSettings, open_connection

MEMBER_COUNTS = (10, 100, 1_000)
BEATS_PER_SECOND = 1_000
MIN_PAUSE_S = 0.02
CONNECTING_COUNT = 20
"""The most members that connect at once.

It is below a listener's queue (``socket.listen.backlog.size``, 50), because a busy broker accepts
later.
"""
USUAL_PAUSE_S = 3.0
REBALANCE_COUNT = 5
MIN_WINDOW_S = 3.0
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
DEADLINE_S = 240.0
CLOSING_S = 20.0


class Member(ABC):
    """One member of the group.

    ``epoch`` is its generation or member epoch, and ``owned`` the partitions that it has.
    """

    def __init__(
        self, connection: RpcConnection, group_id: str, topic: str, partition_count: int
    ) -> None:
        self.connection = connection
        self.group_id = group_id
        self.topic = topic
        self.partition_count = partition_count
        self.member_id = ""
        self.epoch = -1
        self.owned: frozenset[int] = frozenset()

    @abstractmethod
    async def join(self) -> None:
        """Become a member."""

    @abstractmethod
    async def beat(self) -> None:
        """Send one heartbeat, and do what its response asks for."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group."""

    def refused(self, name: str, code: int) -> BenchmarkError:
        """Return an error that names the refused request."""
        return BenchmarkError(
            f"{name} of group {self.group_id} was answered with {ErrorCode.of(code).name}"
        )


class ClassicMember(Member):
    """A member of the classic protocol."""

    async def join(self) -> None:
        while not await self._try_to_join():
            pass

    async def _try_to_join(self) -> bool:
        join = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        joined = await self.connection.request(
            join, JoinGroupResponse, waits_ms=REBALANCE_TIMEOUT_MS
        )
        self.member_id = joined.member_id or self.member_id
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return False
        if joined.error_code in NOT_READY:
            await trio.sleep(RETRY_S)
            return False
        if joined.error_code != ErrorCode.NONE:
            raise self.refused("JoinGroup", joined.error_code)
        members = (
            [each.member_id for each in joined.members] if joined.leader == self.member_id else []
        )
        sync = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=self._divided(members),
        )
        synced = await self.connection.request(
            sync, SyncGroupResponse, waits_ms=REBALANCE_TIMEOUT_MS
        )
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        if synced.error_code != ErrorCode.NONE:
            raise self.refused("SyncGroup", synced.error_code)
        self.owned = frozenset(
            int(text) for text in bytes(synced.assignment).decode().split(",") if text
        )
        self.epoch = joined.generation_id
        return True

    def _divided(self, members: Sequence[str]) -> list[SyncGroupRequestAssignment]:
        """Divide the partitions in a form of the members' own.

        The broker does not look inside.
        """
        divided = []
        for place, member_id in enumerate(members):
            mine = ",".join(
                str(number) for number in range(place, self.partition_count, len(members))
            )
            divided.append(
                SyncGroupRequestAssignment(member_id=member_id, assignment=mine.encode())
            )
        return divided

    async def beat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.epoch, member_id=self.member_id
        )
        code = (await self.connection.request(request, HeartbeatResponse)).error_code
        if code in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}:
            await self.join()
        elif code != ErrorCode.NONE:
            raise self.refused("Heartbeat", code)

    async def leave(self) -> None:
        identity = MemberIdentity(member_id=self.member_id)
        await self.connection.request(
            LeaveGroupRequest(group_id=self.group_id, members=[identity]), LeaveGroupResponse
        )


class ConsumerMember(Member):
    """A member of the protocol of KIP-848, in which the broker divides.

    The next heartbeat follows at once on each one that reports a change.
    """

    def __init__(
        self, connection: RpcConnection, group_id: str, topic: str, partition_count: int
    ) -> None:
        super().__init__(connection, group_id, topic, partition_count)
        self.member_id = str(uuid4())
        self.epoch = 0
        self._topic_id = UUID(int=0)

    async def join(self) -> None:
        while not await self._tell(subscribed=[self.topic], owned=[]):  # noqa: ASYNC110 - the broker makes it so
            await trio.sleep(RETRY_S)

    async def beat(self) -> None:
        before = self.owned
        await self._tell()
        while self.owned != before:
            before = self.owned
            await self._tell(owned=self._owned())

    async def leave(self) -> None:
        self.epoch = -1
        await self._tell()

    def _owned(self) -> list[RequestTopicPartitions]:
        return (
            [RequestTopicPartitions(topic_id=self._topic_id, partitions=sorted(self.owned))]
            if self.owned
            else []
        )

    async def _tell(
        self,
        *,
        subscribed: list[str] | None = None,
        owned: list[RequestTopicPartitions] | None = None,
    ) -> bool:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if subscribed else -1,
            subscribed_topic_names=subscribed,
            topic_partitions=owned,
        )
        told = await self.connection.request(request, ConsumerGroupHeartbeatResponse)
        if told.error_code in NOT_READY:
            return False
        if told.error_code != ErrorCode.NONE:
            raise self.refused("ConsumerGroupHeartbeat", told.error_code)
        self.epoch = told.member_epoch
        if told.assignment is not None:
            self.owned = frozenset(
                number for each in told.assignment.topic_partitions for number in each.partitions
            )
            self._topic_id = next(
                (each.topic_id for each in told.assignment.topic_partitions), self._topic_id
            )
        return True


PROTOCOLS: dict[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}


class Group:
    """All members of one group, and whether it is at rest."""

    def __init__(self, kind: type[Member], address: str, topic: str, count: int) -> None:
        self._address = address
        self._kind = kind
        self._topic = topic
        self._group_id = f"{topic}-group"
        self._count = count
        self._members: dict[int, Member] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._has_changed = trio.Event()
        self._doors = trio.CapacityLimiter(CONNECTING_COUNT)
        self.pause_s = max(MIN_PAUSE_S, count / BEATS_PER_SECOND)

    async def live(self, index: int, coordinator: Destination) -> None:
        """Be a member until it is told to leave."""
        async with AsyncExitStack() as stack:
            async with self._doors:
                opened = open_connection(real_env(), coordinator, RpcSettings(client_id="bench"))
                member = self._kind(
                    await stack.enter_async_context(opened),
                    self._group_id,
                    self._topic,
                    self._count,
                )
            await member.join()
            self._members[index] = member
            with trio.CancelScope() as self._scopes[index]:
                while True:
                    self._has_changed.set()
                    await trio.sleep(self.pause_s)
                    await member.beat()
            del self._members[index]
            await member.leave()

    def is_at_rest(self) -> bool:
        """Return whether all members are of one generation, and own each partition once."""
        owned = [number for member in self._members.values() for number in member.owned]
        return len({member.epoch for member in self._members.values()}) == 1 and sorted(
            owned
        ) == list(range(self._count))

    async def rest(self, count: int, *, after_epoch: int) -> None:
        """Wait until so many members are at rest in a later epoch."""
        while not (
            len(self._members) == count
            and min(member.epoch for member in self._members.values()) > after_epoch
            and self.is_at_rest()
        ):
            self._has_changed = trio.Event()
            await self._has_changed.wait()

    async def measure(
        self, broker: Measured, rebalance_count: int, window_s: float
    ) -> tuple[list[float], float]:
        """Return the seconds of each rebalance, and the broker's CPU seconds per second.

        The CPU is that while only heartbeats come.
        """
        times_s = []
        coordinator = (await coordinators_of(self._address, [self._group_id]))[self._group_id]
        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as nursery:
                for index in range(self._count):
                    nursery.start_soon(self.live, index, coordinator)
                await self.rest(self._count, after_epoch=-1)
                for number in range(rebalance_count):
                    epoch, began = next(iter(self._members.values())).epoch, trio.current_time()
                    self._scopes[number].cancel()
                    await self.rest(self._count - number - 1, after_epoch=epoch)
                    times_s.append(trio.current_time() - began)
                self.pause_s = USUAL_PAUSE_S
                await trio.sleep(USUAL_PAUSE_S)
                began, cpu_before_s = trio.current_time(), broker.cpu_s()
                await trio.sleep(window_s)
                share = (broker.cpu_s() - cpu_before_s) / (trio.current_time() - began)
                with trio.move_on_after(CLOSING_S):
                    for scope in self._scopes.values():
                        scope.cancel()
                    while self._members:  # noqa: ASYNC110 - each has a connection of its own
                        await trio.sleep(RETRY_S)
                nursery.cancel_scope.cancel()
        return times_s, share


def group_rows(broker: Measured, protocol: str, count: int, bench: Asked) -> list[Row]:
    """Measure one group."""
    rebalance_count = max(1, min(REBALANCE_COUNT, count // 2))
    with broker.topic(count) as topic:
        group = Group(PROTOCOLS[protocol], broker.address, topic, count)
        measure = partial(
            group.measure, broker, rebalance_count, max(MIN_WINDOW_S, WINDOW_S * bench.scale)
        )
        try:
            times_s, share = trio.run(measure)
        except BaseExceptionGroup as found:
            raise found.exceptions[0] from None
    name = f"{count:,} members, {protocol}"
    return [
        Row(
            figure=f"rebalance of {name}",
            unit="ms",
            rounds=(sorted(times_s)[len(times_s) // 2] * 1e3,),
            goal=at_most(0.75),
        ),
        Row(
            figure=f"heartbeats of {name}, broker CPU",
            unit="ms per s",
            rounds=(share * 1e3,),
            goal=at_most(1.0),
        ),
    ]


def measure(broker: Measured, bench: Asked) -> list[Row]:
    """Measure one round."""
    counts = sorted({bench.count(count, at_least=4) for count in MEMBER_COUNTS})
    return [
        row
        for protocol in PROTOCOLS
        for count in counts
        for row in group_rows(broker, protocol, count, bench)
    ]
