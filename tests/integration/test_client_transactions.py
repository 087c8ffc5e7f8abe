"""Our transactional producer, its three faces and the admin work with real coordinators.

``version 2`` is a cluster whose leaders add partitions to transactions by themselves (KIP-890),
``version 0`` an older one, to which the producer announces them first.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
import trio

from log_service.client import (
    Admin,
    AsyncioProducer,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    Consumer,
    ConsumerGroupMetadata,
    ConsumerRecord,
    ErrorCode,
    ItemsFailed,
    KafkaError,
    NewTopic,
    Producer,
    ProducerFailed,
    ProducerFenced,
    TopicPartition,
    TransactionAbortable,
)
from tests.integration.client_clusters import APACHE_KAFKA, TIDELOG, cluster, run
from tests.integration.transactional_writer import leave_hanging

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.partition.verification.enable": "false",  # lets a test leave a transaction open that no coordinator knows
}
SIDES = {
    "tidelog": (TIDELOG, 2),
    "kafka, version 2": (APACHE_KAFKA, 2),
    "kafka, version 0": (APACHE_KAFKA, 0),
}
names = itertools.count()


@pytest.fixture(scope="module", params=SIDES)
def side(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int]]:
    """The bootstrap servers, and the cluster's level of transaction.version."""
    name, level = SIDES[request.param]
    features = {} if level == 2 else {"transaction.version": level}
    with cluster(name, tmp_path_factory.mktemp("cluster"), PROPERTIES, features) as servers:
        yield servers, level


@pytest.fixture
def bootstrap(side: tuple[str, int]) -> str:
    return side[0]


@pytest.fixture
def is_version_2(side: tuple[str, int]) -> bool:
    return side[1] == 2


@pytest.fixture
def name() -> str:
    return f"transactions-{next(names)}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=2, replication_factor=1)])
    return name


def read(bootstrap: str, topic: str, isolation_level: str = "read_committed") -> list[bytes | None]:
    """Return the records that a reader sees, by partition and offset.

    It reads up to the end of all markers.
    """
    with (
        BlockingAdmin(bootstrap) as admin,
        BlockingConsumer(bootstrap, isolation_level=isolation_level) as consumer,
    ):
        deadline = time.monotonic() + 30
        while any(
            each.last_stable_offset < each.high_watermark
            for each in admin.describe_offsets([topic]).values()
        ):
            assert time.monotonic() < deadline, (
                "the last stable offset does not come to the high watermark"
            )
            time.sleep(0.05)
        partitions = [
            TopicPartition(topic, number) for number in range(consumer.partitions_for(topic))
        ]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found = []
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            found += consumer.poll(timeout_ms=500)
    return [
        record.value
        for record in sorted(found, key=lambda record: (record.partition, record.offset))
    ]


async def until_state(admin: Admin, transactional_id: str, state: str) -> None:
    while (await admin.describe_transactions([transactional_id]))[transactional_id].state != state:  # noqa: ASYNC110 - the broker's
        await trio.sleep(0.05)


def test_readers_of_committed_records_see_whole_transactions(
    bootstrap: str, topic: str, name: str
) -> None:
    async def main() -> None:
        async with Producer(bootstrap, transactional_id=name, linger_ms=0) as producer:
            await producer.init_transactions()
            for number in range(20):
                with suppress(ZeroDivisionError):
                    async with producer.transaction():
                        for partition in range(2):
                            await (
                                await producer.send(topic, b"%d" % number, partition=partition)
                            ).wait()
                        assert 1 // (number % 4 - 3), (
                            "every fourth transaction is aborted by what this raises"
                        )

    run(main)
    kept = [b"%d" % number for number in range(20) if number % 4 != 3]
    assert read(bootstrap, topic) == [*kept, *kept]
    assert len(read(bootstrap, topic, "read_uncommitted")) == 40


def test_requests_behind_one_another_keep_their_records(bootstrap: str, name: str) -> None:
    """The first batch of each partition waits for the coordinator.

    More requests come on the same connection meanwhile.
    """
    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name=name, partition_count=12, replication_factor=1)])
    values = {
        partition: [b"%d %d " % (number, partition) * (20 + partition) for number in range(8)]
        for partition in range(12)
    }

    async def main() -> None:
        async with Producer(
            bootstrap, transactional_id=name, linger_ms=0, batch_size=0
        ) as producer:
            await producer.init_transactions()
            for number in range(8):
                async with producer.transaction():
                    for partition in range(12):
                        await producer.send(name, values[partition][number], partition=partition)
                        await trio.lowlevel.checkpoint()

    run(main)
    assert read(bootstrap, name) == [
        value for partition in range(12) for value in values[partition]
    ]


