"""aiokafka: producer, consumer, groups and admin; it speaks old versions of everything."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
import aiokafka.admin
import aiokafka.errors
import pytest
from aiokafka.structs import OffsetAndMetadata

from tests.integration.confluent import WAIT_SECONDS

MakeTopic = Callable[..., str]
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 4 * WAIT_SECONDS))


@asynccontextmanager
async def producer(bootstrap: str, **more: Any) -> AsyncIterator[Any]:
    opened = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **more)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.stop()


@asynccontextmanager
async def consumer(bootstrap: str, *topics: str, **more: Any) -> AsyncIterator[Any]:
    settings = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "metadata_max_age_ms": 1_000,
        **more,
    }
    opened = aiokafka.AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.stop()


@asynccontextmanager
async def admin(bootstrap: str) -> AsyncIterator[Any]:
    opened = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await opened.start()
    try:
        yield opened
    finally:
        await opened.close()


async def take(source: Any, count: int) -> list[Any]:
    return [await asyncio.wait_for(source.getone(), WAIT_SECONDS) for _ in range(count)]


async def fill(bootstrap: str, topic: str, count: int, **more: Any) -> None:
    async with producer(bootstrap, linger_ms=20, **more) as sender:
        futures = [
            await sender.send(topic, str(number).encode(), partition=0) for number in range(count)
        ]
        assert [(await future).offset for future in futures] == list(range(count))


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back(bootstrap: str, topic: str, codec: str | None) -> None:
    async def main() -> None:
        await fill(bootstrap, topic, 300, compression_type=codec)
        async with consumer(bootstrap, topic) as source:
            assert [record.value for record in await take(source, 300)] == [
                str(number).encode() for number in range(300)
            ]

    run(main)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_of_every_acks_are_stored(bootstrap: str, topic: str, acks: int | str) -> None:
    async def main() -> None:
        async with producer(bootstrap, acks=acks) as sender:
            await sender.send_and_wait(topic, b"one")
        async with consumer(bootstrap, topic) as source:
            assert [record.value for record in await take(source, 1)] == [b"one"]

    run(main)


def test_everything_that_a_record_carries_comes_back(bootstrap: str, topic: str) -> None:
    headers = [("a", b"1"), ("a", b"")]

    async def main() -> None:
        async with producer(bootstrap) as sender:
            await sender.send_and_wait(
                topic, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_123
            )
            await sender.send_and_wait(topic, None, key=b"gone")
        async with consumer(bootstrap, topic) as source:
            first, second = await take(source, 2)
        assert (first.key, first.value, list(first.headers), first.timestamp) == (
            b"key",
            b"value",
            headers,
            1_700_000_000_123,
        )
        assert (second.key, second.value) == (b"gone", None)

    run(main)


def test_an_idempotent_producer_is_served(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        await fill(bootstrap, topic, 500, enable_idempotence=True)
        async with consumer(bootstrap, topic) as source:
            assert [record.offset for record in await take(source, 500)] == list(range(500))

    run(main)


def test_a_record_that_is_too_large_is_refused(bootstrap: str, new_topic: MakeTopic) -> None:
    topic = new_topic(max_message_bytes="1000")

    async def main() -> None:
        async with producer(bootstrap) as sender:
            with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
                await sender.send_and_wait(topic, b"x" * 5_000)

    run(main)


def test_positions_times_and_ends(bootstrap: str, topic: str) -> None:
    where = aiokafka.TopicPartition(topic, 0)

    async def main() -> None:
        async with producer(bootstrap, linger_ms=50) as sender:
            sends = [
                await sender.send(topic, b"x", timestamp_ms=1_700_000_000_000 + number * 1_000)
                for number in range(10)
            ]
            await asyncio.gather(*sends)
        async with consumer(bootstrap) as source:
            source.assign([where])
            source.seek(where, 7)
            assert [record.offset for record in await take(source, 3)] == [7, 8, 9]
            assert await source.beginning_offsets([where]) == {where: 0}
            assert await source.end_offsets([where]) == {where: 10}
            found = (await source.offsets_for_times({where: 1_700_000_003_500}))[where]
            assert (found.offset, found.timestamp) == (4, 1_700_000_004_000)

    run(main)


def test_positions_count_with_the_transaction_until_a_second_producer_fences_the_first(
    bootstrap: str, topic: str, name: str
) -> None:
    where = aiokafka.TopicPartition(topic, 0)

    async def main() -> None:
        async with producer(bootstrap, transactional_id=name) as first:
            await first.begin_transaction()
            await first.send_and_wait(topic, b"5")
            await first.send_offsets_to_transaction({where: 5}, name)
            await first.abort_transaction()
            async with first.transaction():
                await first.send_and_wait(topic, b"7")
                await first.send_offsets_to_transaction({where: 7}, name)
            async with consumer(bootstrap, group_id=name) as member:
                member.assign([where])
                assert await member.committed(where) == 7
            await first.begin_transaction()
            await first.send_and_wait(topic, b"9")
            async with producer(bootstrap, transactional_id=name) as second, second.transaction():
                await second.send_and_wait(topic, b"11")
            with pytest.raises(aiokafka.errors.ProducerFenced):
                await first.commit_transaction()
        async with consumer(bootstrap, topic, isolation_level="read_committed") as source:
            assert [record.value for record in await take(source, 2)] == [b"7", b"11"]

    run(main)


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str, name: str) -> None:
    where = aiokafka.TopicPartition(topic, 0)

    async def main() -> None:
        await fill(bootstrap, topic, 10)
        async with consumer(bootstrap, topic, group_id=name) as first:
            assert [record.offset for record in await take(first, 4)] == [0, 1, 2, 3]
            await first.commit({where: OffsetAndMetadata(4, "four")})
            assert await first.committed(where) == 4
        async with consumer(bootstrap, topic, group_id=name) as second:
            assert [record.offset for record in await take(second, 6)] == [4, 5, 6, 7, 8, 9]

    run(main)


def test_members_share_the_partitions_and_take_over(
    bootstrap: str, new_topic: MakeTopic, name: str
) -> None:
    topic = new_topic(partitions=4)
    quick = {
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 6_000,
    }

    async def wait_for(first: Any, second: Any, sizes: set[int]) -> None:
        while {len(first.assignment()), len(second.assignment())} != sizes:  # noqa: ASYNC110 - the client tells nobody
            await asyncio.sleep(0.05)

    async def main() -> None:
        async with consumer(bootstrap, topic, group_id=name, **quick) as first:
            async with consumer(bootstrap, topic, group_id=name, **quick) as second:
                await asyncio.wait_for(wait_for(first, second, {2}), WAIT_SECONDS)
                assert not first.assignment() & second.assignment()
            await asyncio.wait_for(wait_for(first, first, {4}), WAIT_SECONDS)

    run(main)


def test_a_static_member_goes_on_where_it_committed(bootstrap: str, topic: str, name: str) -> None:
    async def main() -> None:
        await fill(bootstrap, topic, 2)
        for expected in (0, 1):
            async with consumer(
                bootstrap, topic, group_id=name, group_instance_id="static"
            ) as member:
                (record,) = await take(member, 1)
                assert record.offset == expected
                await member.commit({aiokafka.TopicPartition(topic, 0): expected + 1})

    run(main)


def test_topics_groups_and_configs_are_administered(bootstrap: str, name: str) -> None:
    async def main() -> None:
        async with admin(bootstrap) as client:
            await client.create_topics([aiokafka.admin.NewTopic(name, 2, 1)])
            while name not in await client.list_topics():  # noqa: ASYNC110 - a broker may hear of it after the controller
                await asyncio.sleep(0.05)
            (described,) = await client.describe_topics([name])
            assert len(described["partitions"]) == 2
            await client.create_partitions({name: aiokafka.admin.NewPartitions(3)})
            resource = aiokafka.admin.config_resource.ConfigResource(
                aiokafka.admin.config_resource.ConfigResourceType.TOPIC, name
            )
            (answer,) = await client.describe_configs([resource])
            (configs,) = answer.resources
            assert {entry[0]: entry[1] for entry in configs[4]}["cleanup.policy"] == "delete"
            async with consumer(bootstrap, group_id=name) as member:
                member.assign([aiokafka.TopicPartition(name, 0)])
                await member.commit({aiokafka.TopicPartition(name, 0): 0})
            assert (name, "consumer") in await client.list_consumer_groups() or (
                name,
                "",
            ) in await client.list_consumer_groups()
            assert (await client.list_consumer_group_offsets(name))[
                aiokafka.TopicPartition(name, 0)
            ].offset == 0
            await client.delete_topics([name])
            while name in await client.list_topics():  # noqa: ASYNC110 - nobody tells when it is gone
                await asyncio.sleep(0.05)

    run(main)
