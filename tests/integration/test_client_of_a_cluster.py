"""Our client runs beside three nodes that are killed, stopped and paused.

Each acknowledged record is there once, and in order.

The same stories run against tidelog's cluster and Apache Kafka's, some of them there in a long run
alone. Outages are measured in counts (records sent again, records given up), not in seconds,
because the machine that runs the tests is slow now and then.
"""

import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio

from log_service.client import (
    Admin,
    BlockingAdmin,
    ConfigResource,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
)
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, SESSION_SECONDS, ClusterNodes
from tests.integration.confluent import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PARTITIONS = 3
PAUSE_SECONDS = of_a_run(0.01, whole=0.003)
names = itertools.count()


@pytest.fixture(
    scope="module", params=[TIDELOG, pytest.param(APACHE_KAFKA, marks=pytest.mark.repeats)]
)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterNodes]:
    with ClusterNodes(request.param, tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


@pytest.fixture
def topic(cluster: ClusterNodes) -> Iterator[str]:
    """A topic with three replicas of each partition; all nodes run before and after the test."""
    name = f"topic-{next(names)}"
    with BlockingAdmin(cluster.bootstrap) as admin:
        admin.create_topics(
            [
                NewTopic(
                    name=name,
                    partition_count=PARTITIONS,
                    replication_factor=3,
                    configs={"min.insync.replicas": "2"},
                )
            ]
        )
    cluster.wait_until_whole(name)
    yield name
    cluster.wait_until_whole(name)
    cluster.wait_until_told(*NODE_IDS)


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    async def limited() -> Any:
        with trio.fail_after(200):
            return await main()

    return trio.run(limited)


async def beside(blocking: Callable[..., Any], *args: object) -> Any:
    """Call what waits for processes in a thread, so that clients go on."""
    return await trio.to_thread.run_sync(blocking, *args)


class OutOfGroupError(Exception):
    """A commit was refused because the group goes on without its member."""


async def commit(consumer: Consumer, positions: dict[TopicPartition, int]) -> None:
    try:
        await consumer.commit(positions)
    except KafkaError as error:
        if error.code not in {
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
        }:
            raise
        raise OutOfGroupError from error


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - other programs change it
        await trio.sleep(0.02)


class Sending:
    """Sends numbered records to all partitions, some each few milliseconds, until told to end.

    It knows the acknowledged ones with their places.
    """

    def __init__(self, producer: Producer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.acknowledged: dict[int, list[tuple[int, bytes]]] = {
            number: [] for number in range(PARTITIONS)
        }
        self.given_up: list[KafkaError] = []
        self._is_ending = False

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in itertools.count():
                if self._is_ending:
                    break
                delivery = await self.producer.send(
                    self.topic, b"%d" % number, partition=number % PARTITIONS
                )
                nursery.start_soon(self._settle, delivery, b"%d" % number)
                await trio.sleep(PAUSE_SECONDS)

    async def _settle(self, delivery: Any, value: bytes) -> None:
        try:
            metadata = await delivery.wait()
        except KafkaError as error:
            self.given_up.append(error)
        else:
            self.acknowledged[metadata.partition].append((metadata.offset, value))

    def end(self) -> None:
        self._is_ending = True

    async def progress(self) -> None:
        """Wait until each partition has taken ten more records."""
        before = {number: len(settled) for number, settled in self.acknowledged.items()}
        await until(
            lambda: all(
                len(settled) >= before[number] + 10 for number, settled in self.acknowledged.items()
            )
        )


async def sending(
    cluster: ClusterNodes, topic: str, story: Callable[[Sending], Awaitable[None]], **settings: Any
) -> Sending:
    """Run a story while records are sent, and deliver what was sent."""
    async with Producer(cluster.bootstrap, linger_ms=0, **settings) as producer:
        sender = Sending(producer, topic)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sender.run)
            await sender.progress()
            await story(sender)
            await sender.progress()
            sender.end()
        return sender


async def check(cluster: ClusterNodes, sender: Sending) -> None:
    """Check that the log holds the sent records.

    Each acknowledged one is at its offset, nothing is there twice, and all are in order.
    """
    assert sender.given_up == []
    async with Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(sender.topic, number) for number in range(PARTITIONS)])
        expected_count = sum(map(len, sender.acknowledged.values()))
        found: dict[int, list[tuple[int, bytes]]] = {number: [] for number in range(PARTITIONS)}
        for _ in range(expected_count):
            if sum(map(len, found.values())) >= expected_count:
                break
            for record in await consumer.poll():
                found[record.partition].append((record.offset, record.value or b""))
    assert {number: sorted(settled) for number, settled in sender.acknowledged.items()} == found
    for read in found.values():
        values = [int(value) for _, value in read]
        assert values == sorted(set(values)), "each record once, in the order in which it was sent"


# Leaders


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_records_that_were_acknowledged_are_there_once_after_their_leader_is_gone(
    cluster: ClusterNodes, topic: str, how: str
) -> None:
    async def main() -> None:
        async def lose_leaders(sender: Sending) -> None:
            for _ in range(2):
                leader = await beside(cluster.leader_of, topic, 0)
                await beside(getattr(cluster, how), leader)
                await sender.progress()
                await beside(cluster.start, leader)
                await sender.progress()

        sender = await sending(cluster, topic, lose_leaders)
        await check(cluster, sender)

    run(main)


def test_a_leader_that_hangs_is_left_when_its_session_is_over(
    cluster: ClusterNodes, topic: str
) -> None:
    """The client's own patience (request_timeout_ms) is ten times as long as the session."""

    async def main() -> None:
        async def pause(sender: Sending) -> None:
            leader = await beside(cluster.leader_of, topic, 0)
            cluster.pause(leader)
            try:
                with trio.fail_after(SESSION_SECONDS * 6):
                    await sender.progress()
            finally:
                cluster.resume(leader)

        sender = await sending(cluster, topic, pause)
        await check(cluster, sender)

    run(main)


