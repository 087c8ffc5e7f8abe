"""A misbehaving broker holds acknowledged records once and in order, in virtual time.

The producer settles every record.
"""

from typing import Any

import pytest
import trio

from log_service.client.producer.delivery import RecordMetadata
from log_service.client.producer.producer import Producer
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.init_producer_id import InitProducerIdResponse
from tests.sim.world import World, sim_run
from tests.unit.client.producer.producer_story import send_many, tell
from tests.unit.client.scripted_broker import ScriptedBroker


def test_a_delivery_tells_where_the_record_is() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        first = await producer.send("t", b"a", timestamp_ms=5)
        second = await producer.send("t", "b", key="k", headers=[("h", b"1")], timestamp_ms=6)
        assert await second.wait() == RecordMetadata(
            topic="t", partition=0, offset=1, timestamp_ms=6
        )
        assert first.is_done
        assert first.result().offset == 0

    assert tell(story).logs[0].values == [b"a", b"b"]


def test_records_linger_into_one_batch() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        for index in range(10):
            await producer.send("t", b"%d" % index)
            await trio.sleep(0.001)

    assert [header.record_count for header in tell(story, linger_ms=50).logs[0].headers] == [10]


def test_a_full_batch_leaves_before_linger_ends() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        started = trio.current_time()
        await (await producer.send("t", b"x" * 2_000)).wait()
        assert trio.current_time() - started < 1

    tell(story, linger_ms=60_000, batch_size=1_000, delivery_timeout_ms=120_000)


@pytest.mark.parametrize(
    "accident",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ScriptedBroker.DROP,
        ScriptedBroker.APPEND_AND_DROP,
        ScriptedBroker.IGNORE,
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_an_accident_neither_loses_nor_duplicates_nor_reorders(
    accident: ErrorCode | str, seed: int
) -> None:
    sent: list[bytes] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"first")).wait()
        broker.script.extend([ScriptedBroker.APPEND, accident, ScriptedBroker.APPEND])
        sent.extend(await send_many(producer, 400))
        await producer.flush()

    broker = tell(story, seed=seed, batch_size=200, linger_ms=0, request_timeout_ms=2_000)
    assert broker.logs[0].values == [b"first", *sent]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_overtakes_a_batch_that_has_to_be_sent_again(seed: int) -> None:
    """The broker goes away before the partition has heard of the producer.

    It comes back while later batches wait to connect.
    """
    sent: list[bytes] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"", partition=1)).wait()
        broker.go_down(0.08 + seed / 40)
        for index in range(60):
            sent.append(b"%d" % index)
            await producer.send("t", sent[-1], partition=0)
            await trio.sleep(0.02)
        await producer.flush()

    settings = {"batch_size": 0, "linger_ms": 0, "reconnect_backoff_ms": 50, "retry_backoff_ms": 20}
    broker = tell(story, seed=seed, partition_count=2, **settings)
    assert broker.logs[0].values == sent


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_whose_response_never_came_follows_its_partition_into_the_new_epoch(
    seed: int,
) -> None:
    """The broker has lost records, so that the first batch in flight begins anew.

    The fate of the second is not known.
    """
    sent: list[bytes] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"first", partition=0)).wait()
        broker.script.extend([ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ScriptedBroker.IGNORE])
        sent.extend(await send_many(producer, 12))
        await producer.flush()

    settings = {
        "batch_size": 0,
        "linger_ms": 0,
        "request_timeout_ms": 2_000,
        "max_in_flight_requests_per_connection": 2,
    }
    broker = tell(story, seed=seed, **settings)
    assert broker.logs[0].values == [b"first", *sent]
    assert [header.producer_epoch for header in broker.logs[0].headers] == [0] + [1] * 12, (
        "one new epoch is enough"
    )


@pytest.mark.parametrize("seed", range(5))
def test_requests_keep_their_order_without_idempotence(seed: int) -> None:
    """All batches are ready at once when the connection first opens.

    Nothing but the sender's order keeps them apart.
    """

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.partitions_for("t")
        await send_many(producer, 200)

    broker = tell(story, seed=seed, batch_size=0, linger_ms=0, enable_idempotence=False)
    assert broker.logs[0].values == [b"%d" % index for index in range(200)]


