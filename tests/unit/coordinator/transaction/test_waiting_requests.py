"""A request that comes while the transaction before is ending waits for its end.

The wait has a bound, and the request gets a response.
"""

from collections.abc import Callable
from typing import Any

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.views import TransactionConfig
from log_service.coordinator.transaction.markers import SentMarkers
from log_service.coordinator.transaction_service import BROKER_PATIENCE_MS
from log_service.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from log_service.state_machine.runtime import RETRY_MS
from tests.unit.coordinator.transaction.service_stage import OFFSETS, TXN, Stage, code_of, play

PATIENCE_MS = TransactionConfig().end_patience_ms
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def begin(stage: Stage) -> Any:
    """Return a producer with a transaction that is open."""
    (producer,) = stage.init()
    stage.add(producer, version=3)
    return producer


def end(stage: Stage) -> Any:
    """Return a producer with a transaction whose markers are owed."""
    producer = begin(stage)
    stage.end(producer, version=4)
    return producer


def add_offsets(stage: Stage, producer: Any) -> list[Any]:
    request = AddOffsetsToTxnRequest(
        transactional_id=TXN,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id="g",
    )
    return stage.ask(stage.service.add_offsets, request, OFFSETS, version=3)


@pytest.mark.parametrize(
    ("ask", "state_behind"),
    [
        (lambda stage, producer: stage.add(producer, version=3), "Ongoing"),
        (lambda stage, producer: stage.add(producer, version=5), "Ongoing"),
        (add_offsets, "Ongoing"),
        (lambda stage, producer: stage.end(producer, version=4), "CompleteCommit"),
        (lambda stage, _producer: stage.init(), "Empty"),
    ],
    ids=[
        "AddPartitionsToTxn",
        "AddPartitionsToTxn of a broker",
        "AddOffsetsToTxn",
        "EndTxn",
        "InitProducerId",
    ],
)
def test_a_request_waits_for_the_end_of_the_transaction_before(
    ask: Callable[[Stage, Any], list[Any]], state_behind: str
) -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        replies = ask(stage, producer)
        assert (replies, stage.wait_count) == ([], 1)
        stage.pass_time(BROKER_PATIENCE_MS - 1)
        assert replies == []
        stage.write_all()
        assert [label(reply) for reply in replies] == [ErrorCode.NONE]
        assert stage.state() == state_behind
        stage.pass_time(PATIENCE_MS)
        assert len(replies) == 1

    play(story)


def label(reply: Any) -> int:
    return (
        int(reply.error_code)
        if hasattr(reply, "error_code") and not hasattr(reply, "results_by_topic_v3_and_below")
        else code_of(reply)
    )


def test_a_producer_that_starts_again_waits_until_what_it_left_open_is_aborted() -> None:
    def story(stage: Stage) -> None:
        producer = begin(stage)
        replies = stage.init()
        assert (replies, stage.state()) == ([], "PrepareAbort")
        stage.write_all()
        assert [reply.error_code for reply in replies] == [ErrorCode.NONE]
        assert replies[0].producer_epoch > producer.producer_epoch

    play(story)


def test_the_markers_of_a_transaction_that_a_waiting_producer_has_aborted_are_in_a_hurry() -> None:
    """The producer waits before its markers are due, for what it asks has them written."""

    def story(stage: Stage) -> None:
        stage.add(stage.init()[0])
        assert stage.init() == []
        assert [due.is_commit for due in stage.hurried] == [False]

    play(story)


def test_markers_that_no_request_waits_for_are_in_no_hurry() -> None:
    def story(stage: Stage) -> None:
        (producer,) = stage.init()
        stage.add(producer)
        stage.end(producer)
        assert (len(stage.due), stage.hurried) == (1, [])

    play(story)


@pytest.mark.parametrize(("version", "patience_ms"), [(3, PATIENCE_MS), (5, BROKER_PATIENCE_MS)])
def test_a_request_is_refused_when_its_patience_is_over(version: int, patience_ms: int) -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        replies = stage.add(producer, version=version)
        stage.pass_time(patience_ms - 1)
        assert replies == []
        stage.pass_time(1)
        assert [code_of(reply) for reply in replies] == [CONCURRENT]
        stage.write_all()
        assert len(replies) == 1, "it was replied to"
        assert code_of(stage.add(producer, version=version)[0]) == ErrorCode.NONE

    play(story)


