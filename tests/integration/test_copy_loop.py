"""Two copiers in one group consume, transform and produce exactly once.

Brokers and copiers end at the worst moment.

Every record of the input is in the output once and in order, for readers of committed records, and
the group's offsets are at its end. Brokers are killed (kill -9) one after the other; copiers are
cut off in the middle of a transaction, and another one with the same ``transactional_id`` goes on.
Every node of tidelog is killed; of Apache Kafka, where only the client is in question, those that
the client talks to most: the leader of what is written, and the group's coordinator.
``COPY_BOUNCES=100`` (``make copy-loop``) adds so many kills of a broker that is drawn, each with
copiers cut off around it; ``COPY_SEED`` draws other brokers, copiers and moments.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest
import trio

from log_service.client import (
    BlockingAdmin,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
    TransactionAbortable,
)
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, SESSION_SECONDS, ClusterNodes

BOUNCES = int(os.environ.get("COPY_BOUNCES", "0"))
SEED = int(os.environ.get("COPY_SEED", "7"))
BOUNCE_SECONDS = 60
"""How long one bounce may take, on a busy machine."""

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600 + BOUNCE_SECONDS * BOUNCES)]

SIDES = {
    "tidelog": (TIDELOG, 2),
    "kafka, version 2": (APACHE_KAFKA, 2),
    "kafka, version 0": (APACHE_KAFKA, 0),
}
REPEATING = {"kafka, version 2", "kafka, version 0"}
"""Transactions on Apache Kafka are in ``test_client_transactions``; its nodes come and go in
``test_client_of_a_cluster``.
"""
PARTITIONS = 3
PAUSE_SECONDS = of_a_run(0.03, whole=0.01)
CUTS = 2
"""After each kill."""
SETTINGS: dict[str, Any] = {
    "request_timeout_ms": 5_000,
    "delivery_timeout_ms": 30_000,
    "metadata_max_age_ms": 5_000,
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(side, marks=pytest.mark.repeats) if side in REPEATING else side
        for side in SIDES
    ],
)
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterNodes]:
    name, level = SIDES[request.param]
    unserved = () if level == 2 else ("transaction.version",)
    directory = tmp_path_factory.mktemp("cluster")
    with ClusterNodes(name, directory, is_mixed=level != 2, unserved=unserved) as cluster:
        yield cluster


class Copiers:
    """Copies topic ``in`` to topic ``out``, transformed, until all of it was seen to be committed."""

    def __init__(self, nodes: ClusterNodes) -> None:
        self.nodes = nodes
        self.random = Random(SEED)
        self.aborted_count = 0
        self.committed_count = 0
        self.opened_count = 0
        self.scopes: dict[str, trio.CancelScope] = {}

    async def run(self, transactional_id: str) -> None:
        """Copy for ever; whatever ends one copier, the next one of the same id goes on."""
        while True:
            with trio.CancelScope() as self.scopes[transactional_id], suppress(KafkaError):
                await self.copy(transactional_id)
            await trio.sleep(0.2)

    async def copy(self, transactional_id: str) -> None:
        servers = self.nodes.bootstrap
        async with (
            Producer(
                servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=15_000,
                **SETTINGS,
            ) as producer,
            Consumer(
                servers,
                group_id="copy",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                session_timeout_ms=6_000,
                heartbeat_interval_ms=1_000,
                max_poll_records=40,
                request_timeout_ms=5_000,
            ) as consumer,
        ):
            self.opened_count += 1
            await producer.init_transactions()
            await consumer.subscribe(["in"])
            while True:
                records = await consumer.poll(timeout_ms=500)
                if not records:
                    continue
                try:
                    async with producer.transaction():
                        for record in records:
                            await producer.send(
                                "out",
                                b"copy of " + (record.value or b""),
                                partition=record.partition,
                            )
                            await trio.sleep(0.002)
                        await producer.send_offsets_to_transaction(
                            consumer.consumed(), consumer.group_metadata()
                        )
                except TransactionAbortable:
                    self.aborted_count += 1
                    await consumer.seek_to_committed()
                else:
                    self.committed_count += 1

    def cut(self) -> None:
        """End one copier where it is, as a crash does."""
        self.scopes[self.random.choice(sorted(self.scopes))].cancel()


def prepare(nodes: ClusterNodes) -> None:
    configs = {"min.insync.replicas": "2"}
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.create_topics(
            [
                NewTopic(
                    name=name, partition_count=PARTITIONS, replication_factor=3, configs=configs
                )
                for name in ("in", "out")
            ]
        )


class Feed:
    """Sends numbered records to the input until it is told to end."""

    def __init__(self, nodes: ClusterNodes) -> None:
        self.nodes = nodes
        self.count = 0
        self.is_ending = False
        self.has_ended = trio.Event()

    async def run(self) -> None:
        async with Producer(self.nodes.bootstrap, request_timeout_ms=5_000) as producer:
            deliveries = []
            while not self.is_ending:
                deliveries.append(
                    await producer.send("in", b"%d" % self.count, partition=self.count % PARTITIONS)
                )
                self.count += 1
                await trio.sleep(PAUSE_SECONDS)
            for delivery in deliveries:
                await delivery.wait()
        self.has_ended.set()


async def is_all_committed(nodes: ClusterNodes) -> bool:
    def ask() -> bool:
        with BlockingAdmin(nodes.bootstrap) as admin:
            ends = {
                where: each.high_watermark for where, each in admin.describe_offsets(["in"]).items()
            }
            committed = admin.list_group_offsets("copy", list(ends), is_stable_required=True)
            return all(
                where in committed and committed[where].offset == end for where, end in ends.items()
            )

    return await trio.to_thread.run_sync(ask)


async def read_out(nodes: ClusterNodes) -> list[bytes]:
    """Return the records that readers of committed records see, once every transaction has ended."""
    partitions = [TopicPartition("out", number) for number in range(PARTITIONS)]
    found: list[bytes] = []
    async with Consumer(
        nodes.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        ends = {where: each.last_stable_offset for where, each in (await offsets(nodes)).items()}
        while any([await consumer.position(where) < ends[where] for where in partitions]):
            found += [record.value or b"" for record in await consumer.poll()]
    return found


async def offsets(nodes: ClusterNodes) -> dict[TopicPartition, Any]:
    """Return the end of ``out``, once no transaction is open.

    A copier that was cut off has its timeout.
    """
    while True:
        with BlockingAdmin(nodes.bootstrap) as admin:
            told = await trio.to_thread.run_sync(admin.describe_offsets, ["out"])
        if all(each.last_stable_offset == each.high_watermark for each in told.values()):
            return told
        await trio.sleep(0.5)


def victims_of(nodes: ClusterNodes) -> list[Callable[[], int]]:
    """Return the nodes to kill.

    Of tidelog they are every node and then the leader again, and of Kafka a leader and a
    coordinator.
    """
    leader, coordinator = partial(nodes.leader_of, "out", 0), partial(nodes.coordinator_of, "copy")
    if TIDELOG not in nodes.products.values():
        return [leader, coordinator]
    return [*(partial(int, node_id) for node_id in NODE_IDS), leader]


async def disturb(nodes: ClusterNodes, copiers: Copiers) -> None:
    """Kill nodes, with copiers cut off between; each time the copying has to go on.

    At the end a leader hangs for longer than its session, and comes back.
    """
    drawn: list[Callable[[], int]] = [
        partial(int, victim) for victim in copiers.random.choices(NODE_IDS, k=BOUNCES)
    ]
    for number, find in enumerate([*victims_of(nodes), *drawn], 1):
        await bounce(nodes, copiers, await trio.to_thread.run_sync(find))
        if BOUNCES:
            sys.stderr.write(
                f"bounce {number}: {copiers.committed_count} committed, {copiers.aborted_count} aborted\n"
            )
    victim, before = (
        await trio.to_thread.run_sync(nodes.leader_of, "out", 0),
        copiers.committed_count,
    )
    nodes.pause(victim)
    await trio.sleep(SESSION_SECONDS * 2)
    while copiers.committed_count < before + 3:  # noqa: ASYNC110 - brokers and copiers change it
        await trio.sleep(0.05)
    nodes.resume(victim)


async def bounce(nodes: ClusterNodes, copiers: Copiers, victim: int) -> None:
    """Kill a node and cut copiers off while it is away, and after it is back.

    The copying goes on all the while.
    """
    before = copiers.committed_count
    await trio.to_thread.run_sync(nodes.kill, victim)
    await trio.sleep(copiers.random.uniform(0.2, 1.5))
    copiers.cut()
    while copiers.committed_count < before + 3:  # noqa: ASYNC110 - brokers and copiers change it
        await trio.sleep(0.05)
    await trio.to_thread.run_sync(nodes.start, victim)
    await trio.to_thread.run_sync(nodes.wait_until_whole, "in", "out")
    for _ in range(CUTS):
        await trio.sleep(copiers.random.uniform(0.1, 0.6))
        copiers.cut()


def test_every_record_is_copied_once(nodes: ClusterNodes) -> None:
    prepare(nodes)
    copiers, feed = Copiers(nodes), Feed(nodes)

    async def main() -> list[bytes]:
        with trio.fail_after(500 + BOUNCE_SECONDS * BOUNCES):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(feed.run)
                nursery.start_soon(copiers.run, "copy-0")
                nursery.start_soon(copiers.run, "copy-1")
                await disturb(nodes, copiers)
                feed.is_ending = True
                await feed.has_ended.wait()
                while not await is_all_committed(nodes):  # noqa: ASYNC110 - the copiers change it
                    await trio.sleep(0.5)
                nursery.cancel_scope.cancel()
            return await read_out(nodes)

    found = trio.run(main)
    expected = Counter(b"copy of %d" % number for number in range(feed.count))
    assert Counter(found) == expected
    for partition in range(PARTITIONS):
        numbers = [int(value.rpartition(b" ")[2]) for value in found]
        assert [number for number in numbers if number % PARTITIONS == partition] == list(
            range(partition, feed.count, PARTITIONS)
        )
    assert copiers.opened_count >= 2 + len(victims_of(nodes))
