"""A slow node delivers every record of its share groups, however late its turns come.

The process stalls, its share coordinator answers late or refuses, members hang, vanish and wait.
After that one member takes whatever is left. No record may stay acquirable without a delivery.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import ClassVar, cast

import pytest
import trio
from trio.testing import MockClock

from log_service.broker.handlers.share import fetch
from log_service.broker.requests.call import Deferred
from log_service.broker.share.delayed_share_fetch import DelayedShareFetch, Wanted
from log_service.broker.share.led_share_partition import LedSharePartition
from log_service.broker.share.shares import ENDED_PAUSE_MS
from log_service.common.errors import ErrorCode
from log_service.coordinator.share.share_state import ShareKey
from log_service.protocol.messages.share_fetch import ShareFetchResponse
from tests.unit.broker.share.context import (
    ACCEPT,
    REJECT,
    RELEASE,
    Ack,
    Member,
    ShareNode,
    batch,
    tell_shares,
)

PARTITIONS = 3
LOAD_SECONDS = 20
LOCK_MS = 1_000
CALM_SECONDS = 30
"""How long the last member may get nothing while records are left."""
LOOK_SECONDS = 0.05
MOST_LOOKS = ENDED_PAUSE_MS / 1_000 / LOOK_SECONDS + 5
"""How often a fetch may be seen to wait although there is enough. The end of another member's
session holds it for a while.
"""
REFUSALS = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)

Acks = dict[tuple[str, int], list[Ack]]


class Watched(DelayedShareFetch):
    """A share fetch that waits, for the witness to look at."""

    __slots__ = ("deferred", "look_count")
    waiting: ClassVar[list["Watched"]]

    def __init__(
        self,
        by_key: Mapping[ShareKey, LedSharePartition],
        wanted: Wanted,
        deferred: Deferred,
        respond: Callable[[], None],
        expire: Callable[[], None],
    ) -> None:
        super().__init__(by_key, wanted, deferred, respond, expire)
        self.deferred = deferred
        self.look_count = 0
        self.waiting.append(self)


class SlowQueue:
    """One topic, its producers, its members and the faults of one seed."""

    def __init__(self, node: ShareNode, seed: int) -> None:
        self.node = node
        self.rng = Random(seed)
        self.produced = [0] * PARTITIONS

    async def run(self) -> None:
        await self.node.share(partitions=PARTITIONS)
        self.node.configure_group("share.record.lock.duration.ms", str(LOCK_MS))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.produce)
            nursery.start_soon(self.disturb)
            nursery.start_soon(self.witness)
            for _ in range(4):
                nursery.start_soon(self.work)
            await trio.sleep(LOAD_SECONDS)
            self.node.share_states.refusals.clear()
            self.node.share_states.is_holding = True
            nursery.cancel_scope.cancel()
        self.node.configure_group("share.record.lock.duration.ms", "60000")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.witness)
            nursery.start_soon(self.wait)
            await trio.sleep(1)
            self.node.share_states.let_go()
            await trio.sleep(2)
            nursery.cancel_scope.cancel()
        await self.drain()

    async def produce(self) -> None:
        while True:
            index, count = self.rng.randrange(PARTITIONS), self.rng.choice([1, 10, 200])
            await self.node.produce("a", batch(*[b"x"] * count), partition=index)
            self.produced[index] += count
            await trio.sleep(self.rng.choice([0, 0.01, 0.3]))

    async def disturb(self) -> None:
        """Stall the process, and have the share coordinator answer late or not at all."""
        clock, states = cast("MockClock", trio.lowlevel.current_clock()), self.node.share_states
        while True:
            await trio.sleep(self.rng.uniform(0, 2))
            kind = self.rng.choice(["stall", "hold", "refuse"])
            if kind == "stall":
                clock.jump(self.rng.uniform(0.1, 3))
            elif kind == "hold":
                states.is_holding = True
                await trio.sleep(self.rng.uniform(0.1, 3))
                states.let_go()
            else:
                states.refusals.append(self.rng.choice(REFUSALS))

    async def witness(self) -> None:
        """Look for fetches that wait although there is enough for them."""
        while True:
            Watched.waiting = [each for each in Watched.waiting if not each.deferred.is_done]
            for each in Watched.waiting:
                each.look_count = each.look_count + 1 if each.is_ready(self.node.key()) else 0
                assert each.look_count < MOST_LOOKS, (
                    f"a member waits at {trio.current_time():.2f} s for records that are there:"
                    f" {list(self.node.node.shares.partitions.values())}"
                )
            await trio.sleep(LOOK_SECONDS)

    async def wait(self) -> None:
        """Take what there is, and wait for what the others have released."""
        member = self.node.member()
        try:
            while True:
                await member.send(partitions=PARTITIONS, max_wait_ms=600_000)
        finally:
            member.vanish()

    async def work(self) -> None:
        """Live as one member after the other."""
        while True:
            member = self.node.member()
            try:
                for _ in range(self.rng.randrange(1, 30)):
                    if not await self.take(member):
                        break
            finally:
                member.vanish()
            await trio.sleep(self.rng.uniform(0, 0.5))

    async def take(self, member: Member) -> bool:
        """Fetch, and say something of what came. Return whether the session goes on."""
        with trio.move_on_after(self.rng.choice([0.2, 20])):
            response = await member.send(
                partitions=PARTITIONS,
                max_wait_ms=self.rng.choice([0, 500, 5_000]),
                min_bytes=self.rng.choice([1, 1, 2_000]),
                max_records=self.rng.choice([3, 100, 500]),
            )
            await trio.sleep(self.rng.choice([0, 0, 0.1, 3 * LOCK_MS / 1_000]))
            acks = acks_of(response, lambda: self.rng.choice([ACCEPT] * 8 + [RELEASE, REJECT, -1]))
            if response.error_code:
                return False
            if acks:
                response = await member.send(partitions=PARTITIONS, acks=acks, max_records=0)
            return not response.error_code
        return False

    async def drain(self) -> None:
        """Have one member take what is left. Whatever it waits for comes without another request."""
        member = self.node.member()
        assert not (await member.send(partitions=PARTITIONS, max_records=0)).error_code
        while self.starts() != self.produced:
            with trio.move_on_after(CALM_SECONDS) as waiting:
                response = await member.send(partitions=PARTITIONS, max_wait_ms=600_000)
            assert not waiting.cancelled_caught, (
                f"{self.starts()} of {self.produced} are delivered, and no more:"
                f" {list(self.node.node.shares.partitions.values())}"
            )
            assert not response.error_code
            acks = acks_of(response, lambda: ACCEPT)
            assert not (
                await member.send(partitions=PARTITIONS, acks=acks, max_records=0)
            ).error_code

    def starts(self) -> list[int]:
        """Return up to which offset each partition is done."""
        partitions = self.node.node.shares.partitions
        cores = [partitions[self.node.key(index=index)].core for index in range(PARTITIONS)]
        return [0 if core is None else core.start_offset for core in cores]


def acks_of(response: ShareFetchResponse, draw: Callable[[], int]) -> Acks:
    """Return what a member says of acquired records, range by range. -1 says nothing."""
    acks = Acks()
    for topic in response.responses:
        for partition in topic.partitions:
            for each in partition.acquired_records:
                kind = draw()
                if kind >= 0:
                    found = acks.setdefault(("a", partition.partition_index), [])
                    found.append((each.first_offset, each.last_offset, [kind]))
    return acks


@pytest.mark.parametrize("seed", range(4))
def test_no_record_stays_behind_on_a_slow_node(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Watched.waiting = []
    monkeypatch.setattr(fetch, "DelayedShareFetch", Watched)

    async def story(node: ShareNode) -> None:
        await SlowQueue(node, seed).run()

    tell_shares(story, group_share_min_record_lock_duration_ms=str(LOCK_MS))
