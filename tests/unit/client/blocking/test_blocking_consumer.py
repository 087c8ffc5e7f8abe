"""The consumer for threads: rebalance callbacks may use the consumer that calls them."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ConsumerRecord,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
    portal,
)
from tests.helpers.broker_process import BrokerThread

ONLY = TopicPartition("t", 0)
COUNT = 10


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker:
        with (
            BlockingAdmin(broker.bootstrap) as admin,
            BlockingProducer(broker.bootstrap) as producer,
        ):
            admin.create_topics([NewTopic(name="t", partition_count=1, replication_factor=1)])
            producer.send_many("t", [b"%d" % number for number in range(COUNT)])
        yield broker.bootstrap


def first_polled(consumer: BlockingConsumer) -> ConsumerRecord:
    while not (records := consumer.poll()):
        pass
    return records[0]


def test_a_callback_commits_what_it_gives_up_also_when_the_consumer_closes(bootstrap: str) -> None:
    heard: list[tuple[str, Sequence[TopicPartition]]] = []
    with BlockingConsumer(
        bootstrap, group_id="commits", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:

        def revoked(partitions: Sequence[TopicPartition]) -> None:
            consumer.commit({ONLY: 7})
            heard.append(("revoked", partitions))

        consumer.subscribe(
            ["t"],
            on_assigned=lambda partitions: heard.append(("assigned", partitions)),
            on_revoked=revoked,
        )
        assert first_polled(consumer).offset == 0
    assert heard == [("assigned", [ONLY]), ("revoked", [ONLY])]
    with BlockingConsumer(bootstrap, group_id="commits", enable_auto_commit=False) as again:
        again.subscribe(["t"])
        assert first_polled(again).offset == 7


def test_a_callback_seeks_where_its_own_store_says(bootstrap: str) -> None:
    threads: list[threading.Thread] = []
    with BlockingConsumer(bootstrap, group_id="seeks", auto_offset_reset="earliest") as consumer:

        def assigned(_: Sequence[TopicPartition]) -> None:
            threads.append(threading.current_thread())
            consumer.seek(ONLY, 4)

        consumer.subscribe(["t"], on_assigned=assigned)
        assert first_polled(consumer).offset == 4
    assert threads[0] is not threading.current_thread()


def test_what_a_callback_raises_comes_out_of_poll(bootstrap: str) -> None:
    def assigned(_: Sequence[TopicPartition]) -> None:
        raise ZeroDivisionError("the application's")

    with BlockingConsumer(bootstrap, group_id="raises", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"], on_assigned=assigned)
        with pytest.raises(ZeroDivisionError, match="the application's"):
            first_polled(consumer)


@contextmanager
def reading(bootstrap: str, **settings: Any) -> Iterator[BlockingConsumer]:
    with BlockingConsumer(bootstrap, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([ONLY])
        yield consumer


def test_a_loop_goes_where_its_body_moves_the_consumer(bootstrap: str) -> None:
    """It used to yield what it had polled before, and then to go back there."""
    with reading(bootstrap) as consumer:
        seen: list[int] = []
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 1:
                assert consumer.position(ONLY) == 1
                consumer.seek(ONLY, 7)
            elif len(seen) == 2:
                assert consumer.seek_to_time({ONLY: 0}) == {ONLY: 0}
            elif len(seen) == 3:
                consumer.pause([ONLY])
                assert consumer.poll(timeout_ms=50) == []
                consumer.resume([ONLY])
            else:
                break
        assert seen == [0, 7, 0, 1]
        assert consumer.poll(1)[0].offset == 2


def test_what_a_loop_did_not_come_to_is_not_committed_where_the_block_is_left(
    bootstrap: str,
) -> None:
    with reading(bootstrap, group_id="left") as consumer:
        records = iter(consumer)
        assert [next(records).offset for _ in range(3)] == [0, 1, 2]
    with reading(bootstrap, group_id="left") as again:
        assert first_polled(again).offset == 3


def test_a_commit_in_a_loop_tells_the_leader_epoch(bootstrap: str) -> None:
    """A commit carries the leader epoch, which shows the next reader a leader with an old view
    (KIP-320).
    """
    with reading(bootstrap, group_id="epochs") as consumer:
        records = iter(consumer)
        epoch = next(records).leader_epoch
        consumer.commit()
        assert (epoch, consumer.committed([ONLY])[ONLY]) == (
            0,
            OffsetAndMetadata(offset=1, leader_epoch=0),
        )
        next(records)
        assert consumer.consumed()[ONLY] == OffsetAndMetadata(offset=2, leader_epoch=0)


def test_a_plain_offset_that_is_committed_in_a_loop_tells_the_leader_epoch_where_it_is_the_position(
    bootstrap: str,
) -> None:
    """A plain offset at the position gets its leader epoch, as in a consumer on trio.

    The positions of this one are behind the records that its loop has not returned yet (KIP-320).
    """
    with reading(bootstrap, group_id="plain") as consumer:
        records = iter(consumer)
        next(records)
        given: list[OffsetAndMetadata | int] = [
            1,
            0,
            OffsetAndMetadata(offset=1, metadata="here"),
            OffsetAndMetadata(offset=1, leader_epoch=7),
        ]
        told: list[tuple[int, int, str]] = []
        for offset in given:
            consumer.commit({ONLY: offset})
            committed = consumer.committed([ONLY])[ONLY]
            told.append((committed.offset, committed.leader_epoch, committed.metadata))
        assert told == [(1, 0, ""), (0, -1, ""), (1, 0, "here"), (1, 7, "")]
        heard: Future[OffsetAndMetadata] = Future()
        consumer.commit_soon({ONLY: 1}, lambda offsets, _error: heard.set_result(offsets[ONLY]))
        assert heard.result(60) == OffsetAndMetadata(offset=1, leader_epoch=0)


def test_a_poll_that_is_interrupted_loses_no_record(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes when the records are there, and the application goes on, or leaves the block in
    peace.
    """

    class Interrupted(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            super().result(timeout)
            raise KeyboardInterrupt

    with reading(bootstrap, group_id="interrupted") as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(portal, "Future", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(timeout_ms=60_000)
        assert [record.offset for record in consumer.poll(4)] == [0, 1, 2, 3]
        with monkeypatch.context() as patched:
            patched.setattr(portal, "Future", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.seek(ONLY, 5)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(timeout_ms=60_000)
    with reading(bootstrap, group_id="interrupted") as again:
        assert first_polled(again).offset == 5


def test_a_wakeup_ends_the_loop_that_runs_or_the_next_one(bootstrap: str) -> None:
    """A wakeup before the loop was forgotten, and one from its body waited for the rest of the
    poll.
    """
    with reading(bootstrap) as consumer:
        consumer.wakeup()
        assert not list(consumer)
        seen: list[int] = []
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 3:
                consumer.wakeup()
        assert seen == [0, 1, 2, 3]
        consumer.wakeup()
        consumer.poll(1)
        assert next(iter(consumer)).offset >= 4, "a wakeup ends one thing"
