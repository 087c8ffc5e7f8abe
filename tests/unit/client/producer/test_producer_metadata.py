"""A producer keeps asking the cluster about the topics that it still uses, in virtual time."""

from typing import Any

import pytest
import trio

from log_service.client import ErrorCode, KafkaError, Producer
from log_service.protocol.api_versions import ApiKey
from tests.unit.client.producer.producer_story import tell
from tests.unit.client.scripted_broker import ScriptedBroker

SETTINGS: dict[str, Any] = {"metadata_max_age_ms": 10_000, "metadata_max_idle_ms": 30_000}


def asked(broker: ScriptedBroker) -> list[list[str]]:
    """The topics of each Metadata request so far."""
    return [
        [topic.name for topic in request.topics]
        for key, request in broker.requests
        if key is ApiKey.METADATA
    ]


@pytest.mark.parametrize("is_asked_only", [False, True])
def test_a_topic_that_gets_no_records_is_asked_for_no_more_until_it_is_used_again(
    is_asked_only: bool,
) -> None:
    """KIP-526."""

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        if is_asked_only:
            await producer.partitions_for("t")
        else:
            await (await producer.send("t", b"1")).wait()
        await trio.sleep(29)
        assert asked(broker)[-1] == ["t"]
        await trio.sleep(60)
        assert asked(broker)[-1] == []
        assert "t" not in producer.cluster.view.topics
        assert (await (await producer.send("t", b"2")).wait()).offset == (0 if is_asked_only else 1)
        await trio.sleep(11)
        assert asked(broker)[-1] == ["t"]

    tell(story, **SETTINGS)


def test_a_topic_that_gets_records_is_refreshed_as_often_as_ever() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        for _ in range(40):
            await (await producer.send("t", b"x")).wait()
            await trio.sleep(5)
        assert len(asked(broker)) >= 200 / 11
        assert all(names == ["t"] for names in asked(broker))

    tell(story, **SETTINGS)


def test_a_topic_whose_records_wait_is_not_idle() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.partitions_for("t")
        broker.leaders = [-1]
        await producer.cluster.refresh()
        delivery = await producer.send("t", b"late")
        await trio.sleep(100)
        broker.leaders = [1]
        await delivery.wait()

    tell(story, **SETTINGS)


def test_a_record_that_comes_as_its_topic_is_dropped_is_delivered() -> None:
    """Another thread may have looked the topic up just before."""

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        view = await producer.find_topic("t", None)
        producer.cluster.forget(["t"])
        delivery, _ = producer.intake.place(view, 0, None, b"x", (), None, 100, None)
        producer.wake_sender()
        assert (await delivery.wait()).offset == 0

    tell(story, **SETTINGS)


def test_a_topic_that_is_not_there_is_not_asked_for_for_ever() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("nowhere", b"x")
        await trio.sleep(15)
        assert asked(broker)[-1] == []

    tell(story, max_block_ms=1_000, **SETTINGS)


def test_a_partition_that_is_not_known_is_waited_for_no_longer_than_max_block_ms() -> None:
    async def silent(request: Any, version: int) -> None:
        await trio.lowlevel.checkpoint()

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.partitions_for("t")
        broker.other[ApiKey.METADATA] = silent
        started = trio.current_time()
        with pytest.raises(KafkaError, match="no response within"):
            await producer.send("t", b"x", partition=5)
        assert trio.current_time() - started < 2

    tell(story, max_block_ms=1_000)


def test_a_record_waits_for_a_partition_that_is_being_added() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.partitions_for("t")

        async def add() -> None:
            await trio.sleep(5)
            broker.grow(3)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            delivery = await producer.send("t", b"x", partition=2)
        assert (await delivery.wait()).partition == 2
        assert 5 <= trio.current_time() < 8

    tell(story)


def test_a_partition_that_never_comes_is_told_after_max_block_ms() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.partitions_for("t")
        started = trio.current_time()
        with pytest.raises(KafkaError, match="topic 't' has partitions 0 to 0, not 5") as caught:
            await producer.send("t", b"x", partition=5)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert trio.current_time() - started == pytest.approx(20)
        assert producer.cluster.view.topics["t"].partition_count == 1, (
            "the topic is known as before"
        )
        with pytest.raises(KafkaError, match="not -1"):
            await producer.send("t", b"x", partition=-1)
        assert trio.current_time() - started == pytest.approx(20), (
            "no partition has a negative number: that is told at once"
        )

    tell(story, max_block_ms=20_000)


@pytest.mark.parametrize(
    ("topic", "partition"), [("t", 5), ("another", None)], ids=["partition", "topic"]
)
def test_closing_ends_the_wait_for_a_partition_or_a_topic(
    topic: str, partition: int | None
) -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        async def send() -> None:
            with pytest.raises(KafkaError, match="the producer is closed"):
                await producer.send(topic, b"x", partition=partition)
            assert trio.current_time() < 5

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.sleep(3)
            await producer.close()

    tell(story)
