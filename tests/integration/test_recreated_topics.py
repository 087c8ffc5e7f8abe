"""A topic that was deleted and created anew is read from its beginning.

No position of the old one skips records.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from log_service.client import (
    Admin,
    AsyncioConsumer,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    BlockingShareConsumer,
    ConfigResource,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    TopicPartition,
    read_range,
)
from tests.integration.client_clusters import CLUSTERS, cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

OLD = [b"old-%d" % index for index in range(20)]
NEW = [b"new-%d" % index for index in range(40)]
POLLS = 60
"""More than enough polls of half a second each: a test that runs out of them fails."""

PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
}
SETTINGS: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}


@pytest.fixture(scope="module", params=CLUSTERS)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The bootstrap servers of a cluster whose share groups work on one node."""
    with cluster(request.param, tmp_path_factory.mktemp("cluster"), PROPERTIES) as servers:
        yield servers


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic of one partition that holds ``OLD``."""
    create(bootstrap, name, OLD)
    return name


def create(bootstrap: str, topic: str, values: list[bytes], *, is_there: bool = False) -> None:
    """Create the topic, after deleting it where it is there, and fill it."""
    with BlockingAdmin(bootstrap) as admin:
        if is_there:
            admin.delete_topics([topic])
        admin.create_topics([NewTopic(name=topic, partition_count=1)])
    with BlockingProducer(bootstrap, linger_ms=0) as producer:
        for value in values:
            producer.send(topic, value).wait()


def create_anew(bootstrap: str, topic: str) -> None:
    create(bootstrap, topic, NEW, is_there=True)


def read(consumer: BlockingConsumer | BlockingShareConsumer, count: int) -> list[Any]:
    """Poll until ``count`` records have come."""
    values: list[Any] = []
    for _ in range(POLLS):
        values += [record.value for record in consumer.poll(timeout_ms=500)]
        if len(values) >= count:
            break
    return values


def begin(consumer: BlockingConsumer, topic: str, group: str | None) -> None:
    if group is None:
        consumer.assign([TopicPartition(topic, 0)])
    else:
        consumer.subscribe([topic])


GROUPS = [{}, {"group_protocol": "classic"}, {"group_protocol": "consumer"}]


@pytest.mark.parametrize("protocol", GROUPS, ids=["alone", "classic", "consumer"])
def test_a_consumer_reads_the_new_topic_from_its_beginning(
    bootstrap: str, topic: str, protocol: dict[str, str]
) -> None:
    group = topic if protocol else None
    with BlockingConsumer(bootstrap, group_id=group, **SETTINGS, **protocol) as consumer:
        begin(consumer, topic, group)
        assert read(consumer, len(OLD)) == OLD
        create_anew(bootstrap, topic)
        assert read(consumer, len(NEW)) == NEW


@pytest.mark.parametrize("protocol", GROUPS[1:], ids=["classic", "consumer"])
def test_positions_of_the_old_topic_are_not_committed_for_the_new_one(
    bootstrap: str, topic: str, protocol: dict[str, str]
) -> None:
    """The consumer leaves before it hears of the new topic.

    By the topic's name its automatic commit was taken for that one.
    """
    settings = {**SETTINGS, "enable_auto_commit": True, "group_id": topic, **protocol}
    with BlockingConsumer(bootstrap, **settings) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, len(OLD)) == OLD
        create_anew(bootstrap, topic)
    with BlockingConsumer(bootstrap, **settings) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, len(NEW)) == NEW


def test_commits_of_the_old_topic_are_gone_with_it(bootstrap: str, topic: str) -> None:
    settings = {**SETTINGS, "group_id": topic}
    with BlockingConsumer(bootstrap, **settings) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, len(OLD)) == OLD
        consumer.commit()
        create_anew(bootstrap, topic)
        assert read(consumer, len(NEW)) == NEW
        consumer.commit()
        assert [
            each.offset for each in consumer.committed([TopicPartition(topic, 0)]).values()
        ] == [len(NEW)]


def test_without_a_reset_the_application_is_told(bootstrap: str, topic: str) -> None:
    with BlockingConsumer(
        bootstrap, **{**SETTINGS, "auto_offset_reset": "none", "group_id": topic}
    ) as consumer:
        consumer.commit({TopicPartition(topic, 0): 0})
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, len(OLD)) == OLD
        create_anew(bootstrap, topic)
        with pytest.raises(KafkaError, match="its topic was deleted and created anew") as caught:
            read(consumer, len(NEW))
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        consumer.seek(TopicPartition(topic, 0), 0)
        assert read(consumer, len(NEW)) == NEW


def test_a_consumer_on_trio_reads_the_new_topic_from_its_beginning(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with Consumer(bootstrap, **SETTINGS) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            for wanted in (OLD, NEW):
                values: list[Any] = []
                for _ in range(POLLS):
                    values += [record.value for record in await consumer.poll(timeout_ms=500)]
                    if len(values) >= len(wanted):
                        break
                assert values == wanted
                if wanted is OLD:
                    await trio.to_thread.run_sync(create_anew, bootstrap, topic)

    trio.run(main)


def test_a_consumer_on_asyncio_reads_the_new_topic_from_its_beginning(
    bootstrap: str, topic: str
) -> None:
    async def main() -> None:
        async with AsyncioConsumer(bootstrap, **SETTINGS, group_id=topic) as consumer:
            await consumer.subscribe([topic])
            for wanted in (OLD, NEW):
                values: list[Any] = []
                for _ in range(POLLS):
                    values += [record.value for record in await consumer.poll(timeout_ms=500)]
                    if len(values) >= len(wanted):
                        break
                assert values == wanted
                if wanted is OLD:
                    await asyncio.to_thread(create_anew, bootstrap, topic)

    asyncio.run(main())


def test_a_share_consumer_reads_the_new_topic_from_its_beginning(
    bootstrap: str, topic: str
) -> None:
    with BlockingAdmin(bootstrap) as admin:
        admin.alter_configs({ConfigResource.group(topic): {"share.auto.offset.reset": "earliest"}})
    with BlockingShareConsumer(bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, len(OLD)) == OLD
        create_anew(bootstrap, topic)
        assert sorted(set(read(consumer, len(NEW)))) == sorted(NEW)


def test_a_range_of_the_old_topic_is_not_read_from_the_new_one(bootstrap: str, topic: str) -> None:
    """The platform reads ranges by the topic id of its checkpoint."""

    async def main() -> None:
        async with Admin(bootstrap) as admin:
            topic_id = (await admin.describe_topics([topic]))[topic].topic_id
            await trio.to_thread.run_sync(create_anew, bootstrap, topic)
            batches = read_range(admin, TopicPartition(topic, 0), 0, 20, topic_id=topic_id)
            with pytest.raises(KafkaError) as caught:
                await anext(batches)
            assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID

    trio.run(main)
