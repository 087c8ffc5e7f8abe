"""Transactional ids come to the end of their epochs and of their time as in Apache Kafka 4.3.1.

A producer id has 32,767 epochs. Nobody waits for so many transactions: both coordinators load
records of ids that have used up nearly all of them, which the test writes into the log of
``__transaction_state`` while the nodes are down. So it does with ids of eight days ago.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.coordinator.transaction.records import TransactionRecord, encode
from log_service.coordinator.transaction.transaction import (
    NEVER_TIMES_OUT_MS,
    Transaction,
    TransactionState,
)
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.records.batch import iterate_headers
from log_service.records.builder import build_batch
from tests.helpers.broker_process import BrokerProcess
from tests.integration import confluent
from tests.integration.asking_producer import READY_SECONDS, TOPIC, Producer
from tests.integration.differential import Cluster
from tests.integration.kafka_node import KafkaNode, skip_unless_kafka_is_there
from tests.integration.record_requests import fetch_request, wanted
from tests.integration.wire import Wire

PROPERTIES = {
    "add.partitions.to.txn.retry.backoff.max.ms": "0",  # tidelog waits for the end of the transaction before, Kafka does not
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
OLD_ID, LAST_EPOCH = 700_000, 32_766
"""A producer id that neither side gives out, and the last epoch that a producer has."""
EIGHT_DAYS_MS = 8 * 24 * 60 * 60_000
Scene = Callable[[Producer], None]


def used_up_by_restarts(producer: Producer) -> None:
    """The first request is not repeated here.

    Kafka's coordinator fails then (UNKNOWN_SERVER_ERROR), and ours repeats its response.
    """
    producer.init(LAST_EPOCH - 1)
    producer.init(LAST_EPOCH)
    producer.init(LAST_EPOCH, OLD_ID)
    producer.init(LAST_EPOCH - 1, OLD_ID)
    producer.init()


def used_up_by_newcomers(producer: Producer) -> None:
    producer.init()
    producer.init()
    producer.end(is_commit=True, epoch=LAST_EPOCH, producer_id=OLD_ID)


def used_up_by_commits(producer: Producer) -> None:
    producer.add_as_broker(place_of(producer))
    producer.end(is_commit=True)
    producer.settle()
    for is_commit in (True, False):  # the first one's response was lost
        producer.end(is_commit=is_commit, epoch=LAST_EPOCH, producer_id=OLD_ID)
    producer.add_as_broker(place_of(producer))
    producer.end(is_commit=True)


def used_up_by_aborts_of_nothing(producer: Producer) -> None:
    producer.end(is_commit=False)
    producer.settle()
    producer.end(is_commit=False, epoch=LAST_EPOCH, producer_id=OLD_ID)
    producer.end(is_commit=False)


def used_up_while_a_transaction_is_open(producer: Producer) -> None:
    producer.init()
    producer.settle()
    producer.init()
    producer.end(is_commit=True, epoch=LAST_EPOCH, producer_id=OLD_ID)


def used_up_by_a_classic_client(producer: Producer) -> None:
    producer.end(is_commit=True, version=4)
    producer.settle()
    producer.add(place_of(producer))
    producer.end(is_commit=False, version=4)
    producer.settle()
    producer.init()


def expired(producer: Producer) -> None:
    until_described(producer, lambda told: told.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    producer.add_as_broker(place_of(producer))
    producer.init(LAST_EPOCH)
    producer.init()


def timed_out_long_ago(producer: Producer) -> None:
    until_described(producer, lambda told: told.transaction_state == "CompleteAbort")
    producer.end(is_commit=False, epoch=5)


def open_without_a_timeout(producer: Producer) -> None:
    producer.add_as_broker(place_of(producer), verify_only=True)
    producer.end(is_commit=True)


def prepared_when_the_coordinator_ended(producer: Producer) -> None:
    until_described(producer, lambda told: told.transaction_state == "CompleteCommit")
    producer.end(is_commit=True, epoch=4)


def until_described(producer: Producer, is_so: Callable[[Any], bool]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not is_so(told := producer.described()):
        assert time.monotonic() < deadline, told
        time.sleep(0.05)


def place_of(producer: Producer) -> int:
    """The partition of an id's transactions."""
    return [scene.__name__ for scene in STORED].index(producer.transactional_id)


