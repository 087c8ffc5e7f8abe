"""Consumers and their group read every record at least once, in virtual time.

A whole broker has weather and resets, and members die.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from log_service.client.consumer.commits import GROUP_WENT_ON
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.server import parse_server_properties
from log_service.protocol.messages.metadata import MetadataResponseBroker
from tests.sim import World, sim_run
from tests.unit.client.consumer.scripted_settings import PROPERTIES, SERVERS

SETTINGS: dict[str, Any] = {
    "group_id": "g",
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 1_000,
    "session_timeout_ms": 10_000,
}

Story = Callable[[World], Awaitable[None]]


def tell(story: Story, *, seed: int = 1, partition_count: int = 4) -> None:
    """Run a story beside a broker that has topic ``t``."""

    async def main(world: World) -> None:
        config, _ = parse_server_properties({**PROPERTIES, "log.dirs": str(Path("/data/kafka"))})
        async with trio.open_nursery() as nursery:
            await nursery.start(Broker(world.node_env("broker"), config).run)
            async with Admin(SERVERS, env=world.client_env("admin")) as admin:
                await admin.create_topics(
                    [NewTopic(name="t", partition_count=partition_count, replication_factor=1)]
                )
            with trio.fail_after(1_000):
                await story(world)
            nursery.cancel_scope.cancel()

    sim_run(seed, main)


async def produce(world: World, count: int, first: int = 0) -> set[bytes]:
    values = [b"%d" % number for number in range(first, first + count)]
    async with Producer(SERVERS, env=world.client_env("producer"), linger_ms=0) as producer:
        for index, value in enumerate(values):
            await producer.send("t", value, partition=index % 4)
    return set(values)


@pytest.mark.parametrize("seed", range(4))
def test_every_record_arrives_once_through_rough_weather(seed: int) -> None:
    async def story(world: World) -> None:
        world.network.weather = world.draw_weather()
        sent = await produce(world, 300)
        seen: list[bytes] = []
        async with Consumer(
            SERVERS, env=world.client_env("consumer"), max_poll_records=7, **SETTINGS
        ) as consumer:
            await consumer.subscribe(["t"])
            while len(seen) < len(sent):
                seen += [record.value for record in await consumer.poll()]
                if world.rng.random() < 0.1:
                    world.network.reset_connections("consumer")
        assert sorted(seen) == sorted(sent)

    tell(story, seed=seed)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(3))
def test_a_dead_members_partitions_go_on_where_it_committed(seed: int, strategy: str) -> None:
    """A member goes on where a dead one committed.

    Each commits its records before it polls again. One is cut off for ever, its session ends, and
    the others carry on.
    """
    seen: set[bytes] = set()
    sent: set[bytes] = set()

    async def work(world: World, name: str, finished: trio.Event) -> None:
        settings = {
            **SETTINGS,
            "enable_auto_commit": False,
            "partition_assignment_strategy": (strategy,),
        }
        async with Consumer(SERVERS, env=world.client_env(name), **settings) as consumer:
            await consumer.subscribe(["t"])
            while True:
                records = await consumer.poll(max_records=5)
                try:
                    await consumer.commit()
                except KafkaError as error:
                    if error.code not in GROUP_WENT_ON:
                        raise
                    continue
                seen.update(record.value for record in records)
                if len(sent) == 400 and sent <= seen:
                    finished.set()

    async def story(world: World) -> None:
        sent.update(await produce(world, 200))
        finished = trio.Event()
        async with trio.open_nursery() as nursery:
            for name in ("one", "two", "three"):
                nursery.start_soon(work, world, name, finished)
                await trio.sleep(world.rng.random() * 3)
            world.network.isolate("two", ["broker"])
            sent.update(await produce(world, 200, first=1_000))
            await finished.wait()
            nursery.cancel_scope.cancel()

    tell(story, seed=seed)


def test_positions_are_committed_every_interval_and_at_the_end() -> None:
    async def story(world: World) -> None:
        await produce(world, 40)
        settings = {**SETTINGS, "auto_commit_interval_ms": 5_000, "max_poll_records": 10}
        async with Admin(SERVERS, env=world.client_env("admin")) as admin:
            async with Consumer(SERVERS, env=world.client_env("c"), **settings) as consumer:
                await consumer.subscribe(["t"])
                polled: dict[TopicPartition, int] = {}
                for record in await consumer.poll(timeout_ms=20_000):
                    polled[record.topic_partition] = record.offset + 1
                assert await admin.list_group_offsets("g") == {}
                await trio.sleep(6)
                later = await consumer.poll()
                await trio.sleep(1)
                committed = await admin.list_group_offsets("g")
                assert {
                    each: offset.offset for each, offset in committed.items() if offset.offset
                } == polled, "what a poll before returned"
                for record in later:
                    polled[record.topic_partition] = record.offset + 1
            committed = await admin.list_group_offsets("g")
            assert {
                each: offset.offset for each, offset in committed.items() if offset.offset
            } == polled

    tell(story)


def test_leaving_with_an_exception_commits_nothing_that_was_not_worked_on() -> None:
    async def story(world: World) -> None:
        await produce(world, 8)

        async def fail_at_work() -> None:
            async with Consumer(SERVERS, env=world.client_env("c"), **SETTINGS) as consumer:
                await consumer.subscribe(["t"])
                assert await consumer.poll(timeout_ms=20_000)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_at_work()
        async with Admin(SERVERS, env=world.client_env("admin")) as admin:
            assert await admin.list_group_offsets("g") == {}
            assert (await admin.describe_groups(["g"]))["g"].members == (), "it left all the same"

    tell(story)


def test_new_partitions_are_noticed_and_shared() -> None:
    async def story(world: World) -> None:
        async with (
            Admin(SERVERS, env=world.client_env("admin")) as admin,
            Consumer(
                SERVERS, env=world.client_env("c"), metadata_max_age_ms=5_000, **SETTINGS
            ) as consumer,
        ):
            await consumer.subscribe(["t"])
            while len(consumer.assignment) < 4:
                await consumer.poll()
            await admin.create_partitions({"t": 6})
            while len(consumer.assignment) < 6:
                await consumer.poll()

    tell(story)


def test_a_poll_that_is_cancelled_loses_nothing() -> None:
    async def story(world: World) -> None:
        sent = await produce(world, 100)
        seen: set[bytes] = set()
        async with Consumer(
            SERVERS, env=world.client_env("c"), max_poll_records=3, **SETTINGS
        ) as consumer:
            await consumer.subscribe(["t"])
            while seen != sent:
                records = []
                with trio.move_on_after(world.rng.choice([0, 0.001, 0.5])):
                    records = await consumer.poll()
                seen.update(record.value for record in records)

    tell(story)


def test_leaving_the_loop_skips_no_record() -> None:
    async def story(world: World) -> None:
        sent = await produce(world, 20)
        seen: list[bytes] = []
        while len(seen) < len(sent):
            async with Consumer(SERVERS, env=world.client_env("c"), **SETTINGS) as consumer:
                await consumer.subscribe(["t"])
                taken = 0
                async for record in consumer:
                    seen.append(record.value)
                    taken += 1
                    if taken == 4:
                        break
        assert sorted(seen) == sorted(sent)

    tell(story)


def test_a_consumer_that_unsubscribed_while_joining_is_no_member_and_may_subscribe_again() -> None:
    async def story(world: World) -> None:
        sent = await produce(world, 20)
        seen: set[bytes] = set()
        async with (
            Admin(SERVERS, env=world.client_env("admin")) as admin,
            Consumer(SERVERS, env=world.client_env("c"), **SETTINGS) as consumer,
        ):
            await consumer.subscribe(["t"])
            await consumer.poll(timeout_ms=0)
            await consumer.unsubscribe()
            await trio.sleep(1)
            assert consumer.assignment == []
            assert (await admin.describe_groups(["g"]))["g"].members == ()
            consumer.assign([TopicPartition("t", 0)])
            assert {record.partition for record in await consumer.poll(timeout_ms=5_000)} == {0}
            await consumer.unsubscribe()
            await consumer.subscribe(["t"])
            while not sent - {b"0", b"4", b"8", b"12", b"16"} <= seen:
                seen.update(record.value for record in await consumer.poll())

    tell(story)


def test_a_callback_that_raises_ends_the_poll_and_the_next_one_carries_on() -> None:
    async def story(world: World) -> None:
        sent = await produce(world, 20)
        seen: set[bytes] = set()
        failures = [ZeroDivisionError()]

        def on_assigned(partitions: object) -> None:
            if failures:
                raise failures.pop()

        async with Consumer(SERVERS, env=world.client_env("c"), **SETTINGS) as consumer:
            await consumer.subscribe(["t"], on_assigned=on_assigned)
            with pytest.raises(ZeroDivisionError):
                await consumer.poll(timeout_ms=20_000)
            while seen != sent:
                seen.update(record.value for record in await consumer.poll())

    tell(story)


def test_a_pattern_takes_topics_in_as_they_come_and_lets_them_go() -> None:
    async def story(world: World) -> None:
        settings = {**SETTINGS, "metadata_max_age_ms": 2_000}
        async with (
            Admin(SERVERS, env=world.client_env("admin")) as admin,
            Consumer(SERVERS, env=world.client_env("c"), **settings) as consumer,
            Producer(SERVERS, env=world.client_env("p")) as producer,
        ):
            await consumer.subscribe(re.compile(r"t|more-.*|__.*"))
            while len(consumer.assignment) < 4:
                await consumer.poll()
            assert consumer.subscription == {"t"}, "internal topics are not meant"
            await admin.create_topics(
                [NewTopic(name=name, partition_count=1) for name in ("more-a", "no-more-b")]
            )
            while len(consumer.assignment) < 5:
                await consumer.poll()
            assert consumer.subscription == {"t", "more-a"}
            await producer.send("more-a", b"x")
            assert [record.value for record in await consumer.poll(timeout_ms=10_000)] == [b"x"]
            await admin.delete_topics(["more-a"])
            while len(consumer.assignment) > 4:
                await consumer.poll()
            await trio.sleep(10)
            assert [topic.name for topic in await admin.list_topics()] == ["no-more-b", "t"], (
                "no client brought it back"
            )

    tell(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_the_cluster_refuses_is_raised_and_one_that_is_not_there_is_logged(
    caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    """A consumer of a misspelt or forbidden topic would else wait for ever without a word."""

    async def story(world: World) -> None:
        sent = await produce(world, 8)
        settings: dict[str, Any] = {
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "group_protocol": protocol,
        }
        settings["allow_auto_create_topics"] = False
        async with Consumer(SERVERS, env=world.client_env("consumer"), **settings) as consumer:
            await consumer.subscribe(["t", "no topic!", "ordres"])
            seen: list[bytes] = []
            refusals: list[KafkaError] = []
            while len(seen) < len(sent) or not refusals:
                try:
                    seen += [record.value for record in await consumer.poll()]
                except KafkaError as error:
                    refusals.append(error)
            assert {error.code for error in refusals} == {ErrorCode.INVALID_TOPIC_EXCEPTION}
            assert "topics cannot be read: 'no topic!' (INVALID_TOPIC_EXCEPTION)" in str(
                refusals[0]
            )
            assert set(seen) == sent, "the other topic is read"
            assert "the topic ordres is subscribed and not there" in caplog.text
            await consumer.subscribe(["t"])
            assert await consumer.poll() == [], "what is not subscribed any more is not told of"

    tell(story)


def test_a_refusal_is_raised_as_often_as_the_cluster_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A refusal came up again with each broker, leader or new subscription that the client learned
    of.
    """

    async def story(world: World) -> None:
        async with Consumer(
            SERVERS, env=world.client_env("consumer"), allow_auto_create_topics=False, **SETTINGS
        ) as consumer:

            async def poll_for_ever() -> None:
                while True:
                    await consumer.poll()

            async def refused() -> None:
                with pytest.raises(KafkaError, match="'no topic!'"):
                    await poll_for_ever()

            await consumer.subscribe(["no topic!", "ordres"])
            await refused()
            consumer.cluster.learn_nodes([MetadataResponseBroker(node_id=9, host="broker", port=9)])
            assert await consumer.poll(timeout_ms=0) == []
            await consumer.subscribe(["no topic!", "ordres"])
            assert await consumer.poll(timeout_ms=0) == []
            await refused()
            await consumer.partitions_for("t")
            assert await consumer.poll(timeout_ms=0) == []
            await consumer.cluster.refresh()
            await refused()
            assert caplog.text.count("the topic ordres is subscribed and not there") == 1

    tell(story)


