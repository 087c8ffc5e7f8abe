"""librdkafka's producer runs transactions from end to end.

They are committed, aborted, fenced and timed out, and have positions in them.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from log_service.common.errors import ErrorCode
from tests.helpers.broker_process import BrokerProcess
from tests.integration import confluent
from tests.integration.transaction_clients import SECONDS, producer_of, seen, write

FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    properties = {
        "transaction.state.log.num.partitions": "4",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.min.session.timeout.ms": "500",
    }
    with BrokerProcess(tmp_path_factory.mktemp("broker"), properties=properties) as running:
        yield running


@pytest.fixture
def topic(node: BrokerProcess, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name.replace("_", "-").replace("[", "-").replace("]", "")
    confluent.create_topic(node.bootstrap, name, 2)
    return name


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_only_committed_records_are_read_by_those_who_ask_for_them(
    node: BrokerProcess, topic: str
) -> None:
    producer = producer_of(node.bootstrap, topic)
    for round_number in range(3):
        write(
            producer,
            topic,
            f"kept {round_number} a",
            f"kept {round_number} b",
            f"kept {round_number} c",
        )
        producer.commit_transaction(SECONDS)
        write(producer, topic, f"left {round_number}")
        producer.abort_transaction(SECONDS)
    write(producer, topic, "open")
    kept = sorted(f"kept {number} {letter}".encode() for number in range(3) for letter in "abc")
    until(lambda: seen(node.bootstrap, topic) == kept)
    assert len(seen(node.bootstrap, topic, level="read_uncommitted")) == 9 + 3 + 1
    producer.commit_transaction(SECONDS)
    until(lambda: seen(node.bootstrap, topic) == sorted([*kept, b"open"]))


def test_a_second_producer_fences_the_first_and_its_transaction_is_aborted(
    node: BrokerProcess, topic: str
) -> None:
    first = producer_of(node.bootstrap, topic)
    write(first, topic, "of the first")
    second = producer_of(node.bootstrap, topic)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(SECONDS)
    assert refused.value.args[0].fatal()
    write(second, topic, "of the second")
    second.commit_transaction(SECONDS)
    until(lambda: seen(node.bootstrap, topic) == [b"of the second"])


def test_a_transaction_that_takes_too_long_is_aborted(node: BrokerProcess, topic: str) -> None:
    producer = producer_of(node.bootstrap, topic, transaction_timeout_ms=1_000)
    write(producer, topic, "too late")
    other = producer_of(node.bootstrap, f"{topic}-other")
    write(other, topic, "in time")
    other.commit_transaction(SECONDS)
    until(lambda: seen(node.bootstrap, topic) == [b"in time"])
    with pytest.raises(KafkaException):
        producer.commit_transaction(SECONDS)


@pytest.mark.parametrize("is_commit", [True, False])
def test_positions_count_with_the_transaction(
    node: BrokerProcess, topic: str, is_commit: bool
) -> None:
    group = name = f"{topic}-{is_commit}"
    reader = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe([topic])
    until(lambda: reader.poll(0.1) is not None or bool(reader.assignment()))
    producer = producer_of(node.bootstrap, name)
    write(producer, topic, "result")
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 7)], reader.consumer_group_metadata(), SECONDS
    )
    if is_commit:
        producer.commit_transaction(SECONDS)
    else:
        producer.abort_transaction(SECONDS)
    expected = 7 if is_commit else -1001
    until(lambda: reader.committed([TopicPartition(topic, 0)], SECONDS)[0].offset == expected)
    reader.close()


def test_open_transactions_survive_a_kill_and_end_after_it(tmp_path: Path) -> None:
    properties = {"transaction.state.log.num.partitions": "2"}
    with BrokerProcess(tmp_path, properties=properties) as node:
        confluent.create_topic(node.bootstrap, "t", 2)
        producer = producer_of(node.bootstrap, "survivor")
        write(producer, "t", "before")
        node.kill()
        node.start()
        producer.produce("t", b"after", partition=1)
        producer.commit_transaction(SECONDS)
        until(lambda: seen(node.bootstrap, "t") == [b"after", b"before"])
        write(producer, "t", "next")
        producer.commit_transaction(SECONDS)
        until(lambda: seen(node.bootstrap, "t") == [b"after", b"before", b"next"])
