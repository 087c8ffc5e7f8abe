"""The transaction APIs of a node send responses in order over a log.

Old versions get their errors, and leadership goes.
"""

from typing import Any

import pytest
import trio
import trio.testing

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.server import parse_server_properties
from log_service.config.views import TransactionConfig
from log_service.coordinator.transaction.markers import Owner, SentMarkers
from log_service.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from log_service.protocol.messages.describe_transactions import DescribeTransactionsRequest
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.list_transactions import ListTransactionsRequest
from log_service.state_machine.runtime import RETRY_MS
from tests.helpers.opcodes import opcodes_of
from tests.unit.coordinator.transaction.service_stage import (
    OFFSETS,
    ORDERS,
    TXN,
    Stage,
    code_of,
    play,
)


def test_markers_are_due_when_the_outcome_is_safe_and_a_transaction_is_complete_when_they_are_written() -> (
    None
):
    def story(stage: Stage) -> None:
        (producer,) = stage.init()
        assert code_of(stage.add(producer)[0]) == 0
        stage.log.is_high_watermark_held = True
        replies = stage.end(producer)
        assert (replies, stage.due) == ([], []), "the outcome may still be lost"
        stage.log.advance_high_watermark()
        assert [(reply.error_code, reply.producer_epoch) for reply in replies] == [(0, 1)]
        ((owner, due),) = stage.due
        assert (owner, due.partitions) == (Owner(partition=0, leader_epoch=6), (ORDERS,))
        stage.log.is_high_watermark_held = False
        stage.write_all()
        assert stage.state() == "CompleteCommit"

    play(story)


def test_an_end_that_the_log_refuses_is_stored_later() -> None:
    def story(stage: Stage) -> None:
        (producer,) = stage.init()
        stage.add(producer)
        stage.end(producer)
        stage.log.failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        stage.write_all()
        assert stage.state() == "PrepareCommit"
        stage.log.failure = None
        stage.pass_time(RETRY_MS)
        assert stage.state() == "CompleteCommit"

    play(story)


def test_the_news_of_an_earlier_leader_epoch_completes_nothing() -> None:
    async def main() -> None:
        stage = Stage(TransactionConfig())
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.service.run)
            stage.service.lead(stage.log)
            await trio.testing.wait_all_tasks_blocked()
            (producer,) = stage.init()
            stage.add(producer)
            stage.end(producer)
            ((owner, due),) = stage.due
            stage.log.leader_epoch = 8
            stage.service.lead(stage.log)
            assert stage.dropped == [0, 0], "each epoch begins without markers"
            await trio.testing.wait_all_tasks_blocked()
            stage.service.markers_written(SentMarkers(owner, due, due.partitions))
            stage.timers.fire_due(0)
            assert stage.state() == "PrepareCommit"
            assert [each.leader_epoch for each, _ in stage.due] == [6, 8], (
                "the new coordinator sends them itself"
            )
            stage.due.pop(0)
            stage.write_all()
            assert stage.state() == "CompleteCommit"
            stage.service.resign(0)
            assert stage.dropped == [0, 0, 0]
            assert stage.init()[0].error_code == ErrorCode.NOT_COORDINATOR
            assert code_of(stage.add(producer)[0]) == ErrorCode.NOT_COORDINATOR
            assert code_of(stage.add(producer, verify_only=True)[0]) == ErrorCode.NOT_COORDINATOR
            assert stage.end(producer)[0].error_code == ErrorCode.NOT_COORDINATOR
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_old_versions_hear_an_error_that_they_know_where_a_producer_is_fenced() -> None:
    def story(stage: Stage) -> None:
        stage.init()
        (producer,) = stage.init()
        fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
        assert [
            stage.end(producer, version=version, epoch=0)[0].error_code for version in (1, 2, 5)
        ] == [invalid, fenced, fenced]
        assert [
            code_of(stage.add(producer, version=version, epoch=0)[0]) for version in (1, 2, 5)
        ] == [invalid, fenced, fenced]
        claims = {"producer_id": producer.producer_id, "producer_epoch": 7}
        assert [stage.init(version=version, **claims)[0].error_code for version in (3, 4)] == [
            invalid,
            fenced,
        ]
        offsets = AddOffsetsToTxnRequest(
            transactional_id=TXN, producer_id=producer.producer_id, producer_epoch=0, group_id="g"
        )
        assert [
            stage.ask(stage.service.add_offsets, offsets, OFFSETS, version=version)[0].error_code
            for version in (1, 2)
        ] == [
            invalid,
            fenced,
        ]

    play(story)


def test_a_missing_partition_keeps_the_others_of_its_transaction_out() -> None:
    def story(stage: Stage) -> None:
        (producer,) = stage.init()
        topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0, 7])]
        one = AddPartitionsToTxnTransaction(
            transactional_id=TXN,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=topics,
        )
        replies: list[Any] = []
        stage.service.add_partitions(
            AddPartitionsToTxnRequest(transactions=[one]),
            5,
            replies.append,
            lambda where: where.partition == 0,
        )
        results = replies[0].results_by_transaction[0].topic_results[0].results_by_partition
        assert [(each.partition_index, each.partition_error_code) for each in results] == [
            (0, ErrorCode.OPERATION_NOT_ATTEMPTED),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert stage.state() == "Empty"

    play(story)


def test_old_versions_hear_of_a_missing_partition_and_of_all_else_what_new_ones_do() -> None:
    def story(stage: Stage) -> None:
        (producer,) = stage.init()
        topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TXN, v3_and_below_topics=topics
        )
        replies: list[Any] = []
        stage.service.add_partitions(request, 3, replies.append, lambda _where: False)
        assert code_of(replies[0]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        stage.service.add_partitions(request, 1, replies.append)
        assert code_of(replies[1]) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert code_of(stage.add(producer, version=1)[0]) == ErrorCode.NONE
        assert stage.add(producer, version=4)[0].results_by_transaction[0].transactional_id == TXN

    play(story)


def test_ids_are_listed_once_every_partition_is_loaded() -> None:
    async def main() -> None:
        stage = Stage(TransactionConfig())
        request = ListTransactionsRequest(state_filters=["Empty", "Gone"])
        replies: list[Any] = []
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.service.run)
            stage.service.lead(stage.log)
            stage.service.list(request, replies.append)
            await trio.testing.wait_all_tasks_blocked()
            stage.init()
            stage.service.list(request, replies.append)
            nursery.cancel_scope.cancel()
        assert [reply.error_code for reply in replies] == [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NONE,
        ]
        assert [each.transactional_id for each in replies[1].transaction_states] == [TXN]
        assert replies[1].unknown_state_filters == ["Gone"]

    trio.run(main)


