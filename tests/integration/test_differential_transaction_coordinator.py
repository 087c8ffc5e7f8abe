"""The transaction coordinator responds to producers as Apache Kafka's.

The tests have codes, epochs and states, state by state.

Producer ids differ by nature: what is compared is whether an id is the one that the producer had
before.
"""

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from log_service.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from log_service.protocol.messages.describe_transactions import DescribeTransactionsRequest
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.messages.list_transactions import ListTransactionsRequest
from tests.integration.asking_producer import READY_SECONDS, TIMEOUT_MS, TOPIC, Producer
from tests.integration.differential import Cluster, Duel

PROPERTIES = {
    "add.partitions.to.txn.retry.backoff.max.ms": "0",  # tidelog waits for the end of the transaction before, Kafka does not
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.max.timeout.ms": "100000",
    "transaction.state.log.num.partitions": "4",
}

Scene = Callable[[Producer], None]


@pytest.fixture(autouse=True, scope="module")
def _topics(clusters: Any) -> None:
    duel = Duel(clusters, None, "")  # type: ignore[arg-type]  # it records nothing
    duel.create_topic(TOPIC, 3)
    for key, key_type in (("any", 1), ("readers", 0)):
        duel.until(
            FindCoordinatorRequest(key=key, key_type=key_type),
            3,
            lambda response: response.error_code == 0,
        )


@pytest.fixture
def play(duel: Duel, request: pytest.FixtureRequest) -> Callable[[Scene], None]:
    """Play a scene at both sides, each with a transactional id of the test's own."""

    def played(scene: Scene) -> None:
        def tell(cluster: Cluster) -> Any:
            producer = Producer(cluster, str(request.node.name))
            scene(producer)
            return producer.told

        duel.compare_told(tell)

    return played


# The states that an id can be left in


def empty(producer: Producer) -> None:
    producer.settle()
    if producer.init().error_code:  # what the scene had left open is aborted
        producer.settle()
        producer.init()
    producer.init(producer.epoch)  # there is an epoch before, now


def ongoing(producer: Producer) -> None:
    empty(producer)
    producer.add_as_broker(0, 1)


def committed(producer: Producer) -> None:
    ongoing(producer)
    producer.end(is_commit=True)
    producer.settle()


def aborted(producer: Producer) -> None:
    ongoing(producer)
    producer.end(is_commit=False)
    producer.settle()


def committed_classic(producer: Producer) -> None:
    empty(producer)
    producer.add(0, 1)
    producer.end(is_commit=True, version=4)
    producer.settle()


def aborted_classic(producer: Producer) -> None:
    empty(producer)
    producer.add(0, 1)
    producer.end(is_commit=False, version=4)
    producer.settle()


STATES = (empty, ongoing, committed, aborted, committed_classic, aborted_classic)
BY_STATE = pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)


@BY_STATE
@pytest.mark.parametrize(("is_commit", "behind"), list(product((False, True), (-1, 0, 1, 2))))
def test_end_txn_5(
    play: Callable[[Scene], None], state: Scene, is_commit: bool, behind: int
) -> None:
    def scene(producer: Producer) -> None:
        state(producer)
        producer.end(is_commit=is_commit, epoch=producer.epoch - behind)
        producer.describe()

    play(scene)


@BY_STATE
@pytest.mark.parametrize("version", [1, 2, 4])
def test_end_txn_up_to_4(play: Callable[[Scene], None], state: Scene, version: int) -> None:
    def scene(producer: Producer) -> None:
        for is_commit, behind in product((False, True), (1, -1)):
            state(producer)
            producer.end(is_commit=is_commit, epoch=producer.epoch - behind, version=version)
            producer.describe()
        for is_commit in (False, True):
            state(producer)
            producer.end(is_commit=is_commit, version=version)
            producer.describe()
            producer.end(is_commit=is_commit, version=version)
            producer.end(is_commit=not is_commit, version=version)

    play(scene)


@BY_STATE
def test_init_producer_id(play: Callable[[Scene], None], state: Scene) -> None:
    def scene(producer: Producer) -> None:
        for behind in (None, 0, 1, 2, -1):
            state(producer)
            producer.init(None if behind is None else producer.epoch - behind)
            producer.describe()
            producer.init(None if behind is None else producer.epoch)
            producer.describe()
        for version in (3, 4):
            state(producer)
            producer.init(producer.epoch, producer.producer_id + 77, version=version)
            producer.init(producer.epoch - 2, version=version)

    play(scene)


