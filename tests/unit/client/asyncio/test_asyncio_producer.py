"""The producer for asyncio keeps order and bounds beside a scripted broker in its own thread.

Sends are cancelled, callbacks run, and many loops share it.
"""

import asyncio
import threading
from random import Random
from typing import Any

import pytest

from log_service.client import (
    AsyncioDelivery,
    AsyncioProducer,
    ErrorCode,
    KafkaError,
    Producer,
    RecordMetadata,
)
from tests.helpers.client_faces import accumulator_of, client_of, portal_of
from tests.unit.client.asyncio.scripted import scripted_producer
from tests.unit.client.scripted_broker import ScriptedBroker

PATIENCE_S = 30.0


def test_records_of_each_task_keep_their_order_while_there_is_no_room() -> None:
    """Each task waits in turn; the loop goes on meanwhile."""
    broker, unopened = scripted_producer(linger_ms=1, batch_size=500, buffer_memory=2_000)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def work(producer: AsyncioProducer, name: int) -> None:
        for number in range(200):
            await producer.send("t", b"%d %d" % (name, number))

    async def main() -> None:
        async with unopened as producer:
            ticking = asyncio.create_task(tick())
            await asyncio.gather(*(work(producer, name) for name in range(10)))
            await producer.flush(30_000)
            ticking.cancel()
            metrics = await producer.metrics()
            assert (
                metrics.record_send_total,
                metrics.record_error_total,
                metrics.waiting_threads,
            ) == (2_000, 0, 0)

    asyncio.run(main())
    seen: list[list[int]] = [[] for _ in range(10)]
    for value in broker.logs[0].values:
        name, number = map(int, value.split())
        seen[name].append(number)
    assert seen == [list(range(200))] * 10
    assert ticks > 100, "tasks that wait for room do not hold up the others"


def test_a_full_buffer_is_told_after_max_block_ms_and_the_next_in_turn_is_served() -> None:
    broker, unopened = scripted_producer(
        buffer_memory=1_000, max_block_ms=300, linger_ms=60_000, batch_size=1 << 20
    )

    async def main() -> None:
        async with unopened as producer:
            accumulator = accumulator_of(producer)
            await producer.partitions_for("t")
            with accumulator.lock:  # the sender cannot take anything out
                accumulator.buffered_bytes += 1_000
            failures = await asyncio.gather(
                *(producer.send("t", b"x" * 100) for _ in range(5)), return_exceptions=True
            )
            assert [getattr(failure, "code", None) for failure in failures] == [
                ErrorCode.REQUEST_TIMED_OUT
            ] * 5
            assert "within 300 ms: buffer_memory 1000 is full" in str(failures[4])
            waiting = [
                asyncio.create_task(producer.send("t", b"%d" % number)) for number in range(3)
            ]
            await asyncio.sleep(0.01)
            waiting[0].cancel()
            with accumulator.lock:
                accumulator.buffered_bytes -= 1_000
            await producer._bridge.call_sync(client_of(producer)._sender._notify_settled)
            receipts = await asyncio.gather(*waiting[1:])
            await producer.flush()
            assert [(await receipt.wait()).offset for receipt in receipts] == [0, 1]
            assert (producer._queued_count, producer._room.locked()) == (0, False)

    asyncio.run(main())
    assert broker.logs[0].values == [b"1", b"2"], "in turn, and without the one that gave up"


@pytest.mark.parametrize("seed", range(6))
def test_a_cancelled_send_has_not_taken_the_record_and_any_other_has(seed: int) -> None:
    """Timeouts strike while the topic is looked up, while there is no room, and while others run."""
    broker, unopened = scripted_producer(
        seed=seed, linger_ms=1, batch_size=400, buffer_memory=1_500
    )
    rng = Random(seed)
    taken: list[bytes] = []

    async def work(producer: AsyncioProducer, name: int) -> None:
        for number in range(60):
            value = b"%d %d" % (name, number)
            try:
                async with asyncio.timeout(
                    rng.choice([0, rng.random() / 1_000, rng.random() / 50])
                ):
                    receipt = await producer.send("t", value)
            except TimeoutError:
                continue
            taken.append(value)
            if rng.random() < 0.2:
                waiting = asyncio.create_task(receipt.wait())
                await asyncio.sleep(0)
                waiting.cancel()  # has nothing to do with the delivery

    async def main() -> None:
        async with unopened as producer:
            await asyncio.gather(*(work(producer, name) for name in range(5)))

    asyncio.run(main())
    assert 0 < len(taken) < 300, "some were cancelled, some not"
    assert sorted(broker.logs[0].values) == sorted(taken)