def test_the_blocking_face_commits_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    with BlockingProducer(bootstrap, transactional_id=name) as producer:
        with pytest.raises(KafkaError, match=r"call init_transactions\(\) first"):
            producer.send(topic, b"too early")
        producer.init_transactions()
        with pytest.raises(KafkaError, match="no transaction is open"):
            producer.send(topic, b"outside")
        with producer.transaction():
            producer.send_many(topic, [b"a", b"b"], partition=0)
        receipts = []

        def failing() -> None:
            with producer.transaction():
                receipts.append(producer.send(topic, b"dropped", partition=0))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            failing()
        if not receipts[0].delivery.batch.error:
            assert receipts[0].wait().offset >= 0
        producer.begin_transaction()
        producer.send(topic, b"c", partition=1)
        producer.send_offsets_to_transaction(
            {TopicPartition(topic, 0): 2}, ConsumerGroupMetadata(group_id=name)
        )
        producer.commit_transaction()
    assert read(bootstrap, topic) == [b"a", b"b", b"c"]
    with BlockingAdmin(bootstrap) as admin:
        assert (
            admin.list_group_offsets(name, [TopicPartition(topic, 0)], is_stable_required=True)[
                TopicPartition(topic, 0)
            ].offset
            == 2
        )


def test_the_asyncio_face_commits_and_aborts(bootstrap: str, topic: str, name: str) -> None:
    async def main() -> None:
        async with AsyncioProducer(bootstrap, transactional_id=name) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send_many(topic, [b"a", b"b"], partition=0)

            async def endless() -> None:
                async with producer.transaction():
                    await (await producer.send(topic, b"cancelled", partition=0)).wait()
                    await asyncio.sleep(100)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(endless(), 1)
            async with producer.transaction():
                await producer.send(topic, b"c", partition=1)

    asyncio.run(main())
    assert read(bootstrap, topic) == [b"a", b"b", b"c"]


def test_a_second_producer_of_an_id_fences_the_first_and_aborts_what_it_left_open(
    bootstrap: str, topic: str, name: str
) -> None:
    async def main() -> None:
        async with (
            Producer(bootstrap, transactional_id=name) as first,
            Producer(bootstrap, transactional_id=name) as second,
        ):
            await first.init_transactions()
            await first.begin_transaction()
            await (await first.send(topic, b"left open", partition=0)).wait()
            await second.init_transactions()
            with pytest.raises(ProducerFenced, match="another producer took its transactional_id"):
                await first.commit_transaction()
            with pytest.raises(ProducerFenced):
                await first.send(topic, b"zombie", partition=0)
            async with second.transaction():
                await second.send(topic, b"kept", partition=0)

    run(main)
    assert read(bootstrap, topic) == [b"kept"]


def test_a_transaction_that_takes_too_long_is_aborted_by_its_coordinator(
    bootstrap: str, topic: str, name: str, is_version_2: bool
) -> None:
    async def main() -> None:
        async with (
            Producer(bootstrap, transactional_id=name, transaction_timeout_ms=500) as producer,
            Admin(bootstrap) as admin,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send(topic, b"late", partition=0)).wait()
            await until_state(admin, name, "CompleteAbort")
            if is_version_2:
                with pytest.raises(TransactionAbortable, match="INVALID_TXN_STATE"):
                    await producer.commit_transaction()
                await producer.abort_transaction()
                async with producer.transaction():
                    await producer.send(topic, b"next", partition=0)
            else:
                with pytest.raises(ProducerFenced, match="took longer than transaction_timeout_ms"):
                    await producer.commit_transaction()

    run(main)
    assert read(bootstrap, topic) == ([b"next"] if is_version_2 else [])


def test_a_timeout_that_no_broker_allows_is_told(bootstrap: str, name: str) -> None:
    async def main() -> None:
        async with Producer(
            bootstrap, transactional_id=name, transaction_timeout_ms=2_000_000
        ) as producer:
            with pytest.raises(
                ProducerFailed, match=r"above the brokers' transaction\.max\.timeout\.ms"
            ):
                await producer.init_transactions()

    run(main)


# Offsets


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    bootstrap: str, topic: str, name: str
) -> None:
    where = TopicPartition(topic, 0)

    async def main() -> None:
        async with (
            Producer(bootstrap, transactional_id=name) as producer,
            Consumer(
                bootstrap, group_id=name, enable_auto_commit=False, auto_offset_reset="earliest"
            ) as consumer,
            Admin(bootstrap) as admin,
        ):
            await producer.init_transactions()
            async with producer.transaction():
                for _ in range(5):
                    await producer.send(topic, b"in", partition=0)
            await consumer.subscribe([topic])
            records: list[ConsumerRecord] = []
            while len(records) < 5:
                records += await consumer.poll()
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction(
                consumer.consumed(), consumer.group_metadata()
            )
            await producer.abort_transaction()
            assert await admin.list_group_offsets(name, [where], is_stable_required=True) == {}
            await consumer.seek_to_committed()
            again: list[ConsumerRecord] = []
            while len(again) < 5:
                again += await consumer.poll()
            assert [record.offset for record in again] == [record.offset for record in records]
            async with producer.transaction():
                await producer.send_offsets_to_transaction(
                    consumer.consumed(), consumer.group_metadata()
                )
            committed = await admin.list_group_offsets(name, [where], is_stable_required=True)
            assert committed[where].offset == await consumer.position(where) >= 5

    run(main)


