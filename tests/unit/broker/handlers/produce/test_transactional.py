"""A leader asks the transaction coordinator before the first batch of a transaction.

The tests tell how batches follow, and which responses clients get.
"""

import logging
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from log_service.broker.transactions import verifier
from log_service.broker.transactions.response_errors import Asker, produce_error, request_error
from log_service.broker.transactions.verifier import Question, VerificationResult
from log_service.common.errors import ErrorCode
from log_service.common.types import TRANSACTION_STATE_TOPIC, NodeId, TopicPartition
from log_service.coordinator.transaction.transaction_coordinator import PartitionsOfTransaction
from log_service.network.responses import PendingResponse
from log_service.protocol.messages.produce import PartitionProduceResponse
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import produce_request
from tests.unit.storage.context import batch

VERIFIES, ADDS = 11, 12
Tell = Callable[[dict[TopicPartition, ErrorCode]], None]


class Coordinator:
    """Answers what a node asks its own coordinator, when the test says so."""

    def __init__(self, node: HandlerNode) -> None:
        node.node.transaction_verifier._ask_locally = self.ask
        self.asked: list[tuple[PartitionsOfTransaction, bool]] = []
        self._waiting: list[tuple[PartitionsOfTransaction, Tell]] = []
        self.verdicts: list[ErrorCode] | None = None

    def ask(
        self, asked: PartitionsOfTransaction, on_codes: Tell, *, verify_only: bool, patience_ms: int
    ) -> None:
        self.asked.append((asked, verify_only))
        self._waiting.append((asked, on_codes))
        if self.verdicts is not None:
            self.on_codes(self.verdicts.pop(0))

    def on_codes(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Give the same verdict on all partitions of the oldest question."""
        asked, on_codes = self._waiting.pop(0)
        on_codes(dict.fromkeys(asked.partitions, code))


async def coordinated(node: HandlerNode) -> Coordinator:
    await node.create_topic("a")
    await node.create_topic(TRANSACTION_STATE_TOPIC)
    return Coordinator(node)


async def write(
    node: HandlerNode, sequence: int, version: int = ADDS, *, epoch: int = 0
) -> PartitionProduceResponse:
    content = batch(
        producer_id=7, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )
    request = produce_request("a", bytes(content))
    request.transactional_id = "tx"
    told: PartitionProduceResponse = (
        (await node.ask(request, version)).responses[0].partition_responses[0]
    )
    return told


async def end(node: HandlerNode, *, epoch: int, version: int = 2) -> None:
    topics = [WritableTxnMarkerTopic(name="a", partition_indexes=[0])]
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=epoch,
        transaction_result=True,
        topics=topics,
        transaction_version=version,
    )
    response = await node.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
    assert response.markers[0].topics[0].partitions[0].error_code == 0


def test_the_coordinator_is_asked_once_in_a_transaction() -> None:
    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        coordinator.verdicts = [ErrorCode.NONE] * 3
        for sequence in range(3):
            assert (await write(node, sequence)).base_offset == sequence
        assert [
            (asked.transactional_id, verify_only) for asked, verify_only in coordinator.asked
        ] == [("tx", False)]
        await end(node, epoch=1)
        assert (await write(node, 0, epoch=1)).base_offset == 4
        assert len(coordinator.asked) == 2
        await end(node, epoch=2)
        assert (await write(node, 0, VERIFIES, epoch=2)).error_code == 0
        _, verify_only = coordinator.asked[2]
        assert verify_only

    tell_handlers(story)


def test_a_producer_that_asks_for_no_response_is_told_of_a_refusal_by_the_end_of_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was taken for a bug of the broker's, and logged with a traceback."""

    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        content = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        request = produce_request("a", bytes(content))
        request.transactional_id, request.acks = "tx", 0

        async def refuse() -> None:
            await trio.testing.wait_all_tasks_blocked()
            coordinator.on_codes(ErrorCode.INVALID_TXN_STATE)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuse)
            with (
                caplog.at_level(logging.INFO, logger="log_service"),
                pytest.raises(OSError, match="failed"),
            ):
                await node.ask(request, ADDS)

    tell_handlers(story)
    (told,) = [record for record in caplog.records if "acks=0" in record.getMessage()]
    assert told.exc_info is None