EMPTY, ONGOING, COMMITTED = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.COMPLETE_COMMIT,
)
STORED: dict[Scene, dict[str, Any]] = {
    used_up_by_restarts: {"producer_epoch": LAST_EPOCH - 1},
    used_up_by_newcomers: {"producer_epoch": LAST_EPOCH - 1},
    used_up_by_commits: {"producer_epoch": LAST_EPOCH, "state": COMMITTED, "client_version": 2},
    used_up_by_aborts_of_nothing: {"producer_epoch": LAST_EPOCH},
    used_up_while_a_transaction_is_open: {
        "producer_epoch": LAST_EPOCH,
        "state": ONGOING,
        "client_version": 2,
    },
    used_up_by_a_classic_client: {"producer_epoch": LAST_EPOCH, "state": ONGOING},
    expired: {"producer_epoch": 5, "age_ms": EIGHT_DAYS_MS},
    timed_out_long_ago: {
        "producer_epoch": 5,
        "state": ONGOING,
        "age_ms": EIGHT_DAYS_MS,
        "client_version": 2,
    },
    open_without_a_timeout: {
        "producer_epoch": 5,
        "state": ONGOING,
        "age_ms": EIGHT_DAYS_MS,
        "timeout_ms": NEVER_TIMES_OUT_MS,
    },
    prepared_when_the_coordinator_ended: {
        "producer_epoch": 5,
        "state": TransactionState.PREPARE_COMMIT,
        "client_version": 2,
    },
}
"""How each scene's id stands in the log; its place in this order is the partition of its
transactions.
"""
ENDED_AT_THE_START = (timed_out_long_ago, prepared_when_the_coordinator_ended)
"""Kafka's coordinator may begin before its own broker is unfenced, and then takes partitions for
deleted: markers are not compared.
"""


def stored_records() -> Iterator[tuple[int, bytes, bytes | None]]:
    now_ms = int(time.time() * 1_000)
    for index, (scene, fields) in enumerate(STORED.items()):
        more = {"timeout_ms": 600_000, "state": EMPTY, **fields}
        then_ms = now_ms - more.pop("age_ms", 0)
        is_open = more["state"] in {ONGOING, TransactionState.PREPARE_COMMIT}
        transaction = Transaction(
            transactional_id=scene.__name__,
            producer_id=OLD_ID + index,
            last_update_ms=then_ms,
            start_ms=then_ms if more["state"] is not EMPTY else -1,
            partitions=frozenset([TopicPartition(TOPIC, index)]) if is_open else frozenset(),
            **more,
        )
        yield (
            now_ms,
            *encode(TransactionRecord(transactional_id=scene.__name__, transaction=transaction)),
        )


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Cluster]]:
    """Both coordinators, once they have loaded the records."""
    skip_unless_kafka_is_there()
    with ExitStack() as stack:
        found = []
        for node in (
            BrokerProcess(tmp_path_factory.mktemp("tidelog"), properties=PROPERTIES),
            KafkaNode(tmp_path_factory.mktemp("kafka"), properties=PROPERTIES),
        ):
            stack.enter_context(node)
            confluent.create_topic(node.bootstrap, TOPIC, len(STORED))
            with Wire(node.bootstrap) as wire:
                await_topic_of_transactions(wire)
                Producer(Cluster(bootstrap=node.bootstrap, wire=wire), "first").init()
            node.kill()
            path = node.directory / "data" / "__transaction_state-0" / f"{0:020}.log"
            end = max(header.next_offset for _, header in iterate_headers(path.read_bytes()))
            with path.open("ab") as segment:
                segment.write(build_batch(stored_records(), base_offset=end, leader_epoch=0))
            node.start()
            found.append(
                Cluster(bootstrap=node.bootstrap, wire=stack.enter_context(Wire(node.bootstrap)))
            )
        yield found


def await_topic_of_transactions(wire: Wire) -> None:
    """Have the topic made: who asks for a coordinator does."""
    deadline = time.monotonic() + READY_SECONDS
    while wire.ask(FindCoordinatorRequest(key="first", key_type=1), 3).error_code:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("scene", STORED, ids=lambda scene: scene.__name__)
def test_both_say_the_same(sides: list[Cluster], scene: Scene) -> None:
    """Responses, what is described afterwards, and the epochs of the markers."""
    index = list(STORED).index(scene)
    told = []
    for side in sides:
        producer = Producer(side, scene.__name__, OLD_ID + index, STORED[scene]["producer_epoch"])
        until_described(
            producer,
            lambda described: described.error_code in {0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND},
        )
        scene(producer)
        producer.describe()
        told.append((producer.told, [] if scene in ENDED_AT_THE_START else markers(side, index)))
    assert told[0] == told[1]


def markers(side: Cluster, partition: int) -> list[tuple[int, int]]:
    """Return how far each marker's producer id is from the first one of the test, and its epoch. -1
    is one of the broker's ids.
    """
    content = (
        side.ask(fetch_request(TOPIC, wanted(partition)), 11).responses[0].partitions[0].records
        or b""
    )
    headers = [header for _, header in iterate_headers(bytes(content)) if header.is_control]
    return [(max(header.producer_id - OLD_ID, -1), header.producer_epoch) for header in headers]