def test_wait_for_around_a_send_and_around_a_receipt() -> None:
    """A timeout works as applications write it.

    That of Python 3.11 runs the coroutine in a task of its own.
    """
    broker, unopened = scripted_producer(linger_ms=0)

    async def main() -> None:
        async with unopened as producer:
            receipt = await asyncio.wait_for(producer.send("t", b"first"), 10)
            assert (await asyncio.wait_for(receipt.wait(), 10)).offset == 0
            broker.delay_s = 0.2
            receipt = await producer.send("t", b"second")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(receipt.wait(), 0.01)
            assert (await receipt.wait()).offset == 1

    asyncio.run(main())
    assert broker.logs[0].values == [b"first", b"second"]


def test_thousands_of_tasks_that_wait_for_one_batch_are_one_wake_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, unopened = scripted_producer(linger_ms=60_000, batch_size=1 << 20)
    wakes: list[object] = []

    async def main() -> None:
        async with unopened as producer:
            loop = asyncio.get_running_loop()
            receipts = await producer.send_many("t", [b"%d" % number for number in range(5_000)])
            waiting = [asyncio.create_task(receipt.wait()) for receipt in receipts]
            await asyncio.sleep(0)
            wake = loop.call_soon_threadsafe

            def counted(*arguments: Any, **more: Any) -> asyncio.Handle:
                wakes.append(arguments)
                return wake(*arguments, **more)

            monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
            await producer.flush()
            metadata = await asyncio.gather(*waiting)
            assert sorted(each.offset for each in metadata) == list(range(5_000))

    asyncio.run(main())
    assert 0 < len(wakes) < 20