def test_a_client_that_leaves_while_the_coordinator_is_asked_leaves_no_wait_for_replicas() -> None:
    """Its records are appended all the same. The wait went on for as long as the client had asked,
    up to 24 days.
    """

    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        both = (NodeId(1), NodeId(2))
        node.context.create_topic("b", replicas=both, isr=both)
        content = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        request = produce_request("b", bytes(content), timeout_ms=2**31 - 1)
        request.transactional_id = "tx"
        pending = node.send(request, ADDS)
        assert isinstance(pending, PendingResponse)
        await trio.testing.wait_all_tasks_blocked()
        pending.discard()
        coordinator.on_codes()
        await trio.testing.wait_all_tasks_blocked()
        assert node.replicas.partitions["b", 0].state.log_end_offset == 1
        assert node.replicas.delayed_produces.waiting_count == 0

    tell_handlers(story)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE])
def test_a_coordinator_that_responds_at_once_has_no_request_wait(code: ErrorCode) -> None:
    """A coordinator that responds at once makes no request wait.

    Each first batch took a task, two turns of the event loop, a copy of its records, and a
    response of its own.
    """

    async def story(node: HandlerNode) -> None:
        coordinator, verdicts = await coordinated(node), list[VerificationResult]()
        coordinator.verdicts = [code]
        where = TopicPartition("a", 0)
        question = Question(
            transactional_id="tx",
            producer_id=7,
            producer_epoch=0,
            sequences={where: 0},
            asker=Asker.ADDS,
            keep=lambda: pytest.fail("it does not wait"),
        )
        verifier = node.node.transaction_verifier
        verifier.verify(question, verdicts.append, cast("Any", None))
        assert [verdict.errors for verdict in verdicts] == [{where: code} if code else {}]
        assert (verifier.times.count, verifier.failure_count) == (1, bool(code))

    tell_handlers(story)


def test_batches_behind_the_first_one_wait_and_follow_in_their_order() -> None:
    async def story(node: HandlerNode) -> None:
        coordinator, told = await coordinated(node), {}

        async def send(sequence: int) -> None:
            told[sequence] = await write(node, sequence)

        async with trio.open_nursery() as nursery:
            for sequence in range(5):
                nursery.start_soon(send, sequence)
                await trio.testing.wait_all_tasks_blocked()
            assert not told
            coordinator.on_codes()
        assert {sequence: each.base_offset for sequence, each in told.items()} == {
            number: number for number in range(5)
        }
        assert len(coordinator.asked) == 1
        assert node.replicas.get_partition("a", 0).state.last_stable_offset == 0

    tell_handlers(story)


