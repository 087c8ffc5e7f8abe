"""A producer keeps its promises about time, room and order, in virtual time.

The application may hand it anything.
"""

from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio

from log_service.client import (
    ConfigError,
    ErrorCode,
    KafkaError,
    Producer,
    ProducerRecord,
    RecordMetadata,
)
from log_service.client.producer.partitioning import StickyPlacement
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.produce import ProduceResponse
from log_service.records.batch import iterate_records
from tests.unit.client.producer.producer_story import send_many, tell
from tests.unit.client.scripted_broker import ScriptedBroker


def test_a_batch_in_flight_is_given_up_when_its_delivery_timeout_has_passed() -> None:
    """Whether or not the broker ever responds: the request timeout begins anew with each try."""

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"first")).wait()
        broker.script.extend([ScriptedBroker.IGNORE] * 10)
        started = trio.current_time()
        delivery = await producer.send("t", b"x")
        with pytest.raises(
            KafkaError,
            match="not delivered within 12000 ms, 2 attempts, the last: t-0: broker:9092 did not respond",
        ):
            await delivery.wait()
        assert trio.current_time() - started == pytest.approx(12, abs=0.1)
        broker.script.clear()
        assert (await (await producer.send("t", b"y")).wait()).offset == 2

    broker = tell(story, delivery_timeout_ms=12_000, request_timeout_ms=8_000)
    assert broker.logs[0].values == [b"first", b"x", b"y"], (
        "a record that was given up may be there all the same, once"
    )


def test_a_gap_that_an_expired_batch_left_is_closed_by_a_new_epoch() -> None:
    """KIP-360: the broker never saw its number, and refuses the next one until the client begins
    anew.
    """

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"first")).wait()
        broker.script.extend([ScriptedBroker.DROP] * 1_000)
        with pytest.raises(KafkaError, match="not delivered within 5000 ms"):
            await (await producer.send("t", b"lost")).wait()
        broker.script.clear()
        deliveries = [await producer.send("t", b"%d" % index) for index in range(5)]
        assert [(await delivery.wait()).offset for delivery in deliveries] == [1, 2, 3, 4, 5]

    broker = tell(
        story, batch_size=0, linger_ms=0, delivery_timeout_ms=5_000, request_timeout_ms=1_000
    )
    assert broker.logs[0].values == [b"first", *(b"%d" % index for index in range(5))]
    assert [header.producer_epoch for header in broker.logs[0].headers] == [0, 1, 1, 1, 1, 1]