def test_callbacks_are_called_on_the_loop_in_order_also_where_the_broker_hangs_up() -> None:
    broker, unopened = scripted_producer(
        batch_size=0, linger_ms=0, retry_backoff_ms=1, reconnect_backoff_ms=1
    )
    broker.script.extend(
        [
            ScriptedBroker.APPEND,
            ScriptedBroker.DROP,
            ScriptedBroker.APPEND_AND_DROP,
            ErrorCode.NOT_ENOUGH_REPLICAS,
        ]
    )
    heard: list[tuple[int, bool, bool]] = []

    async def main() -> None:
        thread = threading.current_thread()

        def note(number: int, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            heard.append((number, error is None, threading.current_thread() is thread))
            if number == 7:
                raise ZeroDivisionError

        async with unopened as producer:
            for number in range(30):
                await producer.send(
                    "t",
                    b"%d" % number,
                    on_delivery=lambda *told, number=number: note(number, *told),
                )
            await producer.send_many("t", [b"30", b"31"], on_delivery=lambda *told: note(30, *told))
            await producer.flush()

    asyncio.run(main())
    assert heard == [(number, True, True) for number in [*range(30), 30, 30]]
    assert broker.logs[0].values == [b"%d" % number for number in range(32)]


def test_receipts_raise_what_became_of_the_record_and_follow_a_batch_that_is_split() -> None:
    broker, unopened = scripted_producer(linger_ms=60_000, batch_size=1 << 20)
    broker.script.extend(
        [ErrorCode.MESSAGE_TOO_LARGE, ScriptedBroker.APPEND, ErrorCode.INVALID_RECORD]
    )

    async def main() -> None:
        async with unopened as producer:
            receipts = [await producer.send("t", b"%d" % number) for number in range(4)]
            waiting = [asyncio.create_task(receipt.wait()) for receipt in receipts]
            await asyncio.sleep(0)
            await producer.flush()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert "offset=" in repr(receipts[0])
            for batch in (receipts[0].batch, receipts[0].batch.part_of(0)[0]):
                # A task that looked just before the batch was split, or settled, asks to be told
                # just after.
                await asyncio.wait_for(producer._settlements.wait_changed(batch), PATIENCE_S / 2)
        assert [getattr(outcome, "code", None) for outcome in outcomes].count(
            ErrorCode.INVALID_RECORD
        ) == 2
        with pytest.raises(KafkaError):
            await receipts[-1].wait()

    asyncio.run(main())
    assert broker.logs[0].values == [b"0", b"1"]


def test_leaving_the_block_delivers_also_where_its_task_is_cancelled() -> None:
    """As ``asyncio.run`` ends a service on Ctrl-C."""
    broker, unopened = scripted_producer(linger_ms=60_000)
    receipts: list[AsyncioDelivery] = []

    async def serve(has_sent: asyncio.Event) -> None:
        async with unopened as producer:
            receipts.append(await producer.send("t", b"x"))
            has_sent.set()
            await asyncio.sleep(1_000)

    async def main() -> None:
        has_sent = asyncio.Event()
        serving = asyncio.create_task(serve(has_sent))
        await has_sent.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert (await receipts[0].wait()).offset == 0

    asyncio.run(main())
    assert broker.logs[0].values == [b"x"]


def test_a_second_cancellation_ends_a_producer_that_still_delivers() -> None:
    broker, unopened = scripted_producer(linger_ms=0)
    receipts: list[AsyncioDelivery] = []

    async def serve(has_sent: asyncio.Event) -> None:
        async with unopened as producer:
            await (await producer.send("t", b"x")).wait()
            broker.script.extend([ScriptedBroker.IGNORE] * 3)
            receipts.append(await producer.send("t", b"y"))
            has_sent.set()
            await asyncio.sleep(1_000)

    async def main() -> None:
        has_sent = asyncio.Event()
        serving = asyncio.create_task(serve(has_sent))
        await has_sent.wait()
        serving.cancel()
        await asyncio.wait([serving], timeout=0.1)
        assert not serving.done(), "it delivers for as long as an exception would leave it"
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(serving, PATIENCE_S / 2)
        with pytest.raises(KafkaError, match="the producer was closed"):
            await receipts[0].wait()

    asyncio.run(main())


def test_closing_has_a_deadline_and_settles_everything() -> None:
    broker, unopened = scripted_producer(linger_ms=0)

    async def main() -> None:
        async with unopened as producer:
            await (await producer.send("t", b"x")).wait()
            broker.script.extend([ScriptedBroker.IGNORE] * 3)
            receipt = await producer.send("t", b"y")
            waiting = asyncio.create_task(receipt.wait())
            await producer.close(timeout_ms=100)
            with pytest.raises(KafkaError, match="100 ms did not suffice"):
                await waiting
            with pytest.raises(KafkaError, match="the client is closed"):
                await producer.send("t", b"z")
            await producer.close()

    asyncio.run(main())


def test_closing_that_is_cancelled_gives_up_what_is_left() -> None:
    broker, unopened = scripted_producer(linger_ms=0)

    async def main() -> None:
        async with unopened as producer:
            await (await producer.send("t", b"x")).wait()
            broker.script.extend([ScriptedBroker.IGNORE] * 3)
            receipt = await producer.send("t", b"y")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.close(), 0.1)
            assert not producer.is_open
            with pytest.raises(KafkaError, match="the producer was closed"):
                await receipt.wait()

    asyncio.run(main())


def test_loops_in_many_threads_have_a_producer_each() -> None:
    logs: dict[int, list[bytes]] = {}

    def work(name: int) -> None:
        broker, unopened = scripted_producer(seed=name, linger_ms=1)

        async def main() -> None:
            async with unopened as producer:
                for number in range(200):
                    await producer.send("t", b"%d %d" % (name, number))

        asyncio.run(main())
        logs[name] = broker.logs[0].values

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert logs == {name: [b"%d %d" % (name, number) for number in range(200)] for name in range(4)}