def test_commits_without_waiting_keep_their_order_and_are_waited_for_at_the_end() -> None:
    heard: list[tuple[int, object]] = []
    partition = TopicPartition("t", 0)

    async def story(world: World) -> None:
        world.network.weather = world.draw_weather()
        async with Admin(SERVERS, env=world.client_env("admin")) as admin:
            async with Consumer(
                SERVERS, env=world.client_env("c"), **SETTINGS, enable_auto_commit=False
            ) as consumer:
                consumer.assign([partition])
                for offset in range(1, 40):
                    consumer.commit_soon(
                        {partition: offset},
                        lambda offsets, error: heard.append((offsets[partition].offset, error)),
                    )
                    if offset % 7 == 0:
                        await trio.sleep(0.002)
                await consumer.commit({partition: 40})
                assert heard == [(offset, None) for offset in range(1, 40)], (
                    "the commit that is waited for goes last"
                )
                consumer.commit_soon({partition: 41})
            assert (await admin.list_group_offsets("g"))[partition].offset == 41

    for seed in range(3):
        heard.clear()
        tell(story, seed=seed)


def test_questions_about_the_log_need_no_assignment() -> None:
    async def story(world: World) -> None:
        await produce(world, 10)
        first, second = TopicPartition("t", 0), TopicPartition("t", 2)
        async with Consumer(SERVERS, env=world.client_env("c"), **SETTINGS) as consumer:
            assert await consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
            assert await consumer.end_offsets([first, second]) == {first: 3, second: 2}
            found = await consumer.offsets_for_times({first: 0, second: 2**60})
            assert (found[first].offset, found[second].offset) == (0, -1)
            consumer.assign([first])
            assert consumer.lag(first) is None
            assert await consumer.current_lag(first) == 3
            await consumer.poll(timeout_ms=5_000)
            assert consumer.lag(first) == 0
            with pytest.raises(KafkaError):
                await consumer.end_offsets([TopicPartition("t", 9)])

    tell(story)


