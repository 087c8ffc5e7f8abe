"""Our client against real clusters, tidelog's and Apache Kafka's: the same tests, the same outcome."""

import itertools
import time
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
import trio

from log_service.client import (
    Admin,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ConfigResource,
    Consumer,
    ErrorCode,
    ItemsFailed,
    KafkaError,
    NewTopic,
    OffsetSpec,
    Producer,
    TopicPartition,
    read_range,
    read_range_arrow,
)
from tests.integration.client_clusters import CLUSTERS, ClusterPool, read_all, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

names = itertools.count()


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(request: pytest.FixtureRequest, pool: ClusterPool) -> str:
    return pool.servers(request.param)


@pytest.fixture(scope="module")
def is_tidelog(request: pytest.FixtureRequest, bootstrap: str) -> bool:
    with BlockingAdmin(bootstrap) as admin:
        return admin.describe_cluster().is_tidelog


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A new topic with three partitions."""
    name = f"topic-{next(names)}"
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=3, replication_factor=1)])
    return name


# Producing and consuming


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(bootstrap: str, topic: str, compression: str) -> None:
    headers = (("h", b"1"), ("h", None))

    async def main() -> None:
        async with Producer(bootstrap, compression=compression, linger_ms=20) as producer:
            deliveries = [
                await producer.send(
                    topic,
                    b"value %d" % index * 20,
                    key=b"k",
                    headers=headers,
                    timestamp_ms=1_000 + index,
                )
                for index in range(200)
            ]
            await producer.send(topic, None, key=b"k")
            metadata = [await delivery.wait() for delivery in deliveries]
        assert [each.offset for each in metadata] == list(range(200))
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, metadata[0].partition)])
            records = await read_all(consumer, 201)
        assert [record.value for record in records[:200]] == [
            b"value %d" % index * 20 for index in range(200)
        ]
        assert (records[7].offset, records[7].timestamp_ms, records[7].timestamp_type) == (
            7,
            1_007,
            "CreateTime",
        )
        assert (records[7].key, records[7].headers, records[200].value) == (b"k", headers, None)

    run(main)


def test_keys_go_where_librdkafka_puts_them(bootstrap: str, topic: str) -> None:
    keys = [b"key-%d" % index for index in range(200)]
    placed: dict[bytes, int] = {}
    theirs = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"}
    )

    def place(error: Any, message: Any) -> None:
        placed[message.key()] = message.partition()

    for key in keys:
        theirs.produce(topic, b"", key=key, on_delivery=place)
    assert theirs.flush(30) == 0
    with BlockingProducer(bootstrap) as producer:
        ours = [producer.send(topic, b"", key=key) for key in keys]
        assert {
            key: delivery.wait().partition for key, delivery in zip(keys, ours, strict=True)
        } == placed


def test_what_we_produce_librdkafka_reads_and_the_other_way(bootstrap: str, topic: str) -> None:
    with BlockingProducer(bootstrap, compression="lz4") as producer:
        for index in range(500):
            producer.send(topic, b"ours %d" % index, partition=0)
    theirs = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    for index in range(500):
        theirs.produce(topic, b"theirs %d" % index, partition=0)
    assert theirs.flush(30) == 0
    expected = [b"ours %d" % index for index in range(500)] + [
        b"theirs %d" % index for index in range(500)
    ]
    with BlockingConsumer(
        bootstrap, auto_offset_reset="earliest", max_poll_records=100
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen: list[bytes] = []
        while len(seen) < 1_000:
            seen += [record.value for record in consumer.poll()]
    assert seen == expected
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    theirs_seen: list[Any] = []
    while len(theirs_seen) < 1_000:
        theirs_seen += [message.value() for message in reader.consume(100, 5.0)]
    reader.close()
    assert theirs_seen == expected


def test_a_consumer_seeks_pauses_and_tells_its_position(bootstrap: str, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def main() -> None:
        async with Producer(bootstrap) as producer:
            for index in range(100):
                for partition in (0, 1):
                    await producer.send(
                        topic, b"%d" % index, partition=partition, timestamp_ms=10_000 + index
                    )
        async with Consumer(
            bootstrap, auto_offset_reset="earliest", max_poll_records=10
        ) as consumer:
            consumer.assign([first, second])
            assert await consumer.position(first) == 0
            consumer.pause([second])
            assert {record.partition for record in await read_all(consumer, 100)} == {0}
            assert await consumer.position(first) == 100
            await consumer.seek(first, 95)
            assert [record.offset for record in await read_all(consumer, 5)] == [95, 96, 97, 98, 99]
            consumer.resume([second])
            assert [record.partition for record in await read_all(consumer, 100)] == [1] * 100
            assert await consumer.seek_to_time({first: 10_042, second: 99_999}) == {
                first: 42,
                second: 100,
            }
            assert (await consumer.poll())[0].offset == 42
            await consumer.seek_to_end()
            assert (await consumer.position(first), consumer.lag(first)) == (100, 0)
            await consumer.seek_to_beginning([second])
            assert (await consumer.poll())[0].value == b"0"

    run(main)


def test_an_offset_out_of_range_is_reset_or_told(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with Producer(bootstrap) as producer:
            for index in range(10):
                await producer.send(topic, b"%d" % index, partition=0)
        async with Admin(bootstrap) as admin:
            assert await admin.delete_records({partition: 4}) == {partition: 4}
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([partition])
            await consumer.seek(partition, 1)
            assert (await read_all(consumer, 1))[0].offset == 4
        async with Consumer(bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign([partition])
            with pytest.raises(KafkaError, match="auto_offset_reset is none"):
                await read_all(consumer, 1)
            await consumer.seek(partition, 1)
            with pytest.raises(KafkaError) as caught:
                await read_all(consumer, 1)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            await consumer.seek(partition, 5)
            assert (await read_all(consumer, 1))[0].offset == 5

    run(main)


def test_committed_offsets_are_where_the_next_consumer_begins(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    heard: list[object] = []

    async def main() -> None:
        async with Producer(bootstrap) as producer:
            for index in range(30):
                await producer.send(topic, b"%d" % index, partition=0)
        settings: dict[str, Any] = {
            "group_id": f"by-hand-{topic}",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        async with Consumer(bootstrap, **settings) as consumer:
            consumer.assign([partition])
            await read_all(consumer, 30)
            await consumer.commit({partition: 12})
            answered = trio.Event()

            def hear(offsets: Any, error: KafkaError | None) -> None:
                heard.append((offsets[partition].offset, error))
                answered.set()

            consumer.commit_soon({partition: 17}, hear)
            await answered.wait()
            assert heard == [(17, None)]
            assert (await consumer.committed([partition, TopicPartition(topic, 1)]))[
                partition
            ].offset == 17
        async with Consumer(bootstrap, **settings) as consumer:
            consumer.assign([partition])
            assert (await read_all(consumer, 1))[0].offset == 17
        async with Admin(bootstrap) as admin:
            assert (await admin.list_group_offsets(f"by-hand-{topic}"))[partition].offset == 17

    run(main)


def test_a_blocking_consumer_left_by_an_exception_commits_nothing(
    bootstrap: str, topic: str
) -> None:
    settings: dict[str, Any] = {"group_id": f"left-{topic}", "auto_offset_reset": "earliest"}
    with BlockingProducer(bootstrap) as producer:
        producer.send(topic, b"x", partition=0)

    def fail_at_work() -> None:
        with BlockingConsumer(bootstrap, **settings) as consumer:
            consumer.subscribe([topic])
            while not consumer.poll():
                pass
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at_work()
    with BlockingAdmin(bootstrap) as admin:
        assert admin.list_group_offsets(f"left-{topic}") == {}


def test_a_blocking_loop_may_be_left_anywhere(bootstrap: str, topic: str) -> None:
    values = [b"%d" % index for index in range(10)]
    with BlockingProducer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    seen: list[bytes] = []
    while len(seen) < len(values):
        with BlockingConsumer(
            bootstrap, group_id=f"loop-{topic}", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([topic])
            for count, record in enumerate(consumer, 1):
                seen.append(record.value)
                if count == 4 or len(seen) == len(values):
                    break
    assert seen == values


def test_a_blocking_producer_left_by_an_exception_delivers_what_it_took(
    bootstrap: str, topic: str
) -> None:
    def fail_at_work() -> None:
        with BlockingProducer(bootstrap, linger_ms=10_000) as producer:
            producer.send(topic, b"taken", partition=0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_at_work()
    with BlockingAdmin(bootstrap) as admin:
        assert admin.describe_offsets([topic])[TopicPartition(topic, 0)].high_watermark == 1


# Groups


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_and_take_over(bootstrap: str, topic: str, strategy: str) -> None:
    everything = {TopicPartition(topic, number) for number in range(3)}

    async def main() -> None:
        settings: dict[str, Any] = {
            "group_id": f"group-{topic}",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
            "partition_assignment_strategy": (strategy,),
        }
        async with Consumer(bootstrap, **settings) as first:
            await first.subscribe([topic])
            while set(first.assignment) != everything:
                await first.poll(timeout_ms=100)
            async with Consumer(bootstrap, **settings) as second:
                await second.subscribe([topic])
                while not (
                    second.assignment and {*first.assignment, *second.assignment} == everything
                ):
                    await first.poll(timeout_ms=50)
                    await second.poll(timeout_ms=50)
                assert not set(first.assignment) & set(second.assignment)
                assert sorted((len(first.assignment), len(second.assignment))) == [1, 2]
                async with Admin(bootstrap) as admin:
                    group = (await admin.describe_groups([f"group-{topic}"]))[f"group-{topic}"]
                    assert (group.state, group.assignor, len(group.members)) == (
                        "Stable",
                        strategy,
                        2,
                    )
                    assert {
                        each for member in group.members for each in member.assignment
                    } == everything
            while set(first.assignment) != everything:
                await first.poll(timeout_ms=100)

    run(main)


def test_callbacks_hear_of_every_change_and_may_commit(bootstrap: str, topic: str) -> None:
    heard: list[tuple[str, int]] = []

    async def main() -> None:
        async with Producer(bootstrap) as producer:
            for index in range(30):
                await producer.send(topic, b"%d" % index, partition=index % 3)
        settings: dict[str, Any] = {
            "group_id": f"callbacks-{topic}",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 100,
        }
        async with Consumer(bootstrap, **settings) as first:

            async def on_revoked(partitions: object) -> None:
                heard.append(("revoked", len(first.assignment)))
                await first.commit()

            await first.subscribe(
                [topic],
                on_assigned=lambda each: heard.append(("assigned", len(each))),
                on_revoked=on_revoked,
            )
            await read_all(first, 30)
            async with Consumer(bootstrap, **settings) as second:
                await second.subscribe([topic])
                while not second.assignment:
                    assert await first.poll(timeout_ms=50) == []
                    assert await second.poll(timeout_ms=50) == [], (
                        "what was committed on revocation is not read again"
                    )
                    await first.poll(timeout_ms=50)
                assert await second.poll(timeout_ms=300) == []
        assert heard[:3] == [
            ("assigned", 3),
            ("revoked", 3),
            ("assigned", len(first.assignment) or heard[2][1]),
        ]

    run(main)


def test_one_group_of_our_consumer_and_librdkafkas(bootstrap: str, topic: str) -> None:
    group = f"mixed-{topic}"
    everything = {(topic, number) for number in range(3)}
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "heartbeat.interval.ms": 100,
        }
    )
    try:
        theirs.subscribe([topic])
        settings: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 100,
        }
        with BlockingConsumer(
            bootstrap, partition_assignment_strategy=("range",), **settings
        ) as ours:
            ours.subscribe([topic])
            deadline = time.monotonic() + 40
            while True:
                theirs.poll(0.05)
                ours.poll(timeout_ms=50)
                their_partitions = {(each.topic, each.partition) for each in theirs.assignment()}
                if (
                    their_partitions
                    and ours.assignment
                    and their_partitions | {tuple(each) for each in ours.assignment} == everything
                ):
                    break
                assert time.monotonic() < deadline, (their_partitions, ours.assignment)
            assert not their_partitions & {tuple(each) for each in ours.assignment}
        deadline = time.monotonic() + 40
        while {(each.topic, each.partition) for each in theirs.assignment()} != everything:
            theirs.poll(0.1)
            assert time.monotonic() < deadline
    finally:
        theirs.close()


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        settings: dict[str, Any] = {
            "group_id": f"static-{topic}",
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 10_000,
        }
        async with Consumer(bootstrap, **settings) as other:
            async with Consumer(bootstrap, group_instance_id="one", **settings) as first:
                await first.subscribe([topic])
                await other.subscribe([topic])
                while not (first.assignment and other.assignment):
                    await first.poll(timeout_ms=50)
                    await other.poll(timeout_ms=50)
                before = (first.assignment, other.assignment)
            async with Consumer(bootstrap, group_instance_id="one", **settings) as again:
                await again.subscribe([topic])
                while not again.assignment:
                    await again.poll(timeout_ms=50)
                    await other.poll(timeout_ms=50)
                assert (again.assignment, other.assignment) == before

    run(main)


async def commit_until_refused(consumer: Consumer) -> None:
    while True:
        await consumer.commit(dict.fromkeys(consumer.assignment, 1))
        await trio.sleep(0.1)


def test_a_member_that_does_not_poll_loses_its_partitions(bootstrap: str, topic: str) -> None:
    lost: list[object] = []

    async def main() -> None:
        settings: dict[str, Any] = {
            "group_id": f"slow-{topic}",
            "heartbeat_interval_ms": 100,
            "max_poll_interval_ms": 1_000,
        }
        async with Consumer(bootstrap, **settings) as slow:
            await slow.subscribe([topic], on_lost=lost.extend)
            while not slow.assignment:
                await slow.poll(timeout_ms=50)
            with pytest.raises(KafkaError) as caught:
                await commit_until_refused(slow)
            assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
            while not lost:
                await slow.poll(timeout_ms=50)
            while len(slow.assignment) != 3:
                await slow.poll(timeout_ms=50)

    run(main)
    assert len(lost) == 3


# Administration


def test_topics_are_created_grown_configured_and_deleted(bootstrap: str) -> None:
    name, resource = "administered", ConfigResource.topic("administered")
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics(
            [
                NewTopic(
                    name=name,
                    partition_count=2,
                    replication_factor=1,
                    configs={"retention.bytes": "777000"},
                )
            ]
        )
        with pytest.raises(ItemsFailed) as caught:
            admin.create_topics(
                [NewTopic(name=name), NewTopic(name="administered-too", partition_count=1)]
            )
        assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert (list(caught.value.errors), list(caught.value.results)) == (
            [name],
            ["administered-too"],
        )
        admin.create_partitions({name: 5})
        assert admin.describe_topics([name])[name].partition_count == 5
        assert {"administered", "administered-too"} <= {
            listing.name for listing in admin.list_topics()
        }
        admin.alter_configs({resource: {"retention.bytes": None, "segment.bytes": "1048600"}})
        deadline = time.monotonic() + 30
        while (configs := admin.describe_configs([resource])[resource])[
            "segment.bytes"
        ].value != "1048600":
            assert time.monotonic() < deadline, (
                "Apache Kafka responds before everything of a change is in place; it has to be in the end"
            )
            time.sleep(0.05)
        assert configs["segment.bytes"].source == "DYNAMIC_TOPIC_CONFIG"
        assert configs["retention.bytes"].is_default
        with pytest.raises(ItemsFailed, match="administered"):
            admin.alter_configs({resource: {"no.such.key": "1"}})
        admin.delete_topics([name, "administered-too"])
        with pytest.raises(ItemsFailed) as caught:
            admin.describe_topics([name])
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_are_found_by_time_and_by_epoch(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with BlockingProducer(bootstrap) as producer:
        for index in range(10):
            producer.send(
                topic, b"", partition=0, timestamp_ms=5_000 + (index if index != 3 else 90)
            )
    with BlockingAdmin(bootstrap) as admin:
        found = {
            name: admin.list_offsets({partition: spec})[partition]
            for name, spec in {
                "earliest": OffsetSpec.earliest(),
                "latest": OffsetSpec.latest(),
                "max": OffsetSpec.max_timestamp(),
                "at": OffsetSpec.at(5_007),
                "never": OffsetSpec.at(9_999_999),
            }.items()
        }
        assert [found[name].offset for name in ("earliest", "latest", "max", "at", "never")] == [
            0,
            10,
            3,
            3,
            -1,
        ]
        assert found["max"].timestamp_ms == 5_090
        offsets = admin.describe_offsets([topic])
        assert (
            offsets[partition].log_start_offset,
            offsets[partition].high_watermark,
            offsets[partition].last_stable_offset,
        ) == (
            0,
            10,
            10,
        )
        assert offsets[partition].topic_id == admin.describe_topics([topic])[topic].topic_id
        epoch = offsets[partition].leader_epoch
        assert admin.offsets_for_leader_epoch({partition: epoch})[partition].end_offset == 10


def test_waiting_for_records_ends_with_the_first_one(bootstrap: str, topic: str) -> None:
    watched, empty = TopicPartition(topic, 1), TopicPartition(topic, 0)

    async def main() -> None:
        async with Admin(bootstrap) as admin, Producer(bootstrap, linger_ms=0) as producer:
            assert await admin.wait_for_records({watched: 0, empty: 0}, 300) == set()

            async def produce_later() -> None:
                await trio.sleep(0.3)
                await producer.send(topic, b"x", partition=1)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(produce_later)
                started = trio.current_time()
                assert await admin.wait_for_records({watched: 0, empty: 0}, 20_000) == {watched}
                assert trio.current_time() - started < 5
            with trio.move_on_after(0.2):
                await admin.wait_for_records({empty: 0}, 20_000)
            assert await admin.wait_for_records({watched: 0}, 20_000) == {watched}, (
                "a cancelled wait does not hold up the next"
            )

    run(main)


def test_groups_are_listed_altered_and_deleted(bootstrap: str, topic: str) -> None:
    group, partition = f"administered-{topic}", TopicPartition(topic, 2)
    with BlockingAdmin(bootstrap) as admin:
        admin.alter_group_offsets(group, {partition: 42})
        assert admin.list_group_offsets(group)[partition].offset == 42
        assert group in {listing.group_id for listing in admin.list_groups()}
        assert admin.describe_groups([group])[group].state == "Empty"
        admin.delete_groups([group])
        assert admin.list_group_offsets(group) == {}
        with pytest.raises(ItemsFailed) as caught:
            admin.delete_groups([group])
        assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_retention_is_applied_now_or_the_broker_says_that_it_cleans_by_itself(
    bootstrap: str, topic: str, *, is_tidelog: bool
) -> None:
    with BlockingAdmin(bootstrap) as admin:
        if is_tidelog:
            results = admin.apply_retention([topic])
            assert {(each.topic, each.partition) for each in results} == {
                (topic, number) for number in range(3)
            }
        else:
            with pytest.raises(KafkaError, match="its brokers clean by themselves") as caught:
                admin.apply_retention([topic])
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert admin.describe_topics([topic])[topic].partition_count == 3, (
            "the connection is still good"
        )


def test_compaction_is_applied_now_or_the_broker_says_that_it_cleans_by_itself(
    bootstrap: str, topic: str, *, is_tidelog: bool
) -> None:
    with BlockingAdmin(bootstrap) as admin:
        if is_tidelog:
            admin.alter_configs({ConfigResource.topic(topic): {"cleanup.policy": "compact"}})
            results = admin.apply_compaction([topic])
            assert {(each.topic, each.partition, each.pass_count) for each in results} == {
                (topic, number, 0) for number in range(3)
            }
        else:
            with pytest.raises(KafkaError, match="its brokers clean by themselves") as caught:
                admin.apply_compaction([topic])
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


# Offset ranges


def test_a_range_is_read_exactly(bootstrap: str, topic: str) -> None:
    with BlockingProducer(bootstrap, batch_size=500, compression="zstd") as producer:
        for index in range(1_000):
            producer.send(
                topic, b"value %d" % index, key=b"%d" % index, partition=0, timestamp_ms=index
            )
    tables = list(read_range_arrow(bootstrap, (topic, 0), 123, 877))
    offsets = [offset for table in tables for offset in table.column("offset").to_pylist()]
    values = [value for table in tables for value in table.column("value").to_pylist()]
    assert offsets == list(range(123, 877))
    assert values == [b"value %d" % index for index in range(123, 877)]
    assert list(read_range_arrow(bootstrap, (topic, 0), 5, 5)) == []


def test_a_range_ends_with_its_position_although_its_last_offsets_hold_no_records(
    bootstrap: str, topic: str
) -> None:
    """Markers of transactions take offsets; aborted records are left out."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}"}
    )
    producer.init_transactions(30)
    for is_committed in (True, False, True, False):
        producer.begin_transaction()
        for index in range(5):
            producer.produce(
                topic, b"%s %d" % (b"kept" if is_committed else b"aborted", index), partition=0
            )
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    kept = [b"kept %d" % index for index in range(5)] * 2

    async def main() -> None:
        async with Admin(bootstrap) as admin:
            partition = TopicPartition(topic, 0)
            end = 0
            with trio.fail_after(30):
                # A transaction's markers are written after its end was acknowledged.
                while end < 24:
                    await trio.sleep(0.05)
                    end = (await admin.describe_offsets([topic]))[partition].last_stable_offset
            assert end == 24
            positions = [
                chunk.position
                async for chunk in read_range(admin, partition, 0, end, max_bytes=100)
            ]
            assert positions[-1] == end
        async with Consumer(
            bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign([partition])
            assert [record.value for record in await read_all(consumer, 10)] == kept

    run(main)
    values = [
        value
        for table in read_range_arrow(bootstrap, (topic, 0), 0, 24)
        for value in table.column("value").to_pylist()
    ]
    assert values == kept


def test_a_range_that_is_not_there_is_an_error(bootstrap: str, topic: str) -> None:
    with BlockingProducer(bootstrap) as producer:
        for _ in range(5):
            producer.send(topic, b"x", partition=0)
    partition = TopicPartition(topic, 0)
    with BlockingAdmin(bootstrap) as admin:
        admin.delete_records({partition: 2})
        for start, end in ((0, 5), (6, 8)):
            with pytest.raises(KafkaError) as caught:
                list(admin.read_range(partition, start, end))
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(KafkaError, match="stood still at 5 for 700 ms"):
            list(admin.read_range(partition, 2, 9, timeout_ms=700))
        with pytest.raises(ValueError, match="is not a range"):
            list(admin.read_range(partition, 4, 3))
