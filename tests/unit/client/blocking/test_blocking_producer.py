"""The producer for threads keeps order and bounds, also when it closes or its process forks.

A scripted broker lives in the producer's own run.
"""

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    Consumer,
    ErrorCode,
    KafkaError,
    NewTopic,
    Producer,
    TopicPartition,
)
from log_service.client.admin.admin import Admin
from tests.helpers.broker_process import BrokerThread
from tests.helpers.client_faces import accumulator_of, client_of, portal_of
from tests.unit.client.asyncio.scripted import beside_broker


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker:
        with BlockingAdmin(broker.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(name=name, partition_count=2, replication_factor=1)
                    for name in ("t", "order", "loop", "committed")
                ]
            )
        yield broker.bootstrap


@contextmanager
def producing(bootstrap: str, **settings: Any) -> Iterator[BlockingProducer]:
    with BlockingProducer(bootstrap, **settings) as producer:
        yield producer


def test_threads_share_one_producer_and_each_keeps_its_order(bootstrap: str) -> None:
    def work(producer: BlockingProducer, name: int) -> None:
        for number in range(2_000):
            producer.send("order", b"%d %d" % (name, number), partition=0)

    with producing(bootstrap, linger_ms=1, batch_size=2_000, buffer_memory=100_000) as producer:
        threads = [threading.Thread(target=work, args=(producer, name)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        producer.flush(30_000)
        metrics = producer.metrics()
        assert (metrics.record_send_total, metrics.record_error_total) == (8_000, 0)
    seen: list[list[int]] = [[] for _ in threads]
    with BlockingConsumer(bootstrap, group_id="order", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["order"])
        while sum(map(len, seen)) < 8_000:
            for record in consumer.poll():
                name, number = map(int, record.value.split())
                seen[name].append(number)
    assert seen == [list(range(2_000))] * 4


def test_many_values_from_many_threads_keep_their_order(bootstrap: str) -> None:
    def work(producer: BlockingProducer, name: int) -> None:
        for part in range(10):
            receipts = producer.send_many(
                "many",
                [b"%d %d" % (name, part * 300 + number) for number in range(300)],
                partition=0,
            )
            assert len(receipts) == 300
        assert receipts[-1].wait(30_000).offset >= 2_999

    with BlockingAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name="many", partition_count=1, replication_factor=1)])
    with producing(bootstrap, linger_ms=1, batch_size=2_000, buffer_memory=50_000) as producer:
        threads = [threading.Thread(target=work, args=(producer, name)) for name in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert producer.metrics().record_send_total == 9_000
    seen: list[list[int]] = [[], [], []]
    with BlockingConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("many", 0)])
        while sum(map(len, seen)) < 9_000:
            for record in consumer.poll():
                name, number = map(int, record.value.split())
                seen[name].append(number)
    assert seen == [list(range(3_000))] * 3


def test_a_full_buffer_makes_threads_wait_and_then_raises(bootstrap: str) -> None:
    with producing(
        bootstrap, buffer_memory=1_000, max_block_ms=200, linger_ms=60_000, batch_size=1 << 20
    ) as producer:
        accumulator = accumulator_of(producer)
        with accumulator.lock:  # the sender cannot take anything out
            accumulator.buffered_bytes += 1_000
        with pytest.raises(KafkaError, match="buffer_memory 1000 is full") as caught:
            producer.send("t", b"x" * 100)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        with accumulator.lock:
            accumulator.buffered_bytes -= 1_000
        for _ in range(200):
            producer.send("t", b"x" * 100)  # lingering ends when a producer waits for room
        assert producer.metrics().waiting_threads == 0


def test_a_callback_may_send_and_must_not_wait(bootstrap: str) -> None:
    heard: list[Any] = []

    with producing(bootstrap, linger_ms=0) as producer:

        def on_delivery(metadata: Any, error: Any) -> None:
            heard.append(producer.send("t", b"from the callback"))
            try:
                producer.flush()
            except KafkaError as refusal:
                heard.append(str(refusal))

        producer.send("t", b"x", on_delivery=on_delivery).wait(10_000)
        deadline = time.monotonic() + 10
        while len(heard) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert heard[0].wait(10_000).offset >= 0
        assert "must not wait for the client" in heard[1]


def test_closing_has_a_deadline_and_settles_everything(bootstrap: str) -> None:
    producer = BlockingProducer("127.0.0.1:1", enable_idempotence=False, max_block_ms=100)
    producer.__enter__()
    with pytest.raises(KafkaError):
        producer.send("t", b"nobody is there")
    started = time.monotonic()
    producer.close(timeout_ms=100)
    assert time.monotonic() - started < 5
    with pytest.raises(KafkaError, match="the client is closed"):
        producer.send("t", b"x")
    producer.close()
    with producing(bootstrap, linger_ms=60_000) as open_producer:
        receipt = open_producer.send("t", b"x")
        open_producer.close(timeout_ms=10_000)
        assert receipt.wait().offset >= 0, "a receipt is good after closing"