def test_a_reader_waits_for_offsets_of_an_open_transaction(
    bootstrap: str, topic: str, name: str
) -> None:
    """A consumer without read_committed took the offset before.

    It copied once more the records that are being committed.
    """
    where = TopicPartition(topic, 0)

    async def main() -> None:
        async with (
            Producer(bootstrap, transactional_id=name) as producer,
            Consumer(
                bootstrap, group_id=name, enable_auto_commit=False, default_api_timeout_ms=1_000
            ) as consumer,
        ):
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send_offsets_to_transaction(
                    {where: 1}, ConsumerGroupMetadata(group_id=name)
                )
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction(
                {where: 2}, ConsumerGroupMetadata(group_id=name)
            )
            with pytest.raises(KafkaError, match="UNSTABLE_OFFSET_COMMIT"):
                await consumer.committed([where])
            await producer.commit_transaction()
            assert (await consumer.committed([where]))[where].offset == 2

    run(main)


def test_offsets_of_a_generation_that_is_over_are_refused(
    bootstrap: str, topic: str, name: str
) -> None:
    async def main() -> None:
        async with (
            Producer(bootstrap, transactional_id=name) as producer,
            Consumer(bootstrap, group_id=name, enable_auto_commit=False) as consumer,
        ):
            await producer.init_transactions()
            await consumer.subscribe([topic])
            while not consumer.assignment:
                await consumer.poll(timeout_ms=100)
            stale = replace(
                consumer.group_metadata(), generation_id=consumer.group_metadata().generation_id - 1
            )
            with pytest.raises(
                TransactionAbortable, match="the consumer's group went on without it"
            ):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, stale)
            async with producer.transaction():
                await producer.send_offsets_to_transaction(
                    {TopicPartition(topic, 0): 1}, consumer.group_metadata()
                )

    run(main)


# What the admin sees and ends


def test_transactions_are_listed_and_described(bootstrap: str, topic: str, name: str) -> None:
    async def main() -> None:
        async with (
            Producer(bootstrap, transactional_id=name) as producer,
            Admin(bootstrap) as admin,
        ):
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send(topic, b"a", partition=1)).wait()
            listed = {
                each.transactional_id: each
                for each in await admin.list_transactions(states=["Ongoing"])
            }
            assert listed[name].state == "Ongoing"
            described = (await admin.describe_transactions([name]))[name]
            assert described.partitions == (TopicPartition(topic, 1),)
            assert described.timeout_ms == 60_000
            assert described.producer_id == listed[name].producer_id
            assert described.start_time_ms > 0
            only = await admin.list_transactions(producer_ids=[described.producer_id])
            assert [each.transactional_id for each in only] == [name]
            assert [
                each.transactional_id
                for each in await admin.list_transactions(transactional_id_pattern=f"{name}")
            ] == [name]
            assert (
                await admin.list_transactions(states=["Ongoing"], running_longer_than_ms=600_000)
                == []
            )
            await producer.commit_transaction()
            await until_state(admin, name, "CompleteCommit")
            with pytest.raises(KafkaError, match="there is no state 'Happy'"):
                await admin.list_transactions(states=["Happy"])
            with pytest.raises(KafkaError) as refused:
                await admin.list_transactions(transactional_id_pattern="(")
            assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
            with pytest.raises(ItemsFailed) as unknown:
                await admin.describe_transactions([name, "nobody"])
            assert unknown.value.errors["nobody"].code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            assert list(unknown.value.results) == [name]

    run(main)


def test_a_transaction_that_hangs_is_found_and_ended(bootstrap: str, topic: str, name: str) -> None:
    async def main() -> None:
        async with (
            Producer(bootstrap, transactional_id=f"{name}-alive") as alive,
            Admin(bootstrap) as admin,
        ):
            await alive.init_transactions()
            await alive.begin_transaction()
            await (await alive.send(topic, b"alive", partition=1)).wait()
            producer_id = await trio.to_thread.run_sync(leave_hanging, bootstrap, topic, name)
            await trio.sleep(0.01)
            partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
            assert await admin.find_hanging_transactions(partitions) == [], (
                "nothing is older than 15 minutes"
            )
            (found,) = await admin.find_hanging_transactions(partitions, open_longer_than_ms=0)
            assert (found.topic_partition, found.producer_id, found.start_offset) == (
                partitions[0],
                producer_id,
                0,
            )
            assert found.transactional_id == name
            assert [
                each
                for each in await admin.find_hanging_transactions(open_longer_than_ms=0)
                if each.topic_partition.topic == topic
            ] == [found]
            await admin.abort_transaction(found)
            assert await admin.find_hanging_transactions(partitions, open_longer_than_ms=0) == []
            with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
                await admin.abort_transaction(
                    replace(found, producer_epoch=found.producer_epoch - 1)
                )
            await alive.commit_transaction()

    run(main)
    assert read(bootstrap, topic) == [b"alive"]