def test_a_backlog_leaves_with_all_requests_that_may_be_in_flight() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 0.1
        broker.leaders = [-1]
        await producer.partitions_for("t")
        await send_many(producer, 50)
        await trio.sleep(1)
        broker.leaders = [1]
        await producer.flush()
        assert broker.max_in_flight == 5

    tell(story, batch_size=0, linger_ms=60_000)


def test_a_lost_response_is_found_again_as_a_duplicate() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.script.append(ScriptedBroker.APPEND_AND_DROP)
        delivery = await producer.send("t", b"once")
        assert (await delivery.wait()).offset == 0

    assert tell(story).logs[0].values == [b"once"]


def test_at_most_five_requests_are_in_flight() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 0.05
        await send_many(producer, 100)
        await producer.flush()
        assert broker.max_in_flight == 5

    tell(story, batch_size=0, linger_ms=0)


def test_a_refused_record_does_not_stop_those_after_it() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"0")).wait()
        broker.script.append(ErrorCode.INVALID_RECORD)
        refused = await producer.send("t", b"refused")
        later = [await producer.send("t", b"%d" % index) for index in range(1, 4)]
        with pytest.raises(KafkaError, match="t-0: INVALID_RECORD") as caught:
            await refused.wait()
        assert caught.value.code is ErrorCode.INVALID_RECORD
        assert [(await delivery.wait()).offset for delivery in later] == [1, 2, 3]

    broker = tell(story, batch_size=0, linger_ms=0)
    assert broker.logs[0].values == [b"0", b"1", b"2", b"3"]
    assert broker.logs[0].headers[-1].producer_epoch == 1, (
        "the gap was closed by a new epoch (KIP-360)"
    )


def test_a_batch_that_is_too_large_is_split() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        heard: list[int] = []
        deliveries = [
            await producer.send(
                "t",
                b"%03d" % index * 10,
                on_delivery=lambda metadata, error: heard.append(
                    metadata.offset if metadata else -1
                ),
            )
            for index in range(60)
        ]
        assert [(await delivery.wait()).offset for delivery in deliveries] == list(range(60))
        assert sorted(heard) == list(range(60))

    broker = tell(story, max_batch_bytes=600, linger_ms=10)
    assert broker.logs[0].values == [b"%03d" % index * 10 for index in range(60)]
    assert all(header.size_bytes <= 600 for header in broker.logs[0].headers)


def test_one_record_that_is_too_large_fails() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        delivery = await producer.send("t", b"x" * 1_000)
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await delivery.wait()
        with pytest.raises(KafkaError, match="max_request_size"):
            await producer.send("t", b"x" * 5_000_000)

    assert tell(story, max_batch_bytes=600).logs[0].values == []


def test_retries_end_with_the_delivery_timeout() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.script.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        started = trio.current_time()
        delivery = await producer.send("t", b"x")
        with pytest.raises(KafkaError):
            await delivery.wait()
        assert 9 <= trio.current_time() - started <= 12
        broker.script.clear()
        assert (await (await producer.send("t", b"y")).wait()).offset == 0

    tell(story, delivery_timeout_ms=10_000, request_timeout_ms=2_000)


def test_records_wait_for_a_leader() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"0")).wait()
        broker.leaders = [-1]
        await producer.cluster.refresh()
        delivery = await producer.send("t", b"1", partition=0)
        await trio.sleep(3)
        assert not delivery.is_done
        broker.leaders = [1]
        assert (await delivery.wait()).offset == 1

    tell(story)


def test_send_waits_for_room_and_gives_up_in_time() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 0.5
        for _ in range(20):
            await producer.send("t", b"x" * 1_000)
        assert producer.accumulator.buffered_bytes <= 4_000
        broker.delay_s = 10
        with pytest.raises(KafkaError, match="buffer_memory 4000 is full"):
            await send_many(producer, 400)

    tell(story, buffer_memory=4_000, max_block_ms=3_000, batch_size=0)