def test_a_transaction_that_has_been_ending_for_long_is_not_waited_for() -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        stage.pass_time(PATIENCE_MS)
        assert code_of(stage.add(producer, version=3)[0]) == CONCURRENT
        assert stage.wait_count == 0

    play(story)


def test_nothing_waits_where_the_setting_says_so() -> None:
    play(
        lambda stage: _assert_refused_at_once(stage, end(stage)),
        TransactionConfig(end_patience_ms=0),
    )


def _assert_refused_at_once(stage: Stage, producer: Any) -> None:
    assert code_of(stage.add(producer, version=3)[0]) == CONCURRENT


def test_a_refusal_that_is_not_about_an_end_is_passed_on_at_once() -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        assert code_of(stage.add(producer, version=5, verify_only=True)[0]) == CONCURRENT, (
            "whether it is there is to be known now"
        )
        assert (
            stage.end(producer, version=4, epoch=producer.producer_epoch + 1)[0].error_code
            == ErrorCode.PRODUCER_FENCED
        )

    play(story)


def test_requests_are_asked_again_in_the_order_in_which_they_came() -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        added, begun = stage.add(producer, version=3), stage.init()
        ((owner, due),) = stage.due
        stage.due.clear()
        stage.service.markers_written(SentMarkers(owner, due, due.partitions))
        assert ([label(reply) for reply in added], begun) == ([ErrorCode.NONE], []), (
            "the later one aborts what the first one has begun"
        )
        stage.write_all()
        assert [label(reply) for reply in begun] == [ErrorCode.NONE]

    play(story)


def test_a_request_waits_on_while_the_log_refuses_the_end() -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        replies = stage.add(producer, version=3)
        stage.log.failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        stage.write_all()
        assert replies == []
        stage.log.failure = None
        stage.pass_time(PATIENCE_MS)
        assert [code_of(reply) for reply in replies] == [CONCURRENT], (
            "the end is stored a second later"
        )

    play(story)


def test_a_request_is_asked_again_where_the_end_is_stored_later_than_the_last_marker() -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        stage.log.failure = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        stage.write_all()
        replies = stage.add(producer, version=3)
        stage.log.failure = None
        stage.pass_time(RETRY_MS)
        assert [code_of(reply) for reply in replies] == [ErrorCode.NONE]

    play(story, TransactionConfig(end_patience_ms=2 * RETRY_MS))


def test_a_request_waits_for_the_end_of_a_transaction_without_partitions() -> None:
    def story(stage: Stage) -> None:
        (producer,) = stage.init()
        aborted = stage.end(producer, is_commit=False)[0]
        replies = stage.add(aborted, version=3)
        assert replies == []
        stage.pass_time(0)
        assert [code_of(reply) for reply in replies] == [ErrorCode.NONE]

    play(story)


def test_a_request_that_waits_hears_of_the_next_coordinator() -> None:
    def story(stage: Stage) -> None:
        producer = end(stage)
        replies = stage.add(producer, version=3)
        stage.service.resign(0)
        stage.pass_time(PATIENCE_MS)
        assert [code_of(reply) for reply in replies] == [ErrorCode.NOT_COORDINATOR]

    play(story)


def test_news_of_some_markers_does_not_have_a_request_asked_again() -> None:
    def story(stage: Stage) -> None:
        (producer,) = stage.init()
        stage.add(producer, version=3)
        add_offsets(stage, producer)
        stage.end(producer, version=4)
        replies = stage.add(producer, version=3)
        (owner, due), *_ = stage.due
        for count, where in enumerate(due.partitions):
            assert (len(replies), stage.wait_count) == (0, 1), count
            stage.service.markers_written(SentMarkers(owner, due, (where,)))
        assert [code_of(reply) for reply in replies] == [ErrorCode.NONE]

    play(story)
