"""A leader that asks a transaction coordinator on another broker about partitions (KIP-890)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from log_service.broker.transactions.response_errors import Asker
from log_service.broker.transactions.verifier import Question, VerificationResult
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TRANSACTION_STATE_TOPIC, NodeId, TopicPartition
from log_service.coordinator.transaction.transaction_coordinator import PartitionsOfTransaction
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from log_service.protocol.stored.metadata_records import BrokerEndpoint
from log_service.storage.verifications import UNCHECKED
from tests.helpers.handler_node import LISTENER, HandlerNode, tell_handlers
from tests.unit.metadata.records import broker

PARTITION = TopicPartition("a", 0)


@dataclass
class Coordinator:
    """Another broker takes requests up to ``version``.

    It responds to each with the next of ``codes`` once it may.
    """

    codes: list[ErrorCode] = field(default_factory=list)
    version: int = 5
    asked: list[list[str]] = field(default_factory=list)
    may_answer: trio.Event = field(default_factory=trio.Event)

    @property
    def versions(self) -> Any:
        return SimpleNamespace(choose=lambda _api: self.version)

    async def connect(self, _destination: object) -> "Coordinator":
        return self

    async def request(
        self, request: AddPartitionsToTxnRequest, _type: object
    ) -> AddPartitionsToTxnResponse:
        self.asked.append([each.transactional_id for each in request.transactions])
        await self.may_answer.wait()
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is ErrorCode.NETWORK_EXCEPTION:
            raise KafkaError(code, "the connection is gone")
        part = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        topics = [AddPartitionsToTxnTopicResult(name="a", results_by_partition=[part])]
        results = [
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=topics)
            for each in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)


async def led_elsewhere(
    node: HandlerNode, *codes: ErrorCode, version: int = 5, may_answer: bool = True
) -> Coordinator:
    """Have the coordinators of all transactional ids be on broker 2."""
    await node.create_topic("a")
    node.context.publish(
        replace(
            broker(2), end_points=[BrokerEndpoint(name=LISTENER, host="two", port=1)], fenced=False
        )
    )
    both = (NodeId(1), NodeId(2))
    node.context.create_topic(TRANSACTION_STATE_TOPIC, replicas=both, isr=both)
    node.context.elect(2, TRANSACTION_STATE_TOPIC)
    coordinator = Coordinator(list(codes), version)
    node.node.transaction_verifier._pool = lambda: cast("Any", coordinator)
    if may_answer:
        coordinator.may_answer.set()
    return coordinator


def ask(
    node: HandlerNode,
    verdicts: list[VerificationResult],
    name: str = "tx",
    producer_id: int = 7,
    asker: Asker = Asker.ADDS,
) -> None:
    question = Question(
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=0,
        sequences={PARTITION: 0},
        asker=asker,
    )
    node.node.transaction_verifier.verify(question, verdicts.append, cast("Any", None))


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], {}),
        ([ErrorCode.TRANSACTION_ABORTABLE], {PARTITION: ErrorCode.TRANSACTION_ABORTABLE}),
        ([ErrorCode.NETWORK_EXCEPTION], {PARTITION: ErrorCode.NETWORK_EXCEPTION}),
    ],
)
def test_what_another_broker_says_is_the_verdict(
    codes: list[ErrorCode], expected: dict[TopicPartition, ErrorCode]
) -> None:
    async def story(node: HandlerNode) -> None:
        coordinator, verdicts = await led_elsewhere(node, *codes), list[VerificationResult]()
        ask(node, verdicts)
        await trio.testing.wait_all_tasks_blocked()
        assert [verdict.errors for verdict in verdicts] == [expected]
        assert coordinator.asked == [["tx"]]
        assert node.node.transaction_verifier.failure_count == len(expected)

    tell_handlers(story)


def test_each_request_waits_once_in_all_for_the_end_of_the_transaction_before() -> None:
    """The coordinator of this node waits itself. A request that stood in a line meanwhile was
    waited for a second time.
    """

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.create_topic(TRANSACTION_STATE_TOPIC)
        verdicts = list[VerificationResult]()
        retry_max_ms = node.node.config.verification.retry_max_ms

        def ask_locally(
            asked: PartitionsOfTransaction,
            on_codes: Callable[[Any], None],
            *,
            verify_only: bool,
            patience_ms: int,
        ) -> None:
            assert not verify_only
            node.context.nursery.start_soon(refuse_after, patience_ms, asked, on_codes)

        async def refuse_after(
            patience_ms: int, asked: PartitionsOfTransaction, on_codes: Callable[[Any], None]
        ) -> None:
            await trio.sleep(patience_ms / 1_000)
            on_codes(dict.fromkeys(asked.partitions, ErrorCode.CONCURRENT_TRANSACTIONS))

        node.node.transaction_verifier._ask_locally = ask_locally
        for _ in range(3):
            ask(node, verdicts)
        await trio.sleep(retry_max_ms / 1_000 + 0.002)
        assert [verdict.errors for verdict in verdicts] == [
            {PARTITION: ErrorCode.CONCURRENT_TRANSACTIONS}
        ] * 3

    tell_handlers(story)


def test_questions_that_come_while_a_request_is_on_its_way_go_out_together_in_the_next_one() -> (
    None
):
    async def story(node: HandlerNode) -> None:
        coordinator, verdicts = (
            await led_elsewhere(node, may_answer=False),
            list[VerificationResult](),
        )
        for number in range(4):
            ask(node, verdicts, f"tx-{number}", producer_id=number)
            await trio.testing.wait_all_tasks_blocked()
        assert (coordinator.asked, verdicts) == ([["tx-0"]], [])
        coordinator.may_answer.set()
        await trio.testing.wait_all_tasks_blocked()
        assert coordinator.asked == [["tx-0"], ["tx-1", "tx-2", "tx-3"]]
        assert [verdict.errors for verdict in verdicts] == [{}] * 4
        ask(node, verdicts, "tx-4", producer_id=4)
        await trio.testing.wait_all_tasks_blocked()
        assert coordinator.asked[2:] == [["tx-4"]]

    tell_handlers(story)


def test_a_broker_that_takes_no_such_questions_keeps_no_one_from_writing() -> None:
    async def story(node: HandlerNode) -> None:
        coordinator, verdicts = await led_elsewhere(node, version=3), list[VerificationResult]()
        ask(node, verdicts)
        await trio.testing.wait_all_tasks_blocked()
        assert [verdict.errors for verdict in verdicts] == [{}]
        assert coordinator.asked == []

    tell_handlers(story)


def test_verification_that_is_switched_off_meanwhile_lets_all_in() -> None:
    async def story(node: HandlerNode) -> None:
        coordinator, verdicts = (
            await led_elsewhere(node, may_answer=False),
            list[VerificationResult](),
        )
        ask(node, verdicts, asker=Asker.VERIFIES)
        await trio.testing.wait_all_tasks_blocked()
        node.node.transaction_verifier.is_enabled = False
        coordinator.may_answer.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [verdict.shown for verdict in verdicts] == [{PARTITION: UNCHECKED}]

    tell_handlers(story)


@pytest.mark.parametrize(
    ("of_version", "expected"),
    [
        (
            Asker.of_produce,
            {
                3: Asker.VERIFIES,
                10: Asker.VERIFIES,
                11: Asker.KNOWS_ABORTABLE,
                12: Asker.ADDS,
                13: Asker.ADDS,
            },
        ),
        (
            Asker.of_offset_commit,
            {0: Asker.VERIFIES, 3: Asker.VERIFIES, 4: Asker.KNOWS_ABORTABLE, 5: Asker.ADDS},
        ),
    ],
)
def test_what_a_client_can_do_by_the_version_of_its_request(
    of_version: Any, expected: dict[int, Asker]
) -> None:
    assert {version: of_version(version) for version in expected} == expected