def test_requests_that_make_no_sense_are_refused_before_a_shard_is_asked() -> None:
    def story(stage: Stage) -> None:
        stage.service.resign(0)
        assert stage.init(txn="")[0].error_code == ErrorCode.INVALID_REQUEST
        assert (
            stage.ask(stage.service.end_txn, EndTxnRequest())[0].error_code
            == ErrorCode.INVALID_REQUEST
        )
        topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
        transactions = [
            AddPartitionsToTxnTransaction(topics=topics, verify_only=verify_only)
            for verify_only in (False, True)
        ]
        replies: list[Any] = []
        stage.service.add_partitions(
            AddPartitionsToTxnRequest(transactions=transactions), 4, replies.append
        )
        codes = [
            each.topic_results[0].results_by_partition[0].partition_error_code
            for each in replies[0].results_by_transaction
        ]
        assert codes == [ErrorCode.INVALID_REQUEST] * 2
        stage.service.describe(DescribeTransactionsRequest(transactional_ids=[""]), replies.append)
        assert replies[1].transaction_states[0].error_code == ErrorCode.INVALID_REQUEST
        assert stage.init(timeout_ms=0)[0].error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert stage.service.partition_for(TXN) == 0

    play(story)


def test_a_pattern_that_makes_no_sense_is_refused() -> None:
    pytest.importorskip("re2")

    def story(stage: Stage) -> None:
        replies: list[Any] = []
        stage.service.list(ListTransactionsRequest(transactional_id_pattern="["), replies.append)
        assert replies[0].error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    play(story)


def test_a_pattern_that_is_too_large_for_ids_is_refused() -> None:
    """An id of 32,767 characters took one of 100,000 instructions many seconds.

    Nothing else was served meanwhile.
    """

    def story(stage: Stage) -> None:
        replies: list[Any] = []
        stage.service.list(
            ListTransactionsRequest(transactional_id_pattern="(?:a?b?c?d?)" * 900), replies.append
        )
        assert replies[0].error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    play(story)


def test_many_ids_are_matched_in_steps_in_which_others_have_their_turn() -> None:
    def story(stage: Stage) -> None:
        for number in range(60):
            assert stage.init(txn=f"id-{number:02d}")[0].error_code == ErrorCode.NONE
        pattern = "(?:a?b?c?d?)" * 200 + "id-[0-5].*"
        replies: list[Any] = []
        stage.service.list(
            ListTransactionsRequest(transactional_id_pattern=pattern), replies.append
        )
        assert replies == [], "it would take one step alone"
        for _ in range(10):
            stage.clock.now_ms += 10
            stage.timers.fire_due(stage.clock.now_ms)
        (found,) = replies
        assert sorted(each.transactional_id for each in found.transaction_states) == [
            f"id-{number:02d}" for number in range(60)
        ]

    play(story)


def test_times_of_transactions_are_those_of_the_file() -> None:
    """transaction.max.timeout.ms, the two cleanup intervals and transactional.id.expiration.ms."""
    properties = {
        "node.id": "1",
        "transaction.max.timeout.ms": "5000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
        "transactional.id.expiration.ms": "20000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "700",
    }
    config, _ = parse_server_properties(properties)

    def story(stage: Stage) -> None:
        assert stage.init(timeout_ms=5_001)[0].error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        (producer,) = stage.init(timeout_ms=5_000)
        stage.add(producer)
        for _ in range(17):
            stage.pass_time(300)
            if stage.clock.now_ms <= 5_000:
                assert stage.state() == "Ongoing"
        assert stage.state() == "PrepareAbort"
        stage.write_all()
        for _ in range(28):
            stage.pass_time(700)
        assert stage.state() == "CompleteAbort"
        for _ in range(2):
            stage.pass_time(700)
        assert stage.state() == ""

    play(story, config.transactions)


def cost_of_an_end(ending_count: int) -> int:
    """Return the cost of a marker while the log refuses the ends of so many other transactions."""
    costs: list[int] = []

    def story(stage: Stage) -> None:
        producers = {
            f"t{index}": stage.init(txn=f"t{index}")[0] for index in range(ending_count + 1)
        }
        for txn, producer in producers.items():
            stage.add(producer, txn=txn)
            stage.end(producer, txn=txn)
        *others, (owner, due) = stage.due
        stage.log.failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        for each, markers in others:
            stage.service.markers_written(SentMarkers(each, markers, markers.partitions))
        costs.append(
            opcodes_of(
                lambda: stage.service.markers_written(SentMarkers(owner, due, due.partitions))
            )
        )

    play(story)
    return costs[0]


def test_the_end_of_a_transaction_takes_as_long_where_the_log_refuses_many_others() -> None:
    assert cost_of_an_end(40) - cost_of_an_end(4) < 36, "less than one step for each"
