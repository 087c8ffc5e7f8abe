"""Our client is in groups of the consumer protocol (KIP-848), on tidelog and on Apache Kafka.

Both have the same tests with the same outcome.

Heartbeats go out every 200 ms here: what a group decides is known within a few of them.
"""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.client import (
    Admin,
    AsyncioConsumer,
    BlockingAdmin,
    BlockingConsumer,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    Producer,
    SubscriptionPattern,
    TopicPartition,
)
from tests.integration.client_clusters import CLUSTERS, cluster, read_all, run
from tests.integration.confluent import settings as confluent_settings
from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

names = itertools.count()
PARTITIONS = 4
CLIENT = Path(__file__).with_name("ClusterClient.java")
PROPERTIES = {
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    with cluster(request.param, tmp_path_factory.mktemp("own"), PROPERTIES) as servers:
        yield servers


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A new topic with four partitions and two records in each."""
    name = f"shared-{next(names)}"
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=PARTITIONS, replication_factor=1)])
    run(produce, bootstrap, name, 2)
    return name


async def produce(bootstrap: str, topic: str, count: int) -> None:
    async with Producer(bootstrap, linger_ms=0) as producer:
        for index in range(count * PARTITIONS):
            await producer.send(topic, b"%d" % index, partition=index % PARTITIONS)


def member(bootstrap: str, group: str, **more: Any) -> Consumer:
    settings = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "group_protocol": "consumer",
        **more,
    }
    return Consumer(bootstrap, group_id=group, **settings)


class Story:
    """The partitions of each member, as its callbacks say.

    None belongs to two at a time.
    """

    def __init__(self) -> None:
        self.owners: dict[TopicPartition, str] = {}
        self.told: list[tuple[str, str, int]] = []

    def callbacks(self, name: str) -> dict[str, Callable[[Sequence[TopicPartition]], None]]:
        def assigned(partitions: Sequence[TopicPartition]) -> None:
            self.told.append((name, "assigned", len(partitions)))
            for each in partitions:
                assert each not in self.owners, (
                    f"{each} belongs to {self.owners[each]}, and {name} is assigned it"
                )
                self.owners[each] = name

        def revoked(partitions: Sequence[TopicPartition]) -> None:
            self.told.append((name, "revoked", len(partitions)))
            for each in partitions:
                assert self.owners.pop(each) == name

        def lost(partitions: Sequence[TopicPartition]) -> None:
            revoked(partitions)
            self.told[-1] = (name, "lost", len(partitions))

        return {"on_assigned": assigned, "on_revoked": revoked, "on_lost": lost}


async def poll_until(is_there: Callable[[], bool], *consumers: Consumer) -> None:
    while not is_there():
        for each in consumers:
            await each.poll(timeout_ms=20)


def test_partitions_are_given_up_before_others_have_them_and_taken_over_from_who_leaves(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        story = Story()
        async with member(bootstrap, topic) as first:
            await first.subscribe([topic], **story.callbacks("first"))
            records = await read_all(first, 2 * PARTITIONS)
            assert len(records) == 2 * PARTITIONS
            await first.commit()
            async with member(bootstrap, topic, group_remote_assignor="range") as second:
                await second.subscribe([topic], **story.callbacks("second"))
                await poll_until(
                    lambda: len(first.assignment) == len(second.assignment) == 2, first, second
                )
                assert sorted(story.owners.values()) == ["first", "first", "second", "second"]
                assert first.group_metadata().generation_id > 0
                await second.commit({second.assignment[0]: 1})
            await poll_until(lambda: len(first.assignment) == PARTITIONS, first)
            assert set(story.owners.values()) == {"first"}
        assert story.owners == {}
        assert story.told[-1] == ("first", "revoked", PARTITIONS)

    run(main)


def test_a_broker_matches_a_subscription_pattern(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with member(bootstrap, f"{topic}-pattern") as consumer:
            await consumer.subscribe(SubscriptionPattern(f"{topic[:-1]}[{topic[-1]}]"))
            assert {record.topic for record in await read_all(consumer, 2 * PARTITIONS)} == {topic}
            await consumer.subscribe(SubscriptionPattern("("))
            with pytest.raises(KafkaError) as caught:
                await poll_until(lambda: False, consumer)
            assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
            await consumer.subscribe([topic])
            await poll_until(lambda: len(consumer.assignment) == PARTITIONS, consumer)

    run(main)


def test_static_member_that_comes_back_has_the_same_partitions(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with member(bootstrap, topic) as other:
            await other.subscribe([topic])
            async with member(bootstrap, topic, group_instance_id="one") as static:
                await static.subscribe([topic])
                await poll_until(
                    lambda: len(static.assignment) == len(other.assignment) == 2, static, other
                )
                held = static.assignment
                async with member(bootstrap, topic, group_instance_id="one") as rival:
                    await rival.subscribe([topic])
                    with pytest.raises(KafkaError, match="has not left") as caught:
                        await poll_until(lambda: False, rival)
                    assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
            async with member(bootstrap, topic, group_instance_id="one") as again:
                await again.subscribe([topic])
                await poll_until(lambda: bool(again.assignment), again, other)
                assert again.assignment == held
                assert len(other.assignment) == 2

    run(main)


def test_member_that_does_not_poll_loses_its_partitions_and_comes_back(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        story = Story()
        async with (
            member(bootstrap, topic, max_poll_interval_ms=1_000) as slow,
            member(bootstrap, topic) as other,
        ):
            await slow.subscribe([topic], **story.callbacks("slow"))
            await poll_until(lambda: len(slow.assignment) == PARTITIONS, slow)
            await other.subscribe([topic])
            await poll_until(lambda: len(other.assignment) == PARTITIONS, other)
            with pytest.raises(KafkaError) as caught:
                await slow.commit({TopicPartition(topic, 0): 1})
            assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
            await poll_until(
                lambda: len(other.assignment) == len(slow.assignment) == 2, slow, other
            )
        assert story.told[:2] == [("slow", "assigned", PARTITIONS), ("slow", "lost", PARTITIONS)]

    run(main)


def test_group_goes_on_while_a_callback_takes_its_time(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        seen: list[int] = []

        async def slowly(partitions: Sequence[TopicPartition]) -> None:
            await trio.sleep(1)
            seen.append(len(partitions))
            assert not second.assignment, "nothing goes to the other before the callback is through"

        async with member(bootstrap, topic) as first, member(bootstrap, topic) as second:
            await first.subscribe([topic], on_revoked=slowly)
            await poll_until(lambda: len(first.assignment) == PARTITIONS, first)
            await second.subscribe([topic])
            async with trio.open_nursery() as nursery:
                nursery.start_soon(poll_until, lambda: len(second.assignment) == 2, second)
                await poll_until(lambda: len(second.assignment) == 2, first)
            assert seen == [2]
            await second.unsubscribe()
            await poll_until(lambda: len(first.assignment) == PARTITIONS, first)
            seen.clear()

    run(main)


def test_offsets_of_a_member_are_committed_in_a_transaction(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with (
            member(bootstrap, topic) as consumer,
            Producer(bootstrap, transactional_id=f"{topic}-copy") as producer,
        ):
            await producer.init_transactions()
            await consumer.subscribe([topic])
            await read_all(consumer, 2 * PARTITIONS)
            async with producer.transaction():
                await producer.send_offsets_to_transaction(
                    consumer.consumed(), consumer.group_metadata()
                )
            await consumer.seek_to_committed()
            assert [await consumer.position(each) for each in consumer.assignment] == [
                2
            ] * PARTITIONS
            stale = consumer.group_metadata()
        async with (
            Producer(bootstrap, transactional_id=f"{topic}-late") as producer,
            member(bootstrap, topic) as other,
        ):
            await producer.init_transactions()
            await other.subscribe([topic])
            await poll_until(lambda: bool(other.assignment), other)
            with pytest.raises(KafkaError):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, stale)

    run(main)


def test_a_service_changes_over_member_by_member(bootstrap: str, topic: str) -> None:
    """One group has librdkafka's classic member, our classic one and our new one.

    Then the classic ones leave, and one comes back.
    """
    import confluent_kafka

    async def main() -> None:
        told = confluent_settings(
            bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **RDKAFKA,
        )
        old: Any = confluent_kafka.Consumer(told)
        old.subscribe([topic])

        def parts() -> tuple[int, ...]:
            old.poll(0.02)
            return len(old.assignment()), len(ours.assignment), len(new.assignment)

        classic = {
            "group_protocol": "classic",
            "heartbeat_interval_ms": 200,
            "partition_assignment_strategy": ("range",),
        }
        async with member(bootstrap, topic, **classic) as ours, member(bootstrap, topic) as new:
            await ours.subscribe([topic])
            await poll_until(lambda: parts() == (2, 2, 0), ours)
            await new.subscribe([topic])
            await poll_until(lambda: sorted(parts()) == [1, 1, 2], ours, new)
            assert {group_type for _, group_type in await types(bootstrap, topic)} == {"consumer"}
            old.close()
            await ours.unsubscribe()
            await poll_until(lambda: len(new.assignment) == PARTITIONS, new)
            await ours.subscribe([topic])
            await poll_until(lambda: len(ours.assignment) == len(new.assignment) == 2, ours, new)
            await new.unsubscribe()
            await poll_until(lambda: len(ours.assignment) == PARTITIONS, ours)
            assert {group_type for _, group_type in await types(bootstrap, topic)} == {"classic"}

    run(main)


def test_javas_consumer_shares_a_group_with_ours(bootstrap: str, topic: str) -> None:
    skip_unless_kafka_is_there()
    command = [
        *java_command("-Dgroup.protocol=consumer"),
        str(CLIENT),
        "read",
        bootstrap,
        topic,
        topic,
    ]

    async def main(running: "subprocess.Popen[str]") -> None:
        assert running.stdout is not None
        assert running.stdin is not None
        heard: list[str] = []
        while len(heard) < 2 * PARTITIONS:
            line = await trio.to_thread.run_sync(running.stdout.readline)
            heard += [line] if line.startswith("R") else []
        async with member(bootstrap, topic) as ours:
            await ours.subscribe([topic])
            await poll_until(lambda: len(ours.assignment) == 2, ours)
            running.stdin.close()
            await poll_until(lambda: len(ours.assignment) == PARTITIONS, ours)
            positions = await ours.committed(ours.assignment)
            assert {position.offset for position in positions.values()} == {2}

    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            run(main, running)
        finally:
            running.kill()


RDKAFKA: dict[str, Any] = {
    "partition_assignment_strategy": "range",
    "heartbeat_interval_ms": 200,
    "session_timeout_ms": 6_000,
}


async def types(bootstrap: str, group: str) -> list[tuple[str, str]]:
    async with Admin(bootstrap) as admin:
        return [
            (each.group_id, each.group_type)
            for each in await admin.list_groups()
            if each.group_id == group
        ]


def test_blocking_and_asyncio_consumers_share_a_group(bootstrap: str, topic: str) -> None:
    settings: dict[str, Any] = {
        "group_id": topic,
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
    }
    events: list[str] = []

    async def main(blocking: BlockingConsumer) -> None:
        async with AsyncioConsumer(bootstrap, **settings) as consumer:
            await consumer.subscribe(
                [topic], on_assigned=lambda partitions: events.append(f"asyncio +{len(partitions)}")
            )
            while len(await consumer.assignment()) != 2 or len(blocking.assignment) != 2:
                await consumer.poll(timeout_ms=20)
                await asyncio.to_thread(blocking.poll, None, 20)
            metadata = await consumer.group_metadata()
            assert metadata.generation_id > 0

    with BlockingConsumer(bootstrap, **settings) as blocking:
        blocking.subscribe(
            [topic], on_revoked=lambda partitions: events.append(f"blocking -{len(partitions)}")
        )
        while len(blocking.assignment) != PARTITIONS:
            blocking.poll(timeout_ms=20)
        asyncio.run(asyncio.wait_for(main(blocking), 60))
        assert events == ["blocking -2", "asyncio +2"]


def test_a_group_is_described_with_members_and_after_they_have_left(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group = f"described-{topic}"
    with BlockingAdmin(bootstrap) as admin:
        settings: dict[str, Any] = {
            "group_protocol": "consumer",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        with BlockingConsumer(bootstrap, group_id=group, client_id="seen", **settings) as consumer:
            consumer.subscribe([topic])
            while len(consumer.assignment) < PARTITIONS:
                consumer.poll(timeout_ms=200)
            consumer.commit({TopicPartition(topic, 0): 1})
            found = admin.describe_groups([group])[group]
            assert (found.protocol_type, found.assignor) == ("consumer", "uniform")
            (one,) = found.members
            assert one.client_id == "seen"
            assert sorted(one.assignment) == [
                TopicPartition(topic, number) for number in range(PARTITIONS)
            ]
        found = admin.describe_groups([group])[group]
        assert (found.state, found.members) == ("Empty", ())
        assert admin.describe_groups(["never-there"])["never-there"].state == "Dead"
    command = [
        sys.executable,
        "-m",
        "log_service.cli.main",
        "groups",
        "describe",
        group,
        "--json",
        "-b",
        bootstrap,
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["offsets"][0]["committed"] == 1
