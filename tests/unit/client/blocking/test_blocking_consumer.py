"""The consumer for threads: rebalance callbacks may use the consumer that calls them."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, BlockingProducer, ConsumerRecord, NewTopic, TopicPartition
from tests.helpers.broker_process import BrokerThread

ONLY = TopicPartition("t", 0)
COUNT = 10


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(tmp_path_factory.mktemp("broker")) as broker:
        with BlockingAdmin(broker.bootstrap) as admin, BlockingProducer(broker.bootstrap) as producer:
            admin.create_topics([NewTopic(name="t", partition_count=1, replication_factor=1)])
            producer.send_many("t", [b"%d" % number for number in range(COUNT)])
        yield broker.bootstrap


def first_polled(consumer: BlockingConsumer) -> ConsumerRecord:
    while not (records := consumer.poll()):
        pass
    return records[0]


def test_a_callback_commits_what_it_gives_up_also_when_the_consumer_closes(bootstrap: str) -> None:
    heard: list[tuple[str, Sequence[TopicPartition]]] = []
    with BlockingConsumer(bootstrap, group_id="commits", auto_offset_reset="earliest", enable_auto_commit=False) as consumer:

        def revoked(partitions: Sequence[TopicPartition]) -> None:
            consumer.commit({ONLY: 7})
            heard.append(("revoked", partitions))

        consumer.subscribe(["t"], on_assigned=lambda partitions: heard.append(("assigned", partitions)), on_revoked=revoked)
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