def test_delivery_reports_come_in_order_also_when_batches_fail_and_go_again() -> None:
    heard: list[tuple[int, bool]] = []

    def note(index: int, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        heard.append((index, error is None))

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.script.extend(
            [
                ErrorCode.NOT_ENOUGH_REPLICAS,
                ScriptedBroker.DROP,
                ScriptedBroker.APPEND,
                ErrorCode.REQUEST_TIMED_OUT,
            ]
        )
        for index in range(60):
            await producer.send("t", b"%d" % index, on_delivery=partial(note, index))
        await producer.flush()

    tell(story, batch_size=0, linger_ms=0)
    assert heard == [(index, True) for index in range(60)]


def test_a_throttled_client_leaves_the_broker_alone_for_so_long() -> None:
    """KIP-219: the broker responds at once and says how long it wants to be spared."""
    times: list[float] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        async def throttle(request: Any, version: int) -> ProduceResponse:
            times.append(trio.current_time())
            response: ProduceResponse = await broker.respond_to_produce(request)
            response.throttle_time_ms = 2_000
            return response

        broker.other[ApiKey.PRODUCE] = throttle
        for index in range(4):
            await (await producer.send("t", b"%d" % index)).wait()
        assert producer.metrics().produce_throttle_time_max == 2_000

    assert tell(story, linger_ms=0).logs[0].values == [b"0", b"1", b"2", b"3"]
    assert all(later - earlier >= 2 for earlier, later in pairwise(times))


def test_requests_that_wait_out_a_throttle_keep_their_order() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        async def throttle(request: Any, version: int) -> ProduceResponse:
            response: ProduceResponse = await broker.respond_to_produce(request)
            response.throttle_time_ms = 100
            return response

        broker.other[ApiKey.PRODUCE] = throttle
        await send_many(producer, 40)

    broker = tell(story, batch_size=0, linger_ms=0, enable_idempotence=False)
    assert broker.logs[0].values == [b"%d" % index for index in range(40)]


def test_one_bound_for_waiting_for_the_topic_and_for_room() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 100
        await producer.send("t", b"x" * 3_000)
        producer.cluster.view = producer.cluster.view.without(["t"])
        broker.go_down(2)
        started = trio.current_time()
        with pytest.raises(KafkaError, match="is full"):
            await producer.send("t", b"x" * 3_000)
        assert trio.current_time() - started == pytest.approx(4, abs=0.2)
        await producer.close(timeout_ms=0)

    tell(story, buffer_memory=4_000, max_block_ms=4_000, batch_size=0)


@pytest.mark.parametrize("seed", range(6))
def test_a_broker_that_does_not_know_the_producer_is_not_given_the_second_batch_first(
    seed: int,
) -> None:
    """The broker would take any sequence.

    A leader that refuses the first batch, for it does not lead yet, must not see the second before
    it.
    """

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.script.extend([ErrorCode.NOT_LEADER_OR_FOLLOWER] * (1 + seed % 3))
        await send_many(producer, 30)

    broker = tell(story, seed=seed, batch_size=0, linger_ms=0)
    assert broker.logs[0].values == [b"%d" % index for index in range(30)]
    assert {header.producer_epoch for header in broker.logs[0].headers} == {0}


@pytest.mark.parametrize("is_first_tried_before", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_lost_what_it_knew_is_not_given_the_second_batch_first(
    seed: int, *, is_first_tried_before: bool
) -> None:
    """Batches wait to connect after a loss of power.

    The broker refuses the first of them, for it does not lead yet.
    """

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"before")).wait()
        if is_first_tried_before:
            broker.script.append(ScriptedBroker.IGNORE)
            # Nobody hears of it, and the record is not there.
            broker.admit = lambda _: ErrorCode.NOT_LEADER_OR_FOLLOWER
            await producer.send("t", b"0")
            await trio.sleep(0.1)
        broker.go_down(1)
        broker.forget_producers()
        broker.admit = lambda _: ErrorCode.NONE
        await trio.sleep(0.3)  # the first batch waits to connect again
        broker.script.extend([ErrorCode.NOT_LEADER_OR_FOLLOWER] * (1 + seed))
        for index in range(is_first_tried_before, 30):
            await producer.send("t", b"%d" % index)
            await trio.sleep(0.02)
        await producer.flush()

    broker = tell(
        story,
        seed=seed,
        batch_size=0,
        linger_ms=0,
        reconnect_backoff_ms=2_000,
        reconnect_backoff_max_ms=2_000,
    )
    assert broker.logs[0].values == [b"before", *(b"%d" % index for index in range(30))]
    assert {header.producer_epoch for header in broker.logs[0].headers} == {0}
    assert broker.max_in_flight > 1, "batches follow each other again once the first one is there"


# What the application hands over


def test_interceptors_see_a_record_before_it_is_serialized() -> None:
    def stamp(record: ProducerRecord) -> ProducerRecord:
        return record._replace(
            headers=(*record.headers, ("stamp", b"1")), value={"wrapped": record.value}
        )

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.send("t", 7, headers=[("h", None)])
        await producer.send("t", None)

    values = tell(story, interceptors=[stamp], value_serializer=str).logs[0].values
    assert values == [b"{'wrapped': 7}", b"{'wrapped': None}"]


def test_null_stays_null_whatever_the_serializer() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.send("t", None, key=None)
        await producer.send("t", 5, key=6)

    assert tell(story, value_serializer=str, key_serializer=str).logs[0].values == [b"", b"5"]


