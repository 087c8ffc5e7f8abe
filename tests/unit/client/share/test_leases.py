"""Leases of records at a real node in virtual time: how each of them ends (KIP-932)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

import trio

from log_service.client import (
    AcknowledgeType,
    Admin,
    ConfigResource,
    ErrorCode,
    KafkaError,
    Lease,
    LeaseToken,
    NewTopic,
    Producer,
    ShareLeases,
)
from log_service.client.share.leases import ACQUIRE_GRACE_MS
from log_service.client.share.silent_nodes import SILENT_S
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, node_properties, tell_cluster

CLIENT_HOST = "client"
ONE_COPY = {
    "offsets_topic_replication_factor": "1",
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The group q over topic t, which holds five records."""

    cluster: Cluster

    def leases(self) -> ShareLeases:
        """Return a client of its own, as another process has one."""
        return ShareLeases(f"{host_of(1)}:{BROKER_PORT}", env=self.cluster.world.client_env())

    async def acquire(self, leases: ShareLeases, wait_ms: int = 60_000) -> Lease:
        """Acquire all five records."""
        lease = await leases.acquire("q", "t", max_records=5, wait_ms=wait_ms)
        assert lease is not None
        assert [record.value for record, _ in lease.records] == [b"%d" % n for n in range(5)]
        return lease


async def codes(
    leases: ShareLeases, tokens: list[LeaseToken], kind: AcknowledgeType = AcknowledgeType.ACCEPT
) -> list[ErrorCode | None]:
    """Settle records. Return the error of each, None if it was settled."""
    failed = await leases.settle("q", "t", tokens, kind)
    return [failed[each].code if each in failed else None for each in tokens]


def tell(story: Callable[[Queue], Awaitable[None]]) -> None:
    """Run a story with one node."""

    async def main(cluster: Cluster) -> None:
        servers, env = f"{host_of(1)}:{BROKER_PORT}", cluster.world.client_env()
        async with Admin(servers, env=env) as admin, Producer(servers, env=env) as producer:
            await admin.create_topics([NewTopic(name="t", partition_count=1)])
            group = ConfigResource.group("q")
            await admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
            for number in range(5):
                await producer.send("t", b"%d" % number)
            await producer.flush()
        with trio.fail_after(1_000):
            await story(Queue(cluster=cluster))

    tell_cluster(main, {1: node_properties(1, (1,), **ONE_COPY)})


def tokens_of(lease: Lease) -> list[LeaseToken]:
    """Return the tokens of a lease's records."""
    return [token for _, token in lease.records]


def test_a_lease_expires_with_its_locks() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as one, queue.leases() as other:
            lease = await queue.acquire(one)
            again = await queue.acquire(other, wait_ms=2 * lease.lock_ms)
            assert {record.delivery_count for record, _ in again.records} == {2}
            await lease.ended.wait()
            over = await codes(other, tokens_of(lease))
            assert None not in over
            assert await codes(one, tokens_of(again)) == [None] * 5

    tell(story)


def test_a_lease_that_another_process_extends_does_not_expire() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as one, queue.leases() as other:
            lease = await queue.acquire(one)
            for _ in range(3):
                await trio.sleep(lease.lock_ms / 1_000 * 0.7)
                extended = await codes(other, tokens_of(lease), AcknowledgeType.RENEW)
                assert extended == [None] * 5
            assert not lease.ended.is_set()
            assert await codes(other, tokens_of(lease)) == [None] * 5

    tell(story)


def test_closing_releases_what_is_leased() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as other:
            async with queue.leases() as one:
                lease = await queue.acquire(one)
            began_s = trio.current_time()
            again = await queue.acquire(other)
            assert trio.current_time() - began_s < lease.lock_ms / 1_000
            assert {record.delivery_count for record, _ in again.records} == {2}

    tell(story)


def test_closing_ends_the_acquires_that_wait() -> None:
    async def story(queue: Queue) -> None:
        refused: list[KafkaError] = []

        async def wait(leases: ShareLeases) -> None:
            try:
                await leases.acquire("q", "t", max_records=5, wait_ms=60_000)
            except KafkaError as error:
                refused.append(error)

        async with queue.leases() as one, trio.open_nursery() as nursery:
            await queue.acquire(one)
            async with queue.leases() as two:
                nursery.start_soon(wait, two)
                await trio.sleep(5)
            await wait(two)
        assert [error.code for error in refused] == [ErrorCode.INVALID_REQUEST] * 2
        assert "closed" in str(refused[0])

    tell(story)


def test_a_wrong_lease_settles_nothing() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as one:
            lease = await queue.acquire(one)
            first, *others = tokens_of(lease)
            stranger = replace(first, member_id="A" * 22)
            behind = replace(first, offset=99)
            assert await codes(one, [stranger]) == [ErrorCode.SHARE_SESSION_NOT_FOUND]
            assert await codes(one, [behind]) == [ErrorCode.INVALID_REQUEST]
            found = await codes(one, [first, behind, *others])
            assert [each is None for each in found] == [True, False, True, True, True, True]

    tell(story)