def test_a_consumer_counts_what_it_does() -> None:
    async def story(world: World) -> None:
        await produce(world, 40)
        async with Consumer(
            SERVERS, env=world.client_env("c"), **SETTINGS, max_poll_records=15
        ) as consumer:
            await consumer.subscribe(["t"])
            taken = 0
            while taken < 30:
                taken += len(await consumer.poll())
            await consumer.commit()
            await trio.sleep(3)
            metrics = consumer.metrics()
            assert (
                metrics.records_consumed_total,
                metrics.assigned_partitions,
                metrics.rebalance_total,
            ) == (taken, 4, 1)
            assert sum(metrics.records_lag.values()) == 40 - taken
            assert metrics.records_lag_max == max(metrics.records_lag.values())
            assert metrics.commit_total >= 1
            assert metrics.heartbeat_total >= 1
            assert metrics.fetch_total >= 1
            assert metrics.last_poll_seconds_ago == pytest.approx(3, abs=0.5)
            assert metrics.named()["records-lag-max"] == metrics.records_lag_max
            assert metrics.incoming_byte_total > 0

    tell(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_callback_that_was_cancelled_hears_again_what_was_assigned_before_anything_is_read(
    protocol: str,
) -> None:
    """It says where to read on: without it, records would be skipped or read twice."""

    async def story(world: World) -> None:
        await produce(world, 8)
        settings: dict[str, Any] = {
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "group_protocol": protocol,
        }
        async with Consumer(SERVERS, env=world.client_env("consumer"), **settings) as consumer:
            heard: list[int] = []

            async def seek(partitions: Sequence[TopicPartition]) -> None:
                heard.append(len(partitions))
                await trio.sleep(len(heard) * 0.5)
                for each in partitions:
                    await consumer.seek(each, 1)

            await consumer.subscribe(["t"], on_assigned=seek)
            while not heard:
                with trio.move_on_after(0.25):
                    assert not await consumer.poll()
            seen: list[int] = []
            while len(seen) < 4:
                seen += [record.offset for record in await consumer.poll()]
            assert seen == [1] * 4
            assert heard == [4, 4]

    tell(story)