def boom(*_: object) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("settings", "record", "expected"),
    [
        ({"interceptors": [boom]}, {}, ZeroDivisionError),
        ({"value_serializer": boom}, {}, ZeroDivisionError),
        ({"key_serializer": boom}, {"key": b"k"}, ZeroDivisionError),
        ({"partitioner": boom}, {}, ZeroDivisionError),
        ({"partitioner": lambda *_: "0"}, {}, TypeError),
        ({"value_serializer": lambda value: 5}, {}, TypeError),
        ({}, {"value": 5}, TypeError),
        ({}, {"headers": [(b"name", b"")]}, TypeError),
        ({}, {"headers": [("name", "text")]}, TypeError),
        ({}, {"timestamp_ms": "now"}, TypeError),
        ({}, {"timestamp_ms": 1.5}, TypeError),
        ({}, {"timestamp_ms": -2}, KafkaError),
        ({}, {"timestamp_ms": 2**63}, KafkaError),
        ({}, {"partition": 0.0}, TypeError),
    ],
)
def test_what_cannot_become_a_record_is_told_to_the_sender_and_harms_no_other(
    settings: dict[str, Any], record: dict[str, Any], expected: type[Exception]
) -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.partitions_for("t")
        with pytest.raises(expected):
            await producer.send(**{"topic": "t", "value": b"x", **record})
        with pytest.raises(expected):
            producer.send_nowait(**{"topic": "t", "value": b"x", **record})
        assert producer.accumulator.is_empty, "nothing of it was taken"
        producer.intake.interceptors = ()
        producer.intake.serialize_value = producer.intake.serialize_key = lambda content: content
        producer.intake.partitioner = None
        await (await producer.send("t", b"good")).wait()

    assert tell(story, **settings).logs[0].values == [b"good"]


@pytest.mark.parametrize(
    ("compression", "level"), [("gzip", 10), ("snappy", 1), ("lz4", 0), ("zstd", 23), ("none", 1)]
)
def test_a_level_that_a_codec_does_not_have_is_refused_at_once(
    compression: str, level: int
) -> None:
    with pytest.raises(
        ConfigError, match=f"compression_level {level}: {compression} has no such level"
    ):
        Producer("a:1", compression=compression, compression_level=level)


# Topics that change


def test_a_topic_made_anew_under_another_id_gets_the_records_that_waited() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"0")).wait()
        broker.recreate()
        deliveries = [await producer.send("t", b"%d" % index) for index in range(1, 4)]
        assert [(await delivery.wait()).offset for delivery in deliveries] == [0, 1, 2]

    broker = tell(story, batch_size=0, linger_ms=0)
    assert broker.logs[0].values == [b"1", b"2", b"3"]


def test_a_response_is_understood_although_the_topic_was_made_anew_meanwhile() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"0")).wait()
        broker.delay_s = 5
        delivery = await producer.send("t", b"1")
        await trio.sleep(1)
        broker.is_id_old_in_responses = True
        broker.recreate(is_emptied=False)
        await producer.cluster.refresh()
        assert (await delivery.wait()).offset == 1

    tell(story, linger_ms=0)


def test_new_partitions_are_used_once_they_are_known() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"0")).wait()
        broker.grow(3)
        assert (await (await producer.send("t", b"1", partition=2)).wait()).partition == 2
        for index in range(60):
            await producer.send("t", b"%d" % index)

    broker = tell(story, batch_size=0, linger_ms=0)
    assert all(log.values for log in broker.logs)


# Where records without a key go


def test_a_partition_for_which_many_batches_wait_is_chosen_less_often() -> None:
    """KIP-794: with queues of 0, 1 and 3 batches the weights are 4, 3 and 1."""
    loads = {0: 0, 1: 1, 2: 3}
    rng, counts = Random(1), [0, 0, 0]
    for _ in range(8_000):
        placement = StickyPlacement(rng, 0, lambda topic, partition: loads[partition])
        counts[placement.place("t", 10, 3, (0, 1, 2))] += 1
    assert [count / 1_000 for count in counts] == pytest.approx([4, 3, 1], rel=0.15)


def test_keys_may_be_ignored() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        for _ in range(40):
            await producer.send("t", b"x", key=b"the same")

    broker = tell(story, partition_count=3, batch_size=0, linger_ms=0, partitioner_ignore_keys=True)
    assert sum(bool(log.values) for log in broker.logs) > 1


# What is counted


