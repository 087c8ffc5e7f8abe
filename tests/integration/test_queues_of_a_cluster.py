"""A queue is on three nodes, of which some are killed (KIP-932).

No record is lost, none is accepted twice, and a repeated delivery says so.

More consumers than partitions take from it. The same story runs against tidelog's cluster, one of
both products, and in a long run Apache Kafka's. In the cluster of both one node of each dies: what
it led and coordinated, and the state of the queue that it kept, is another node's from then on.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
import trio

from log_service.client import (
    Admin,
    BlockingAdmin,
    ConfigResource,
    ItemsFailed,
    KafkaError,
    NewTopic,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import ClusterNodes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

PARTITIONS = 3
CONSUMERS = 5
RECORDS = 600
PROPERTIES = {
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
}
Place = tuple[int, int]


BOTH = "both"
KAFKA, OURS = 1, 2


@pytest.fixture(
    scope="module", params=[TIDELOG, pytest.param(APACHE_KAFKA, marks=pytest.mark.repeats), BOTH]
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterNodes]:
    is_mixed = request.param == BOTH
    products = {KAFKA: APACHE_KAFKA, OURS: TIDELOG, 3: TIDELOG} if is_mixed else request.param
    with ClusterNodes(
        products, tmp_path_factory.mktemp("cluster"), PROPERTIES, is_mixed=is_mixed
    ) as nodes:
        yield nodes


def victims_of(cluster: ClusterNodes, topic: str) -> list[int]:
    """The leader of a partition; of a cluster of both products a node of each."""
    return (
        [KAFKA, OURS] if len(set(cluster.products.values())) > 1 else [cluster.leader_of(topic, 0)]
    )


class Book:
    """The written records, and the fate of each."""

    def __init__(self) -> None:
        self.written: set[Place] = set()
        self.delivered: dict[Place, list[int]] = {}
        self.accepted: Counter[Place] = Counter()
        self.refused: Counter[Place] = Counter()
        self._awaited: dict[int, trio.Event] = {}

    def note(self, where: TopicPartition, offsets: Sequence[int], error: KafkaError | None) -> None:
        """A leader took or refused what was said of these records."""
        counts = self.accepted if error is None else self.refused
        counts.update((where.partition, offset) for offset in offsets)
        for count, event in self._awaited.items():
            if len(self.accepted) >= count:
                event.set()

    async def has_accepted(self, count: int) -> None:
        """Wait until so many records are accepted; they may be already."""
        if len(self.accepted) < count:
            await self._awaited.setdefault(count, trio.Event()).wait()


async def write(bootstrap: str, topic: str, book: Book) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(RECORDS):
            delivery = await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
            told = await delivery.wait()
            book.written.add((told.partition, told.offset))


async def work(bootstrap: str, topic: str, book: Book) -> None:
    async with ShareConsumer(
        bootstrap,
        group_id=topic,
        acknowledgement_mode="explicit",
        max_poll_records=20,
        on_acknowledged=book.note,
    ) as consumer:
        await consumer.subscribe([topic])
        while True:
            records = await consumer.poll(timeout_ms=500)
            for record in records:
                book.delivered.setdefault((record.partition, record.offset), []).append(
                    record.delivery_count
                )
            await trio.sleep(0.02)
            with suppress(KafkaError):  # a lock ran out meanwhile
                consumer.accept(records)
            with suppress(ItemsFailed):
                await consumer.commit()


async def until_empty(bootstrap: str, topic: str, book: Book) -> None:
    async with Admin(bootstrap) as admin:
        while True:
            await trio.sleep(0.5)
            with suppress(KafkaError):
                offsets = await admin.list_share_group_offsets(topic)
                is_read = len(book.delivered.keys() & book.written) == RECORDS
                if (
                    is_read
                    and len(offsets) == PARTITIONS
                    and all(each.lag == 0 for each in offsets.values())
                ):
                    return


def test_nodes_that_are_killed_lose_no_record_and_none_is_accepted_twice(
    cluster: ClusterNodes,
) -> None:
    topic, book = "parcels", Book()
    with BlockingAdmin(cluster.bootstrap) as admin:
        admin.create_topics(
            [NewTopic(name=topic, partition_count=PARTITIONS, replication_factor=3)]
        )
        admin.alter_configs({ConfigResource.group(topic): {"share.auto.offset.reset": "earliest"}})
    cluster.wait_until_whole(topic)

    async def story() -> None:
        with trio.fail_after(200):
            async with trio.open_nursery() as workers:
                for _ in range(CONSUMERS):
                    workers.start_soon(work, cluster.bootstrap, topic, book)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(write, cluster.bootstrap, topic, book)
                    await book.has_accepted(RECORDS // 10)
                    victims = await trio.to_thread.run_sync(victims_of, cluster, topic)
                    for number, killed in enumerate(victims):
                        await trio.to_thread.run_sync(cluster.kill, killed)
                        await book.has_accepted(RECORDS * (2 + number) // 4)
                        await trio.to_thread.run_sync(cluster.wait_until_whole, topic)
                await until_empty(cluster.bootstrap, topic, book)
                workers.cancel_scope.cancel()

    trio.run(story)
    assert len(book.written) == RECORDS
    assert book.delivered.keys() >= book.written
    assert set(book.accepted.values()) == {1}
    # Said and stored, and the leader died before it told.
    assert book.written - book.accepted.keys() <= book.refused.keys()
    assert max(count for counts in book.delivered.values() for count in counts) <= 5