def test_a_record_is_settled_once() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as one, queue.leases() as other:
            lease = await queue.acquire(one)
            *others, last = tokens_of(lease)
            assert await codes(other, [last]) == [None]
            assert await codes(one, [last]) == [ErrorCode.INVALID_RECORD_STATE]
            found = await codes(other, [last, *others], AcknowledgeType.REJECT)
            assert found == [ErrorCode.INVALID_RECORD_STATE, None, None, None, None]
            assert not lease.ended.is_set(), "the other process has settled the records"
            await lease.ended.wait()
            assert await one.acquire("q", "t", max_records=5, wait_ms=1_000) is None

    tell(story)


def test_a_lease_ends_with_its_last_record() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as one:
            lease = await queue.acquire(one)
            first, *others = tokens_of(lease)
            assert await codes(one, others) == [None] * 4
            assert not lease.ended.is_set()
            began_s = trio.current_time()
            assert await codes(one, [first]) == [None]
            await lease.ended.wait()
            assert trio.current_time() - began_s < lease.lock_ms / 1_000

    tell(story)


def silence(cluster: Cluster, node_id: int) -> None:
    """Hold back everything that a node sends to clients."""
    cluster.world.network.cut(host_of(node_id), CLIENT_HOST)


def test_an_acquire_ends_in_time_although_the_leader_hangs() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as one:
            lease = await queue.acquire(one)
            assert await codes(one, tokens_of(lease), AcknowledgeType.RELEASE) == [None] * 5
            silence(queue.cluster, 1)
            began_s = trio.current_time()
            assert await one.acquire("q", "t", max_records=5, wait_ms=1_000) is None
            took_ms = round((trio.current_time() - began_s) * 1_000)
            assert took_ms <= 1_000 + ACQUIRE_GRACE_MS
            queue.cluster.world.network.heal()
            await queue.acquire(one)

    tell(story)


def test_an_acquire_ends_in_time_although_the_coordinator_hangs() -> None:
    async def story(queue: Queue) -> None:
        async with queue.leases() as one:
            lease = await queue.acquire(one)
            assert await codes(one, tokens_of(lease), AcknowledgeType.RELEASE) == [None] * 5
            silence(queue.cluster, 1)
            began_s = trio.current_time()
            assert await one.acquire("another", "t", max_records=5, wait_ms=0) is None
            assert round((trio.current_time() - began_s) * 1_000) <= ACQUIRE_GRACE_MS

    tell(story)


def test_a_leader_that_hangs_is_asked_after_the_others() -> None:
    """The record is at one leader, and the other hangs: at most one acquire hears of nothing."""

    async def story(cluster: Cluster) -> None:
        servers, env = f"{host_of(1)}:{BROKER_PORT}", cluster.world.client_env()
        async with Admin(servers, env=env) as admin, Producer(servers, env=env) as producer:
            await admin.create_topics([NewTopic(name="t", assignments={0: [1], 1: [2]})])
            group = ConfigResource.group("q")
            await admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
            for number in range(10):
                await producer.send("t", b"%d" % number, partition=0)
            await producer.flush()
        async with ShareLeases(servers, env=env) as leases:
            acquire = partial(leases.acquire, "q", "t", max_records=1)
            found = [await acquire(wait_ms=60_000)]
            silence(cluster, 2)
            found += [await acquire(wait_ms=0) for _ in range(8)]
        assert found.count(None) == 1, "the draws of this seed ask the hanging leader first, once"

    tell_cluster(story)


def test_a_leader_that_hung_is_asked_in_turn_again_after_a_while() -> None:
    async def story(cluster: Cluster) -> None:
        servers, env = f"{host_of(1)}:{BROKER_PORT}", cluster.world.client_env()
        async with Admin(servers, env=env) as admin, Producer(servers, env=env) as producer:
            await admin.create_topics([NewTopic(name="t", assignments={0: [1], 1: [2]})])
            group = ConfigResource.group("q")
            await admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
            for number in range(40):
                await producer.send("t", b"%d" % number, partition=number % 2)
            await producer.flush()
        async with ShareLeases(servers, env=env) as leases:

            async def partitions(count: int) -> set[int]:
                acquired = [
                    await leases.acquire("q", "t", max_records=1, wait_ms=60_000)
                    for _ in range(count)
                ]
                return {lease.records[0][0].partition for lease in acquired if lease is not None}

            assert await partitions(8) == {0, 1}
            silence(cluster, 2)
            while await leases.acquire("q", "t", max_records=1, wait_ms=0) is not None:
                pass
            cluster.world.network.heal()
            assert await partitions(4) == {0}
            await trio.sleep(SILENT_S)
            assert await partitions(8) == {0, 1}

    tell_cluster(story)