@pytest.mark.parametrize("claims", [False, True])
def test_a_producer_whose_transaction_is_aborted_by_another(
    play: Callable[[Scene], None], claims: bool
) -> None:
    def scene(producer: Producer) -> None:
        ongoing(producer)
        old = producer.epoch
        producer.init(old if claims else None)
        producer.describe()
        producer.end(is_commit=True, epoch=old)
        producer.end(is_commit=False, epoch=old)
        producer.add(0, epoch=old)
        producer.add(0, epoch=old, version=1)
        producer.init(old if claims else None)
        producer.describe()
        producer.init(old if claims else None)

    play(scene)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1, 100_000, 100_001, 2**31 - 1])
def test_timeouts(play: Callable[[Scene], None], timeout_ms: int) -> None:
    play(lambda producer: producer.init(timeout_ms=timeout_ms))


@pytest.mark.parametrize("version", range(6))
def test_requests_that_make_no_sense(duel: Duel, version: int) -> None:
    duel.compare(
        InitProducerIdRequest(transactional_id="", transaction_timeout_ms=TIMEOUT_MS), version
    )
    if version >= 3:
        for claims in ({"producer_id": 5}, {"producer_epoch": 5}):
            duel.compare(
                InitProducerIdRequest(
                    transactional_id="half", transaction_timeout_ms=TIMEOUT_MS, **claims
                ),
                version,
            )
    for transactional_id in ("", "never seen"):
        duel.compare(
            EndTxnRequest(
                transactional_id=transactional_id, producer_id=5, producer_epoch=1, committed=True
            ),
            version,
        )
        if version <= 4:
            offsets = AddOffsetsToTxnRequest(
                transactional_id=transactional_id,
                producer_id=5,
                producer_epoch=1,
                group_id="readers",
            )
            duel.compare(offsets, version)
        topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=[0, 1])]
        if version <= 3:
            asked = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=5,
                v3_and_below_producer_epoch=1,
                v3_and_below_topics=topics,
            )
            duel.compare(asked, version)
            continue
        for verify_only in (False, True):
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=5,
                producer_epoch=1,
                verify_only=verify_only,
                topics=topics,
            )
            duel.compare(AddPartitionsToTxnRequest(transactions=[transaction]), version)


@BY_STATE
def test_partitions(play: Callable[[Scene], None], state: Scene) -> None:
    def scene(producer: Producer) -> None:
        state(producer)
        producer.add_as_broker(0, 1, 2, verify_only=True)
        producer.add_as_broker(0, verify_only=True, epoch=producer.epoch - 1)
        producer.add_as_broker(0, verify_only=True, epoch=producer.epoch + 1)
        producer.add_as_broker(2, epoch=producer.epoch - 1)
        for version in (0, 1, 2, 3):
            producer.add(2, version=version, epoch=producer.epoch - 1)
            producer.add(2, version=version, producer_id=producer.producer_id + 77)
            producer.add_offsets(version=version, epoch=producer.epoch - 1)
        producer.describe()
        producer.add(2, 9)
        producer.add_as_broker(2, 9)
        producer.add_as_broker(2, 9, verify_only=True)
        producer.describe()
        producer.add(2)
        producer.describe()
        producer.add(2)
        producer.add_as_broker(0, 2, verify_only=True, version=4)
        producer.add_offsets()
        producer.describe()
        producer.end(is_commit=True)
        producer.describe()

    play(scene)


def test_a_transaction_that_takes_too_long(play: Callable[[Scene], None]) -> None:
    def scene(producer: Producer) -> None:
        producer.init(timeout_ms=100)
        producer.add_as_broker(0)
        deadline = time.monotonic() + READY_SECONDS
        while producer.described().transaction_state != "CompleteAbort":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        producer.describe()
        producer.add_as_broker(0)
        producer.add_as_broker(0, verify_only=True)
        producer.end(is_commit=True)
        producer.end(is_commit=False)
        producer.describe()
        producer.init(producer.epoch)

    play(scene)


def test_what_is_described_and_listed(duel: Duel) -> None:
    pytest.importorskip("re2")
    for cluster in duel.clusters.sides():
        for name, state in (
            ("listed-empty", empty),
            ("listed-ongoing", ongoing),
            ("listed-committed", committed),
        ):
            state(Producer(cluster, name))
    duel.compare(DescribeTransactionsRequest(transactional_ids=["", "never seen"]), 0)
    pattern = "listed-.*"
    for filters in (
        {},
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["Ongoing", "Unknown", "Unknown", "empty"]},
        {"state_filters": ["Dead", "PrepareEpochFence"]},
        {"duration_filter": 0},
        {"duration_filter": 3_600_000},
        {"duration_filter": -5},
        {"producer_id_filters": [123_456_789]},
    ):
        duel.compare(
            ListTransactionsRequest(transactional_id_pattern=pattern, **filters),
            2,
            ignore={"producer_id"},
        )
    for pattern in ("listed-(empty|ongoing)", "listed", "", "listed-[", "*"):
        if pattern:
            duel.compare(
                ListTransactionsRequest(transactional_id_pattern=pattern), 2, ignore={"producer_id"}
            )