def test_another_loop_is_refused_and_may_close() -> None:
    broker, producer = scripted_producer(linger_ms=0)

    async def first() -> AsyncioDelivery:
        await producer.__aenter__()
        return await producer.send("t", b"x")

    receipt = asyncio.run(first())
    for call in (lambda: producer.send("t", b"y"), producer.flush, producer.metrics):
        with pytest.raises(KafkaError, match="open one in each loop"):
            asyncio.run(call())
    asyncio.run(producer.close())
    assert asyncio.run(receipt.wait()).offset == 0, "a receipt is good after closing, in any loop"
    assert broker.logs[0].values == [b"x"]


def test_a_producer_whose_loop_is_closed_sends_what_it_took_and_ends() -> None:
    broker, producer = scripted_producer(linger_ms=20)

    async def first() -> None:
        await producer.__aenter__()
        receipt = await producer.send("t", b"x")
        waiting = asyncio.create_task(receipt.wait())
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(first())
    portal_of(producer).ended.result(PATIENCE_S)
    assert broker.logs[0].values == [b"x"]


def test_misuse_is_told_as_by_the_producer() -> None:
    _, unopened = scripted_producer(max_block_ms=200)

    async def main() -> None:
        with pytest.raises(KafkaError, match="the client is closed"):
            await unopened.send("t", b"x")
        async with unopened as producer:
            with pytest.raises(TypeError):
                await producer.send("t", 3)
            with pytest.raises(KafkaError) as caught:
                await producer.send("nowhere", b"x")
            assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            with pytest.raises(KafkaError):
                await producer.send("t", b"x", partition=7)
            with pytest.raises(KafkaError, match="a timestamp is from 0"):
                await producer.send("t", b"x", timestamp_ms=-2)

    asyncio.run(main())


def test_it_has_everything_that_its_trio_face_has() -> None:
    inside = {
        "monotonic_ms",
        "wall_ms",
        "find_topic",
        "no_room",
        "is_sender_late_for",
        "wake_sender",
        "wait_for_room",
    }
    inside |= {"transactor", "require_transaction"}
    public = {name for name in dir(Producer) if not name.startswith("_")} - inside - {"send_nowait"}
    assert public <= {name for name in dir(AsyncioProducer) if not name.startswith("_")}


def test_serializers_and_the_partitioner_run_on_the_loop() -> None:
    threads: set[Any] = set()

    def serialize(value: Any) -> bytes:
        threads.add(threading.current_thread())
        return b"%d" % value

    broker, unopened = scripted_producer(value_serializer=serialize, partitioner=lambda *_: 0)

    async def main() -> None:
        async with unopened as producer:
            assert len(await producer.send_many("t", range(10))) == 10

    asyncio.run(main())
    assert threads == {threading.current_thread()}
    assert broker.logs[0].values == [b"%d" % number for number in range(10)]


def test_a_task_that_leaves_the_block_while_another_closes_the_producer_delivers_what_waits() -> (
    None
):
    """It ended the run in which the other waited for the broker: the records were given up."""

    async def main() -> None:
        broker, producer = scripted_producer()
        broker.delay_s = 1
        async with producer:
            receipts = [await producer.send("t", b"%d" % number) for number in range(10)]
            closing = asyncio.create_task(producer.close())
            while not client_of(producer).is_closed:  # noqa: ASYNC110 - the other thread does that
                await asyncio.sleep(0.001)
        await closing
        assert [(await receipt.wait()).offset for receipt in receipts] == list(range(10))

    asyncio.run(main())


def test_what_is_no_callback_and_no_list_of_values_is_refused() -> None:
    """As on trio. The callback failed when the record was acknowledged, and only the log told of
    that.
    """

    async def main() -> None:
        broker, producer = scripted_producer()
        async with producer:
            mistaken: Any = 5
            with pytest.raises(TypeError, match="on_delivery is a function"):
                await producer.send("t", b"a", on_delivery=mistaken)
            with pytest.raises(TypeError, match="on_delivery is a function"):
                await producer.send_many("t", [b"a"], on_delivery=mistaken)
            with pytest.raises(TypeError, match="values are several"):
                await producer.send_many("t", "abc")
        assert broker.logs[0].values == []

    asyncio.run(main())