def test_a_child_process_is_told_that_the_client_is_its_parents(
    bootstrap: str, tmp_path: Path
) -> None:
    with producing(bootstrap) as producer, BlockingAdmin(bootstrap) as admin:
        producer.send("t", b"x").wait(10_000)
        gc.collect()
        child = os.fork()
        if child == 0:  # nothing of pytest may run in here
            texts = []
            for call in (
                lambda: producer.send("t", b"y"),
                producer.flush,
                admin.list_topics,
                producer.close,
            ):
                try:
                    call()
                    texts.append("nothing")
                except KafkaError as error:
                    texts.append(str(error))
                except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
                    texts.append(repr(error))
            (tmp_path / "heard").write_text("\n".join(texts))
            os._exit(0)
        os.waitpid(child, 0)
        heard = (tmp_path / "heard").read_text().splitlines()
        assert [text.endswith("open one after the fork") for text in heard] == [
            True,
            True,
            True,
            False,
        ], heard
        assert heard[3] == "nothing", "closing in the child does nothing"
        assert producer.send("t", b"still good").wait(10_000).offset >= 0


def test_a_loop_ends_with_a_wakeup(bootstrap: str) -> None:
    with producing(bootstrap) as producer:
        for number in range(10):
            producer.send("loop", b"%d" % number, partition=0)
    seen: list[bytes] = []
    with BlockingConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("loop", 0)])
        threading.Timer(0.5, consumer.wakeup).start()
        seen.extend(record.value for record in consumer)
    assert seen == [b"%d" % number for number in range(10)]


def test_a_commit_in_a_loop_covers_what_the_loop_has_yielded(bootstrap: str) -> None:
    """It used to cover the whole poll behind the loop: a crash lost what had not been yielded."""
    with producing(bootstrap) as producer:
        producer.send_many("committed", [b"%d" % number for number in range(50)], partition=0)
    partition = TopicPartition("committed", 0)
    told: list[int] = []
    with BlockingConsumer(
        bootstrap, group_id="committed", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign([partition])
        for record in consumer:
            if record.offset == 10:
                assert consumer.consumed()[partition].offset == 11, (
                    "what a transaction commits instead"
                )
                consumer.commit()
                assert consumer.committed([partition])[partition].offset == 11
            if record.offset == 20:
                consumer.commit_soon(
                    on_commit=lambda offsets, _: told.append(offsets[partition].offset)
                )
                consumer.commit({partition: 21})  # behind the other one
                assert told == [21]
                break
        assert consumer.poll(1)[0].offset == 21


@pytest.mark.parametrize(
    ("blocking", "plain"),
    [(BlockingProducer, Producer), (BlockingConsumer, Consumer), (BlockingAdmin, Admin)],
)
def test_a_blocking_class_has_everything_that_its_trio_face_has(
    blocking: type, plain: type
) -> None:
    of_programs_with_a_loop = {"send_nowait", "take", "take_nowait", "cluster"}
    inside = {
        "place",
        "place_run",
        "monotonic_ms",
        "size_of",
        "find_topic",
        "no_room",
        "intercepted",
        "is_sender_late_for",
        "wake_sender",
    }
    inside |= {"wait_for_room", "transactor", "require_transaction"}
    public = (
        {name for name in dir(plain) if not name.startswith("_")} - of_programs_with_a_loop - inside
    )
    assert public <= {name for name in dir(blocking) if not name.startswith("_")}


def test_a_portal_refuses_to_wait_for_itself() -> None:
    portal = portal_of(BlockingAdmin("127.0.0.1:1"))
    portal.open()

    async def inside() -> None:
        portal.call_sync(int)

    with pytest.raises(KafkaError, match="must not wait for the client"):
        portal.call(inside)
    portal.close()


@pytest.mark.parametrize("is_left", [False, True], ids=["closes", "leaves the block"])
def test_two_threads_that_close_a_producer_deliver_what_waits(is_left: bool) -> None:
    """The second ended the run in which the first one waited for the broker: the records were given
    up.
    """
    broker, producer = beside_broker(BlockingProducer)
    broker.delay_s = 1
    with producer:
        receipts = [producer.send("t", b"%d" % number) for number in range(10)]
        first = threading.Thread(target=producer.close)
        first.start()
        while not client_of(producer).is_closed:
            time.sleep(0.001)
        if not is_left:
            producer.close()
    first.join()
    assert [receipt.wait().offset for receipt in receipts] == list(range(10))


def test_one_text_is_not_taken_for_many_values() -> None:
    broker, producer = beside_broker(BlockingProducer)
    with producer, pytest.raises(TypeError, match="values are several"):
        producer.send_many("t", "abc")
    assert broker.logs[0].values == []