def test_a_producer_counts_what_it_does() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        broker.delay_s = 0.25
        broker.script.extend([ErrorCode.NOT_ENOUGH_REPLICAS])
        deliveries = [await producer.send("t", b"x" * 100) for _ in range(10)]
        assert producer.metrics().buffer_available_bytes < producer.metrics().buffer_total_bytes
        for delivery in deliveries:
            await delivery.wait()
        broker.script.append(ErrorCode.INVALID_RECORD)
        with pytest.raises(KafkaError):
            await (await producer.send("t", b"refused")).wait()
        metrics = producer.metrics()
        assert (
            metrics.record_send_total,
            metrics.record_retry_total,
            metrics.record_error_total,
        ) == (10, 10, 1)
        assert (metrics.request_total, metrics.requests_in_flight) == (3, 0)
        assert metrics.request_latency_avg == pytest.approx(250, abs=10)
        assert metrics.record_queue_time_max >= 5
        assert metrics.buffer_available_bytes == metrics.buffer_total_bytes
        assert metrics.topics["t"].record_send_total == 10
        assert metrics.topics["t"].byte_total > 2_000
        assert metrics.named()["record-send-total"] == 10
        assert metrics.connection_count >= 1

    tell(story)


def test_nothing_is_counted_where_that_is_switched_off() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await (await producer.send("t", b"x")).wait()
        assert (producer.metrics().record_send_total, producer.metrics().request_total) == (0, 0)

    tell(story, enable_metrics=False)


# Many at once


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_size": 200},
        {"batch_size": 0},
        {"buffer_memory": 600, "batch_size": 300},
        {"compression": "zstd"},
    ],
)
def test_many_values_arrive_in_order_and_each_has_its_receipt(settings: dict[str, Any]) -> None:
    heard: list[int] = []

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        values = [b"%d" % index for index in range(500)] + [None, "text"]

        def note(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            heard.append(metadata.offset if metadata else -1)

        deliveries = await producer.send_many(
            "t", values, headers=[("h", b"1")], timestamp_ms=7, on_delivery=note
        )
        placed = [await delivery.wait() for delivery in deliveries]
        assert [(each.offset, each.timestamp_ms) for each in placed] == [
            (offset, 7) for offset in range(502)
        ]
        assert await producer.send_many("t", []) == []
        assert producer.accumulator.buffered_bytes == 0

    broker = tell(story, linger_ms=0, **settings)
    assert broker.logs[0].values == [*(b"%d" % index for index in range(500)), b"", b"text"]
    assert heard == list(range(502))


def test_many_values_spread_over_partitions_batch_by_batch() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.send_many("t", [b"x" * 50] * 400)
        for delivery in await producer.send_many("t", [b"y"] * 10, partition=2):
            assert (await delivery.wait()).partition == 2

    broker = tell(story, partition_count=3, batch_size=1_000)
    assert all(len(log.values) > 40 for log in broker.logs)


def test_a_value_that_is_too_large_stops_the_many_where_it_stands() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        with pytest.raises(KafkaError, match="max_request_size"):
            await producer.send_many("t", [b"a", b"b", b"x" * 2_000_000, b"c"])
        with pytest.raises(TypeError):
            await producer.send_many("t", [b"d", 5])

    assert tell(story).logs[0].values == [b"a", b"b"]


def test_many_values_go_through_serializers_and_partitioners_all_the_same() -> None:
    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        await producer.send_many("t", [1, 2, 3])

    broker = tell(story, partition_count=2, value_serializer=str, partitioner=lambda *_: 1)
    assert broker.logs[1].values == [b"1", b"2", b"3"]


@pytest.mark.parametrize("settings", [{}, {"value_serializer": str.upper}])
def test_many_values_have_the_headers_that_are_made_for_them_once(settings: dict[str, Any]) -> None:
    """A generator was used up by the first record where a serializer looks at each."""

    async def story(broker: ScriptedBroker, producer: Producer) -> None:
        requests = broker.requests
        await producer.send_many("t", ["a", "b"], headers=((name, b"") for name in ("h", "i")))
        await producer.flush()
        (batch,) = [
            request.topic_data[0].partition_data[0].records
            for key, request in requests
            if key is ApiKey.PRODUCE
        ]
        assert [[name for name, _ in record.headers] for record in iterate_records(batch)] == [
            ["h", "i"],
            ["h", "i"],
        ]

    tell(story, linger_ms=1_000, **settings)