def test_a_topic_that_does_not_exist_is_told_after_max_block_ms() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        started = trio.current_time()
        with pytest.raises(KafkaError, match="'nope': UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("nope", b"x")
        assert trio.current_time() - started == pytest.approx(2, abs=1)
        with pytest.raises(trio.WouldBlock):
            producer.send_nowait("nope", b"x")
        for partition in (-1, 1):
            with pytest.raises(KafkaError, match="has partitions 0 to 0"):
                await producer.send("t", b"x", partition=partition)

    tell(story, max_block_ms=2_000)


def test_a_custom_partitioner_chooses_or_leaves_the_choice() -> None:
    chosen: dict[bytes, int | None] = {b"a": 2, b"b": None, b"c": 9}

    def partitioner(
        topic: str, key: bytes | None, value: bytes | None, partition_count: int
    ) -> int | None:
        assert (topic, partition_count) == ("t", 3)
        return chosen[value or b""]

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        assert (await (await producer.send("t", b"a")).wait()).partition == 2
        assert (await (await producer.send("t", b"b", key=b"21")).wait()).partition == (
            -973932308 & 0x7FFFFFFF
        ) % 3
        with pytest.raises(KafkaError, match="the partitioner chose 9"):
            await producer.send("t", b"c")

    tell(story, partition_count=3, partitioner=partitioner)


def test_acks_0_is_settled_without_a_response() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        assert (await (await producer.send("t", b"x")).wait()).offset == -1

    broker = tell(story, acks=0, enable_idempotence=False)
    assert broker.logs[0].values == [b"x"]
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_arrives(compression: str) -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        for _ in range(50):
            await producer.send("t", b"the same again " * 10)

    broker = tell(story, compression=compression)
    assert broker.logs[0].values == [b"the same again " * 10] * 50


def test_leaving_with_an_exception_settles_what_could_not_be_sent() -> None:
    seen: list[KafkaError | None] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 100
        await producer.send("t", b"x", on_delivery=lambda _, error: seen.append(error))
        await trio.sleep(1)
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        # Of the test's nursery alone: the producer's is not seen.
        tell(story)
    assert [error.code for error in seen if error] == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_callback_that_raises_stops_no_other_delivery(caplog: pytest.LogCaptureFixture) -> None:
    def fail(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        raise ZeroDivisionError

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.send("t", b"x", on_delivery=fail)
        await producer.flush()
        assert (await (await producer.send("t", b"y")).wait()).offset == 1

    tell(story)
    assert "the delivery callback of a record of topic t failed" in caplog.text


def test_an_old_broker_is_spoken_to_in_its_versions() -> None:
    async def main(world: World) -> ScriptedBroker:
        broker = ScriptedBroker(world)
        broker.refused_api_versions = {3}
        broker.max_versions = {ApiKey.PRODUCE: 7, ApiKey.METADATA: 4}
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Producer("broker:9092", env=world.client_env()) as producer:
                await (await producer.send("t", b"x")).wait()
            nursery.cancel_scope.cancel()
        return broker

    broker = sim_run(1, main)
    assert broker.logs[0].values == [b"x"]
    assert broker.count(ApiKey.API_VERSIONS) >= 2


def test_a_lost_producer_id_is_replaced() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"0")).wait()
        broker.script.append(ErrorCode.INVALID_PRODUCER_EPOCH)
        assert (await (await producer.send("t", b"1")).wait()).offset == 1

    broker = tell(story)
    assert [header.producer_id for header in broker.logs[0].headers] == [101, 102]


def test_a_producer_that_was_refused_an_id_goes_on_once_it_may_have_one() -> None:
    """The producer refused new topics and questions for ever.

    It delivered records of known topics.
    """

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        async def refuse(request: Any, version: int) -> InitProducerIdResponse:
            await trio.lowlevel.checkpoint()
            return InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        broker.other[ApiKey.INIT_PRODUCER_ID] = refuse
        refused = await producer.send("t", b"refused")
        with pytest.raises(KafkaError, match=r"AUTHORIZATION_FAILED: .* WRITE on"):
            await refused.wait()
        del broker.other[ApiKey.INIT_PRODUCER_ID]
        broker.grow(2)
        await (await producer.send("t", b"taken", partition=1)).wait()
        assert await producer.partitions_for("t") == 2

    assert tell(story).logs[1].values == [b"taken"]