def test_no_more_waits_for_a_coordinator_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The requests that wait for a coordinator have a bound.

    A connection gets the memory of its frame back when the handler returns, so a client could
    send on and on.
    """
    monkeypatch.setattr(verifier, "MAX_HELD_BYTES", 300)

    async def story(node: HandlerNode) -> None:
        coordinator, told = await coordinated(node), {}

        async def send(sequence: int) -> None:
            told[sequence] = ErrorCode.of((await write(node, sequence)).error_code)

        async with trio.open_nursery() as nursery:
            for sequence in range(5):
                nursery.start_soon(send, sequence)
                await trio.testing.wait_all_tasks_blocked()
            assert told == dict.fromkeys(range(2, 5), ErrorCode.NOT_ENOUGH_REPLICAS)
            coordinator.on_codes()
        assert told[0] is told[1] is ErrorCode.NONE
        assert (await write(node, 2)).error_code == ErrorCode.NONE

    tell_handlers(story)


def test_what_waited_for_a_coordinator_leaves_its_room_to_what_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verifier, "MAX_HELD_BYTES", 300)

    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        for epoch in range(5):
            coordinator.verdicts = [ErrorCode.NONE]
            assert (await write(node, 0, epoch=epoch)).error_code == ErrorCode.NONE
            await end(node, epoch=epoch + 1)

    tell_handlers(story)


def test_a_request_that_is_larger_than_all_the_room_is_let_in_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verifier, "MAX_HELD_BYTES", 1)

    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        coordinator.verdicts = [ErrorCode.NONE]
        assert (await write(node, 0)).error_code == ErrorCode.NONE

    tell_handlers(story)


def test_a_marker_that_comes_first_makes_the_verdict_worthless() -> None:
    async def story(node: HandlerNode) -> None:
        coordinator, told = await coordinated(node), []

        async def send() -> None:
            told.append(await write(node, 0, VERIFIES))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            await end(node, epoch=0, version=0)
            coordinator.on_codes()
        assert told[0].error_code == ErrorCode.INVALID_TXN_STATE
        assert node.replicas.get_partition("a", 0).state.log_end_offset == 1, "the marker alone"

    tell_handlers(story)


def test_a_transaction_that_still_ends_is_asked_about_again() -> None:
    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        coordinator.verdicts = [ErrorCode.CONCURRENT_TRANSACTIONS] * 2 + [ErrorCode.NONE]
        assert (await write(node, 0)).error_code == ErrorCode.NONE
        assert len(coordinator.asked) == 3
        coordinator.verdicts = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
        await end(node, epoch=1)
        assert (await write(node, 0, epoch=1)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert (await write(node, 0, VERIFIES, epoch=1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    tell_handlers(story)


@pytest.mark.parametrize(
    ("properties", "asked_count"),
    [
        ({}, 6),
        ({"add_partitions_to_txn_retry_backoff_ms": "50"}, 3),
        ({"add_partitions_to_txn_retry_backoff_max_ms": "40"}, 3),
        ({"add_partitions_to_txn_retry_backoff_max_ms": "0"}, 1),
    ],
)
def test_how_often_and_for_how_long_it_is_asked_again(
    properties: dict[str, str], asked_count: int
) -> None:
    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        coordinator.verdicts = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
        assert (await write(node, 0)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert len(coordinator.asked) == asked_count

    tell_handlers(story, **properties)


def test_a_partition_that_comes_to_this_node_meanwhile_is_tried_again() -> None:
    """A producer that hears TRANSACTIONAL_ID_AUTHORIZATION_FAILED in place of that gives up for
    good.
    """

    async def story(node: HandlerNode) -> None:
        coordinator, told = await coordinated(node), []
        content = bytes(
            batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
        request = produce_request("a", content)
        request.transactional_id = "tx"
        request.topic_data += produce_request("b", content).topic_data

        async def send() -> None:
            told.extend((await node.ask(request, VERIFIES)).responses)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            await node.create_topic("b")
            coordinator.on_codes()
        codes = {
            topic.name: ErrorCode.of(topic.partition_responses[0].error_code) for topic in told
        }
        assert codes == {"a": ErrorCode.NONE, "b": ErrorCode.NOT_LEADER_OR_FOLLOWER}

    tell_handlers(story)


def test_without_a_coordinator_the_producer_tries_again() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        for version in (3, VERIFIES, ADDS):
            assert (await write(node, 0, version)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert node.replicas.get_partition("a", 0).state.log_end_offset == 0

    tell_handlers(story)


def test_without_verification_nothing_is_asked() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        assert (await write(node, 0, VERIFIES)).error_code == ErrorCode.NONE

    tell_handlers(story, transaction_partition_verification_enable="false")


@pytest.mark.parametrize(
    ("code", "asker", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, Asker.ADDS, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, Asker.VERIFIES, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, Asker.KNOWS_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Asker.ADDS, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NETWORK_EXCEPTION, Asker.ADDS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, Asker.VERIFIES, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Asker.KNOWS_ABORTABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Asker.ADDS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Asker.ADDS, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_a_producer_is_told(code: ErrorCode, asker: Asker, told: ErrorCode) -> None:
    assert produce_error(request_error(code, asker), asker) is told


def test_a_request_without_a_response_is_appended_all_the_same() -> None:
    async def story(node: HandlerNode) -> None:
        coordinator = await coordinated(node)
        coordinator.verdicts = [ErrorCode.NONE]
        content = batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        request: Any = produce_request("a", bytes(content), acks=0)
        request.transactional_id = "tx"
        assert await node.ask(request, ADDS) is None
        assert node.replicas.get_partition("a", 0).state.log_end_offset == 1

    tell_handlers(story)