def test_leaders_that_change_places_cost_a_handful_of_retries(
    cluster: ClusterNodes, topic: str
) -> None:
    """The refusal of an old leader names the new one (KIP-951).

    A reassignment puts another broker first, and an election makes it lead.
    """

    async def main() -> None:
        async def move(sender: Sending) -> None:
            async with Admin(cluster.bootstrap) as admin:
                replicas = (await admin.describe_topics([topic]))[topic].partitions[0].replicas
                turned = (*replicas[1:], replicas[0])
                await admin.alter_partition_reassignments({TopicPartition(topic, 0): turned})
                while await admin.list_partition_reassignments():  # noqa: ASYNC110 - as above
                    await trio.sleep(0.1)
                await admin.elect_leaders([TopicPartition(topic, 0)])
            await until(
                lambda: (
                    sender.producer.cluster.view.leader_of(TopicPartition(topic, 0)) == turned[0]
                )
            )

        sender = await sending(cluster, topic, move, metadata_max_age_ms=3_600_000)
        assert sender.producer.metrics().record_retry_total < 100, (
            "at most five requests were in flight, some may go back and forth"
        )
        await check(cluster, sender)

    run(main)


# Groups


def test_no_commit_is_lost_with_its_coordinator(cluster: ClusterNodes, topic: str) -> None:
    group = f"group-{topic}"
    settings: dict[str, Any] = {
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 20_000,
        "heartbeat_interval_ms": 500,
        "max_poll_records": 20,
    }

    async def main() -> None:
        committed: dict[TopicPartition, int] = {}

        async def commit_for_long(nursery: trio.Nursery) -> None:
            async with Consumer(cluster.bootstrap, **settings) as consumer:
                await consumer.subscribe([topic])
                with trio.CancelScope() as scope:
                    nursery.start_soon(self_ending, scope)
                    while True:
                        records = await consumer.poll(timeout_ms=100)
                        if records:
                            positions = {
                                each: await consumer.position(each) for each in consumer.assignment
                            }
                            with suppress(OutOfGroupError):
                                await commit(consumer, positions)
                                committed.update(positions)

        ended = trio.Event()

        async def self_ending(scope: trio.CancelScope) -> None:
            await ended.wait()
            scope.cancel()

        async def until_committed(more: int) -> None:
            goal = sum(committed.values()) + more
            await until(lambda: sum(committed.values()) >= goal)

        async def check_commits() -> None:
            """Check that the group has the offset that was acknowledged by now.

            A commit whose response was lost may count as well.
            """
            before = dict(committed)
            async with Admin(cluster.bootstrap) as admin:
                told = await admin.list_group_offsets(group)
            assert all(told[each].offset >= offset for each, offset in before.items()), (
                told,
                before,
            )

        async def lose_coordinators(sender: Sending) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(commit_for_long, nursery)
                await until_committed(30)
                for _ in range(2):
                    coordinator = await beside(cluster.coordinator_of, group)
                    await beside(cluster.kill, coordinator)
                    await until_committed(60)
                    await check_commits()
                    await beside(cluster.start, coordinator)
                ended.set()
            await check_commits()

        sender = await sending(cluster, topic, lose_coordinators)
        await check(cluster, sender)

    run(main)


# Reading from near


def test_a_reader_stays_in_its_rack_and_leaves_a_near_replica_that_dies(
    cluster: ClusterNodes, topic: str
) -> None:
    async def main() -> None:
        async def read_near(sender: Sending) -> None:
            leader = await beside(cluster.leader_of, topic, 0)
            near = next(node_id for node_id in NODE_IDS if node_id != leader)
            async with Consumer(
                cluster.bootstrap, client_rack=f"rack-{near}", auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                (state,) = consumer._subscriptions
                while state.preferred_replica != near:
                    await consumer.poll(timeout_ms=100)
                assert await consumer.poll() != []
                await beside(cluster.kill, near)
                position = await consumer.position(TopicPartition(topic, 0))
                while await consumer.position(TopicPartition(topic, 0)) < position + 50:
                    await consumer.poll(timeout_ms=100)
            await beside(cluster.start, near)

        sender = await sending(cluster, topic, read_near)
        await check(cluster, sender)

    run(main)


# Administration


def partition_count(admin: BlockingAdmin, topic: str) -> int:
    """Return how many partitions the next node knows of a topic.

    A node that has not heard of it yet knows none.
    """
    with suppress(KafkaError):
        return admin.describe_topics([topic])[topic].partition_count
    return 0


def test_topics_are_created_while_any_node_is_gone(cluster: ClusterNodes, topic: str) -> None:
    for gone in NODE_IDS:
        cluster.kill(gone)
        name = f"{topic}-without-{gone}"
        with BlockingAdmin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(name=name, partition_count=2, replication_factor=2)])
            wait_until(
                lambda: partition_count(admin, name) == 2,  # noqa: B023 - called here
                f"{name} is known to every node that is asked",
            )
        cluster.start(gone)
        cluster.wait_until_whole(topic)


def test_each_broker_describes_its_own_configuration(cluster: ClusterNodes) -> None:
    resources = [ConfigResource.broker(node_id) for node_id in NODE_IDS]
    with BlockingAdmin(cluster.bootstrap) as admin:
        described = admin.describe_configs(resources)
        assert [described[resource]["broker.rack"].value for resource in resources] == [
            f"rack-{node_id}" for node_id in NODE_IDS
        ]
