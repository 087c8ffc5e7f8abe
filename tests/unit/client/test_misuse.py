"""A client tells callers their mistakes at once and by name.

A mistake harms nothing else of the client.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio

from log_service.broker.broker import Broker
from log_service.client import (
    Admin,
    ConfigError,
    Consumer,
    ConsumerRecord,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    read_range,
)
from log_service.config.server import parse_server_properties
from tests.sim import World, sim_run
from tests.unit.client.consumer.scripted_settings import PROPERTIES, SERVERS
from tests.unit.client.producer.producer_story import tell as tell_producer
from tests.unit.client.scripted_broker import ScriptedBroker

T0 = TopicPartition("t", 0)


def tell(story: Callable[[World, Consumer], Awaitable[None]], **settings: Any) -> None:
    """Run a story with a consumer of topic ``t``, which has three records in partition 0."""
    settings = {"group_id": "g", "auto_offset_reset": "earliest", **settings}

    async def main(world: World) -> None:
        config, _ = parse_server_properties(PROPERTIES)
        async with trio.open_nursery() as nursery:
            await nursery.start(Broker(world.node_env("broker"), config).run)
            async with Admin(SERVERS, env=world.client_env("admin")) as admin:
                await admin.create_topics(
                    [NewTopic(name="t", partition_count=1, replication_factor=1)]
                )
            async with Producer(SERVERS, env=world.client_env("producer")) as producer:
                await producer.send_many("t", [b"0", b"1", b"2"])
            with trio.fail_after(1_000):
                async with Consumer(SERVERS, env=world.client_env("c"), **settings) as consumer:
                    await story(world, consumer)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


@pytest.mark.parametrize(
    ("topic", "error", "told"),
    [
        (5, TypeError, "a topic's name is text, not int"),
        (None, TypeError, "a topic's name is text, not NoneType"),
        (b"t", TypeError, "a topic's name is text, not bytes"),
        ("", KafkaError, "1 to 249 characters, not 0"),
        ("x" * 70_000, KafkaError, "1 to 249 characters, not 70000"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_the_producer_goes_on(
    topic: Any, error: type[Exception], told: str
) -> None:
    """No refresh of the metadata carries it: that would fail for ever."""

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        with pytest.raises(error, match=told):
            await producer.send(topic, b"x")
        await trio.sleep(30)
        assert (await (await producer.send("t", b"y")).wait()).offset == 0

    tell_producer(story, metadata_max_age_ms=5_000, max_block_ms=1_000)


ADMIN_CALLS: dict[str, Callable[[Admin], Awaitable[object]]] = {
    "topics to create are of NewTopic, not 'x'": lambda admin: admin.create_topics(
        cast(Any, ["x"])
    ),
    "topics to create are several of NewTopic": lambda admin: admin.create_topics(
        cast(Any, NewTopic(name="x"))
    ),
    "resources are of ConfigResource, not 'x'": lambda admin: admin.describe_configs(
        cast(Any, ["x"])
    ),
    "resources are several of ConfigResource, .* not 'x'": lambda admin: admin.describe_configs(
        cast(Any, "x")
    ),
    "resources are of ConfigResource, not 'y'": lambda admin: admin.alter_configs(
        cast(Any, {"y": {}})
    ),
    "a partition is TopicPartition.topic, number., not .'t', 0.": lambda admin: admin.list_offsets(
        cast(Any, {("t", 0): None})
    ),
    "a partition is TopicPartition.topic, number., not 't'": lambda admin: admin.delete_records(
        cast(Any, {"t": 1})
    ),
    "a partition is TopicPartition.topic, number., not 0": lambda admin: (
        admin.offsets_for_leader_epoch(cast(Any, {0: 1}))
    ),
}


@pytest.mark.parametrize("told", ADMIN_CALLS)
def test_an_admin_tells_what_it_is_to_be_asked_with(told: str) -> None:
    """It used to speak of attributes of its own that a text has not."""

    async def main() -> None:
        async with Admin("127.0.0.1:1", default_api_timeout_ms=1_000) as admin:
            with pytest.raises(TypeError, match=told):
                await ADMIN_CALLS[told](admin)

    trio.run(main)


@pytest.mark.parametrize("headers", [5, [1], {"name": b"value"}, ["ab", b""]])
def test_headers_that_are_no_pairs_are_told_as_that(headers: Any) -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        with pytest.raises(
            TypeError, match=r"headers are pairs of a name and bytes|a header is a name"
        ):
            await producer.send("t", b"x", headers=headers)

    tell_producer(story)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("partition", "0", "a partition is a whole number, not '0'"),
        ("partition", 0.0, "a partition is a whole number, not 0.0"),
        ("partition", True, "a partition is a whole number, not True"),
        ("timestamp_ms", 1.5, "a timestamp in ms is a whole number, not 1.5"),
        ("timestamp_ms", "now", "a timestamp in ms is a whole number, not 'now'"),
        ("on_delivery", 3, "on_delivery is a function that takes a delivery, not 3"),
    ],
)
def test_an_argument_of_another_kind_is_told_as_that(field: str, value: Any, told: str) -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        assert (await (await producer.send("t", b"x")).wait()).offset == 0
        given: dict[str, Any] = {field: value}
        with pytest.raises(TypeError, match=re.escape(told)):
            producer.send_nowait("t", b"x", **given)
        with pytest.raises(TypeError, match=re.escape(told)):
            await producer.send("t", b"x", **given)

    tell_producer(story)


def test_an_interceptor_of_a_producer_that_returns_no_record_is_told() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        with pytest.raises(TypeError, match="an interceptor returns a ProducerRecord, not None"):
            await producer.send("t", b"x")

    assert (
        tell_producer(story, interceptors=[lambda _record: None, lambda record: record])
        .logs[0]
        .values
        == []
    )


def test_an_interceptor_of_a_consumer_that_returns_no_list_is_told_and_no_record_lost() -> None:
    """A callback without a return statement caused all records to be skipped, and committed."""
    answers: list[Any] = [None, (), 5]

    def forget(records: list[ConsumerRecord]) -> Any:
        return answers.pop(0) if answers else records

    async def story(_world: World, consumer: Consumer) -> None:
        consumer.assign([T0])
        for told in ("NoneType", "tuple", "int"):
            with pytest.raises(
                TypeError, match=f"an interceptor returns a list of records, not {told}"
            ):
                await consumer.poll(timeout_ms=10_000)
        assert [record.value for record in await consumer.poll(timeout_ms=10_000)] == [
            b"0",
            b"1",
            b"2",
        ]

    tell(story, interceptors=[forget])


@pytest.mark.parametrize("call", [Producer.flush, Producer.close])
def test_a_negative_limit_is_refused_and_gives_up_no_record(
    call: Callable[..., Awaitable[None]],
) -> None:
    """Closing used to fail every record that waited, and then to complain of a number of seconds."""

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        receipt = await producer.send("t", b"x")
        with pytest.raises(ValueError, match="timeout_ms is not negative: -1"):
            await call(producer, -1)
        with pytest.raises(TypeError, match="timeout_ms is a number of milliseconds, not '5'"):
            await call(producer, "5")
        assert (await receipt.wait()).offset == 0

    tell_producer(story, linger_ms=100)


def test_one_text_is_not_taken_for_many_values() -> None:
    """Each of its letters became a record."""

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        for text in ("abc", b"abc"):
            with pytest.raises(TypeError, match="values are several"):
                await producer.send_many("t", text)

    assert tell_producer(story).logs[0].values == []


def test_flushing_a_producer_that_was_never_opened_has_nothing_to_do() -> None:
    trio.run(Producer("127.0.0.1:1").flush)


@pytest.mark.parametrize(
    ("topics", "told"),
    [
        ("orders", "several texts, such as .'orders'., not by one"),
        ([5], "by texts, not by int"),
        ([None], "not by NoneType"),
    ],
)
def test_topics_that_are_no_names_are_not_subscribed(topics: Any, told: str) -> None:
    """One text would be read as topics of one letter each."""

    async def story(world: World, consumer: Consumer) -> None:
        await consumer.subscribe(["t"])
        with pytest.raises(TypeError, match=told):
            await consumer.subscribe(topics)
        assert consumer.subscription == {"t"}

    tell(story)


@pytest.mark.parametrize(
    ("partition", "error", "told"),
    [
        ("t", TypeError, "TopicPartition.topic, number., not 't'"),
        (("t", 0), TypeError, "TopicPartition.topic, number., not"),
        (TopicPartition("t", "0"), TypeError, "TopicPartition.topic, number., not"),  # type: ignore[arg-type]
        (TopicPartition("t", -1), ValueError, "a partition's number is not negative: t--1"),
    ],
)
def test_partitions_that_cannot_be_are_not_assigned(
    partition: Any, error: type[Exception], told: str
) -> None:
    async def story(world: World, consumer: Consumer) -> None:
        consumer.assign([T0])
        with pytest.raises(error, match=told):
            consumer.assign([partition])
        with pytest.raises(error, match=told):
            await consumer.committed([partition])
        with pytest.raises(error, match=told):
            await consumer.end_offsets([partition])
        with pytest.raises(error, match=told):
            await consumer.offsets_for_times({partition: 1})
        assert [record.value for record in await consumer.poll()] == [b"0", b"1", b"2"]

    tell(story)


@pytest.mark.parametrize(
    ("offset", "error"),
    [
        (-5, ValueError),
        (2**63, ValueError),
        ("5", TypeError),
        (1.5, TypeError),
        (True, TypeError),
        (OffsetAndMetadata(offset=-1), ValueError),
        (OffsetAndMetadata(offset=1, metadata=b"x"), TypeError),  # type: ignore[arg-type]
        (OffsetAndMetadata(offset=1, metadata="é" * 2**14), ValueError),
    ],
)
def test_offsets_that_cannot_be_are_neither_sought_nor_committed(
    offset: Any, error: type[Exception]
) -> None:
    """A commit without waiting would fail in the consumer's own task, and take it down.

    A negative one would be read from later.
    """

    async def story(world: World, consumer: Consumer) -> None:
        consumer.assign([T0])
        with pytest.raises(error):
            consumer.commit_soon({T0: offset})
        with pytest.raises(error):
            await consumer.commit({T0: offset})
        if not isinstance(offset, OffsetAndMetadata):
            with pytest.raises(error):
                await consumer.seek(T0, offset)
        async with Admin(SERVERS, env=world.client_env("another admin")) as admin:
            with pytest.raises(error):
                await admin.alter_group_offsets("h", {T0: offset})
        assert [record.value for record in await consumer.poll()] == [b"0", b"1", b"2"]
        assert await consumer.committed([T0]) == {}

    tell(story)


@pytest.mark.parametrize(
    ("time_ms", "error"),
    [(-1, ValueError), (2**63, ValueError), ("5", TypeError), (1.5, TypeError)],
)
def test_times_that_cannot_be_are_not_looked_up(time_ms: Any, error: type[Exception]) -> None:
    """They used to come out as what the codec could not write."""

    async def story(world: World, consumer: Consumer) -> None:
        consumer.assign([T0])
        with pytest.raises(error, match="a timestamp"):
            await consumer.offsets_for_times({T0: time_ms})
        with pytest.raises(error, match="a timestamp"):
            await consumer.seek_to_time({T0: time_ms})

    tell(story)


MISTAKEN: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "offsets without a mapping": (
        lambda it: it.commit([T0]),
        TypeError,
        "offsets are given by partition, such as",
    ),
    "times without a mapping": (
        lambda it: it.seek_to_time([T0]),
        TypeError,
        "times are given by partition, such as",
    ),
    "looking up times without a mapping": (
        lambda it: it.offsets_for_times([T0]),
        TypeError,
        "times are given by partition, such as",
    ),
    "a callback that is none": (
        lambda it: it.commit_soon({T0: 1}, on_commit=5),
        TypeError,
        "on_commit is called with .*5 cannot be",
    ),
    "a number of records as text": (
        lambda it: it.poll(max_records="3"),
        TypeError,
        "max_records is a whole number, not '3'",
    ),
    "no records at all": (
        lambda it: it.poll(max_records=0),
        ValueError,
        "max_records is at least 1, not 0",
    ),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_mistaken_argument_is_told_by_its_name_and_changes_nothing(name: str) -> None:
    call, error, told = MISTAKEN[name]

    async def story(world: World, consumer: Consumer) -> None:
        consumer.assign([T0])
        with pytest.raises(error, match=told):
            await call(consumer)
        assert [record.value for record in await consumer.poll()] == [b"0", b"1", b"2"]
        assert await consumer.committed([T0]) == {}

    tell(story)


CLOSED: dict[str, Callable[[Consumer], Any]] = {
    "committed": lambda consumer: consumer.committed([T0]),
    "commit_soon": lambda consumer: consumer.commit_soon({T0: 1}),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(),
    "end_offsets": lambda consumer: consumer.end_offsets([T0]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({T0: 1}),
    "partitions_for": lambda consumer: consumer.partitions_for("t"),
}


@pytest.mark.parametrize("name", CLOSED)
def test_a_consumer_that_is_closed_says_so_at_once(name: str) -> None:
    """It neither waits for a cluster that it does not talk to any more, nor drops what is to be
    committed.
    """

    async def story(world: World, consumer: Consumer) -> None:
        other = Consumer(SERVERS, env=world.client_env("other"), group_id="g")
        for _ in range(2):  # before it is opened, and after it was closed
            with pytest.raises(KafkaError, match="the consumer is closed"):
                await CLOSED[name](other)
            async with other:
                pass

    tell(story)


def test_an_admin_that_is_closed_says_so_at_once() -> None:
    async def story(world: World, consumer: Consumer) -> None:
        admin = Admin(SERVERS, env=world.client_env("other"))
        for _ in range(2):
            with pytest.raises(KafkaError, match="the admin is closed"):
                await admin.list_topics()
            async with admin:
                assert [each.name for each in await admin.list_topics()] == ["t"]

    tell(story)


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.delete_topics("t"),
        lambda admin: admin.describe_topics("t"),
        lambda admin: admin.describe_offsets("t"),
        lambda admin: admin.describe_groups("g"),
        lambda admin: admin.delete_groups("g"),
        lambda admin: admin.apply_retention("t"),
        lambda admin: admin.apply_compaction("t"),
    ],
)
def test_one_name_where_several_are_meant_is_not_taken_letter_by_letter(
    call: Callable[[Admin], Awaitable[None]],
) -> None:
    async def story(world: World, consumer: Consumer) -> None:
        async with Admin(SERVERS, env=world.client_env("another admin")) as admin:
            with pytest.raises(TypeError, match="are named by several texts"):
                await call(admin)
            assert [each.name for each in await admin.list_topics()] == ["t"]

    tell(story)


def test_a_range_is_not_read_at_an_isolation_level_that_does_not_exist() -> None:
    """A slip of the pen must not give out what was never committed."""

    async def story(world: World, consumer: Consumer) -> None:
        with pytest.raises(ConfigError, match="isolation_level must be one of"):
            await anext(aiter(read_range(consumer, T0, 0, 3, isolation_level="read_commited")))

    tell(story)
