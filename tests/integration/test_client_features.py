"""Our client keeps its further promises on tidelog and on Apache Kafka.

Both have the same tests with the same outcome.
"""

import itertools
import re
from typing import Any

import pytest
import trio

from log_service.client import (
    Admin,
    BlockingAdmin,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ProducerRecord,
    RecordDeserializationError,
    TopicPartition,
)
from tests.integration.client_clusters import CLUSTERS, ClusterPool, read_all, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

names = itertools.count()


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(request: pytest.FixtureRequest, pool: ClusterPool) -> str:
    return pool.servers(request.param)


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A new topic with three partitions."""
    name = f"feature-{next(names)}"
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=3, replication_factor=1)])
    return name


async def produce(
    bootstrap: str, topic: str, count: int, *, partitions: int = 1, **settings: Any
) -> None:
    async with Producer(bootstrap, linger_ms=0, **settings) as producer:
        for index in range(count):
            await producer.send(topic, b"%d" % index, partition=index % partitions)


# Sending


def test_interceptors_serializers_and_deserializers_are_plain_functions(
    bootstrap: str, topic: str
) -> None:
    def stamp(record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=(*record.headers, ("stamp", b"1")))

    async def main() -> None:
        settings: dict[str, Any] = {
            "value_serializer": str,
            "key_serializer": repr,
            "interceptors": [stamp],
        }
        async with Producer(bootstrap, **settings) as producer:
            await producer.send(topic, 7, key=("a", 1), partition=0)
            await producer.send(topic, None, partition=0)
        evens: list[int] = []
        async with Consumer(
            bootstrap,
            auto_offset_reset="earliest",
            value_deserializer=int,
            key_deserializer=bytes.decode,
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            seven, null = await read_all(consumer, 2)
        assert (seven.value, seven.key, seven.headers) == (7, "('a', 1)", (("stamp", b"1"),))
        assert (null.value, null.key, evens) == (None, None, [])

    run(main)


@pytest.mark.parametrize(
    ("acks", "is_idempotent", "offset"), [("all", True, 1), ("1", False, 1), ("0", False, -1)]
)
def test_acks(bootstrap: str, topic: str, acks: str, offset: int, *, is_idempotent: bool) -> None:
    async def main() -> None:
        # The partition leads: without acks a refusal would lose the record.
        await produce(bootstrap, topic, 2, partitions=2)
        async with Producer(bootstrap, acks=acks, enable_idempotence=is_idempotent) as producer:
            delivery = await producer.send(topic, b"x", partition=1)
            assert (await delivery.wait()).offset == offset
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 1)])
            assert [record.value for record in await read_all(consumer, 2)] == [b"1", b"x"]

    run(main)


@pytest.mark.parametrize(
    ("compression", "level"), [("gzip", 9), ("lz4", 12), ("zstd", 19), ("zstd", -5)]
)
def test_every_codec_has_its_levels(
    bootstrap: str, topic: str, compression: str, level: int
) -> None:
    async def main() -> None:
        await produce(bootstrap, topic, 300, compression=compression, compression_level=level)
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert [record.value for record in await read_all(consumer, 300)] == [
                b"%d" % index for index in range(300)
            ]

    run(main)


def test_a_producer_goes_on_when_its_topic_is_made_anew(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap, linger_ms=0) as producer, Admin(bootstrap) as admin:
            for _ in range(3):
                await (await producer.send(topic, b"before", partition=0)).wait()
            await admin.delete_topics([topic])
            await admin.create_topics(
                [NewTopic(name=topic, partition_count=1, replication_factor=1)]
            )
            deliveries = [
                await producer.send(topic, b"%d" % index, partition=0) for index in range(5)
            ]
            assert [(await delivery.wait()).offset for delivery in deliveries] == list(range(5))

    run(main)


def test_a_producer_uses_partitions_that_were_added(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap, linger_ms=0) as producer, Admin(bootstrap) as admin:
            await (await producer.send(topic, b"x")).wait()
            await admin.create_partitions({topic: 6})
            assert (await (await producer.send(topic, b"x", partition=5)).wait()).partition == 5
        async with Producer(bootstrap, max_block_ms=500) as producer:
            with pytest.raises(KafkaError, match="has partitions 0 to 5"):
                await producer.send(topic, b"x", partition=6)

    run(main)


# Reading


def test_a_record_that_cannot_be_deserialized_is_named_and_skipped(
    bootstrap: str, topic: str
) -> None:
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with Producer(bootstrap) as producer:
            for value in (b"1", b"2", b"three", b"4"):
                await producer.send(topic, value, partition=0)
        async with Consumer(
            bootstrap, auto_offset_reset="earliest", value_deserializer=int
        ) as consumer:
            consumer.assign([partition])
            assert [record.value for record in await read_all(consumer, 2)] == [1, 2]
            with pytest.raises(RecordDeserializationError) as caught:
                await read_all(consumer, 1)
            assert (caught.value.topic_partition, caught.value.offset) == (partition, 2)
            await consumer.seek(partition, caught.value.offset + 1)
            assert [record.value for record in await read_all(consumer, 1)] == [4]

    run(main)


def test_a_pattern_takes_new_topics_in(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "metadata_max_age_ms": 300,
            "heartbeat_interval_ms": 100,
        }
        async with (
            Consumer(bootstrap, group_id=f"pattern-{topic}", **settings) as consumer,
            Admin(bootstrap) as admin,
        ):
            await consumer.subscribe(re.compile(f"{topic}(-more)?"))
            while len(consumer.assignment) < 3:
                await consumer.poll(timeout_ms=100)
            await admin.create_topics(
                [
                    NewTopic(name=f"{topic}-{end}", partition_count=2, replication_factor=1)
                    for end in ("more", "other")
                ]
            )
            while len(consumer.assignment) < 5:
                await consumer.poll(timeout_ms=100)
            assert consumer.subscription == {topic, f"{topic}-more"}
            await admin.delete_topics([f"{topic}-more"])
            while len(consumer.assignment) > 3:
                await consumer.poll(timeout_ms=100)

    run(main)


def test_nothing_of_paused_partitions_comes_while_the_others_flow(
    bootstrap: str, topic: str
) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def main() -> None:
        await produce(bootstrap, topic, 400, partitions=2)
        async with Consumer(
            bootstrap, auto_offset_reset="earliest", max_poll_records=20, queued_max_bytes=2_000
        ) as consumer:
            consumer.assign([first, second])
            seen: dict[TopicPartition, list[int]] = {first: [], second: []}
            for turn in range(20):
                paused, read = (first, second) if turn % 2 else (second, first)
                consumer.resume([read])
                consumer.pause([paused])
                for record in await consumer.poll(timeout_ms=2_000):
                    assert record.topic_partition == read
                    seen[read].append(record.offset)
            assert all(
                offsets == list(range(len(offsets))) and offsets for offsets in seen.values()
            )

    run(main)


def test_many_idle_partitions_go_through_sessions(bootstrap: str) -> None:
    name = f"sessions-{next(names)}"

    async def main() -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics(
                [NewTopic(name=name, partition_count=40, replication_factor=1)]
            )
        async with (
            Producer(bootstrap, linger_ms=0) as producer,
            Consumer(bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TopicPartition(name, number) for number in range(40)])
            await consumer.poll(timeout_ms=1_200)
            for turn in range(30):
                await producer.send(name, b"%d" % turn, partition=turn * 7 % 40)
                assert [record.value for record in await read_all(consumer, 1)] == [b"%d" % turn]
            ((_, session),) = consumer._fetcher._exchange._sessions.values()
            assert session.is_open

    run(main)


def test_a_reset_by_duration_begins_with_the_records_that_are_young_enough(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with Producer(bootstrap) as producer:
            now_ms = producer.wall_ms()
            for age_s in (7_200, 3_700, 3_500, 10):
                await producer.send(
                    topic, b"%d" % age_s, partition=0, timestamp_ms=now_ms - age_s * 1_000
                )
        async with Consumer(bootstrap, auto_offset_reset="by_duration:PT1H") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert [record.value for record in await read_all(consumer, 2)] == [b"3500", b"10"]
        async with Consumer(bootstrap, auto_offset_reset="by_duration:PT1S") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            assert await consumer.position(TopicPartition(topic, 0)) == 4

    run(main)


def test_ends_times_and_lag_are_told_without_an_assignment(bootstrap: str, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def main() -> None:
        await produce(bootstrap, topic, 10, partitions=2)
        async with Admin(bootstrap) as admin:
            await admin.delete_records({first: 2})
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            assert await consumer.beginning_offsets([first, second]) == {first: 2, second: 0}
            assert await consumer.end_offsets([first, second]) == {first: 5, second: 5}
            assert (await consumer.offsets_for_times({second: 0}))[second].offset == 0
            consumer.assign([first])
            assert await consumer.current_lag(first) == 3
            await read_all(consumer, 3)
            assert consumer.lag(first) == 0

    run(main)


def test_commits_carry_epoch_and_metadata_and_keep_their_order(bootstrap: str, topic: str) -> None:
    partition, heard = TopicPartition(topic, 0), []

    async def main() -> None:
        settings: dict[str, Any] = {
            "group_id": f"commits-{topic}",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        await produce(bootstrap, topic, 30)
        async with Consumer(bootstrap, **settings) as consumer:
            consumer.assign([partition])
            for offset in range(1, 21):
                consumer.commit_soon(
                    {partition: offset},
                    lambda offsets, error: heard.append((offsets[partition].offset, error)),
                )
            consumer.commit_soon(
                {partition: OffsetAndMetadata(offset=21, leader_epoch=0, metadata="so far")}
            )
        assert heard == [(offset, None) for offset in range(1, 21)]
        async with Consumer(bootstrap, **settings) as consumer:
            assert (await consumer.committed([partition]))[partition] == OffsetAndMetadata(
                offset=21, leader_epoch=0, metadata="so far"
            )
            consumer.assign([partition])
            assert (await read_all(consumer, 1))[0].offset == 21

    run(main)


def test_what_is_counted_agrees_with_what_happened(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap, linger_ms=20) as producer:
            for index in range(100):
                await producer.send(topic, b"%d" % index, partition=0)
            await producer.flush()
            sent = producer.metrics()
        assert (sent.record_send_total, sent.record_error_total, sent.requests_in_flight) == (
            100,
            0,
            0,
        )
        assert sent.buffer_available_bytes == sent.buffer_total_bytes
        async with Consumer(
            bootstrap,
            group_id=f"counted-{topic}",
            auto_offset_reset="earliest",
            max_poll_records=40,
        ) as consumer:
            await consumer.subscribe([topic])
            taken = len(await read_all(consumer, 40))
            await consumer.commit()
            read = consumer.metrics()
        assert (read.records_consumed_total, read.records_lag_max, read.rebalance_total) == (
            taken,
            100 - taken,
            1,
        )
        assert read.commit_total >= 1
        assert sent.named()["record-send-total"] == 100

    run(main)


def test_a_topic_that_comes_later_is_read_when_it_is_there(bootstrap: str) -> None:
    name = f"later-{next(names)}"

    async def main() -> None:
        settings: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "allow_auto_create_topics": False,
        }
        async with Consumer(bootstrap, **settings) as consumer, Admin(bootstrap) as admin:
            consumer.assign([TopicPartition(name, 0)])
            assert await consumer.poll(timeout_ms=500) == []
            await admin.create_topics(
                [NewTopic(name=name, partition_count=1, replication_factor=1)]
            )
            await produce(bootstrap, name, 1)
            assert len(await read_all(consumer, 1)) == 1

    run(main)


def test_an_admin_has_a_deadline_and_names_who_did_not_answer(bootstrap: str) -> None:
    async def main() -> None:
        async with Admin(f"127.0.0.1:1,{bootstrap}", default_api_timeout_ms=20_000) as admin:
            assert (await admin.describe_cluster()).nodes, "one of two bootstrap servers is enough"
        async with Admin("127.0.0.1:1") as admin:
            started = trio.current_time()
            with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1") as caught:
                await admin.list_topics(timeout_ms=700)
            assert caught.value.code in {ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
            assert trio.current_time() - started < 3

    run(main)
