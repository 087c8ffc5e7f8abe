"""Transactional batches at a leader, while it asks the coordinator of their transaction."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio.testing

from log_service.broker.handlers.produce.transactional import handle_transactional_produce
from log_service.broker.requests.produce_queues import ProduceQueues
from log_service.broker.transactions.verifier import Question
from log_service.common.types import TRANSACTION_STATE_TOPIC, TopicPartition
from log_service.config.views import LogConfig
from log_service.network.responses import PendingResponse
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.batch import HEADER_SIZE
from log_service.records.builder import build_batch
from log_service.records.validator import ValidatedBatches, validate_in_steps
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import produce_request

SENT = bytes(
    build_batch(
        [(0, b"k", b"v" * 10_000)],
        producer_id=3,
        producer_epoch=1,
        base_sequence=0,
        is_transactional=True,
    )
)
KINDS = pytest.mark.parametrize("codec", ["producer", "gzip"], ids=["as it came", "recompressed"])


def asked_about(
    buffer: bytearray, codec: str
) -> tuple[ProduceRequest, Question, dict[TopicPartition, ValidatedBatches], Any]:
    """Handle a request whose records lie in ``buffer``.

    Return what the verifier is asked, and what is appended after that.
    """
    data = [PartitionProduceData(index=0, records=memoryview(buffer))]
    request = ProduceRequest(
        transactional_id="tx",
        acks=-1,
        timeout_ms=1_000,
        topic_data=[TopicProduceData(name="t", partition_data=data)],
    )
    asked: list[Any] = []
    config = LogConfig(compression_type=codec)
    partition = SimpleNamespace(
        topic_partition=TopicPartition("t", 0),
        check_in_steps=lambda records, now_ms, allowance, schemas: validate_in_steps(
            records, config, now_ms, allowance, schemas
        ),
    )
    node = SimpleNamespace(
        clock=SimpleNamespace(wall_ms=lambda: 1),
        produce_queues=ProduceQueues(),
        schema_validation=None,
        replicas=SimpleNamespace(find=lambda *_: partition),
        transaction_verifier=SimpleNamespace(verify=lambda *arguments: asked.append(arguments)),
    )
    deferred = PendingResponse()
    call = SimpleNamespace(
        defer=lambda: deferred,
        version=12,
        request=request,
        connection=SimpleNamespace(connection_id=1),
    )
    handle_transactional_produce(cast("Any", node), cast("Any", call), request)
    ((question, act, _),) = asked
    return request, question, act.args[2], deferred


@KINDS
def test_the_batches_of_a_request_outlive_the_buffer_of_its_connection_while_the_coordinator_is_asked(
    codec: str,
) -> None:
    """The records of a waiting request are copied out of the connection's buffer.

    The connection reads its next request into the buffer, and batches came out garbled, or of
    another request.
    """
    buffer = bytearray(SENT)
    request, question, checked, _ = asked_about(buffer, codec)
    before = {where: bytes(each.buffer) for where, each in checked.items()}
    question.keep()  # it has to wait
    buffer[:] = b"\0" * len(buffer)
    assert {where: bytes(each.buffer) for where, each in checked.items()} == before
    assert bytes(request.topic_data[0].partition_data[0].records or b"") == SENT[:HEADER_SIZE]


@KINDS
def test_all_bytes_that_a_request_holds_while_the_coordinator_is_asked_are_counted(
    codec: str,
) -> None:
    """Both the records and the checked batches were copied, and counted once."""
    request, question, checked, deferred = asked_about(bytearray(SENT), codec)
    question.keep()
    records = [
        wanted.records
        for topic in request.topic_data
        for wanted in topic.partition_data
        if wanted.records is not None
    ]
    held_bytes = sum(map(len, records)) + sum(len(each.buffer) for each in checked.values())
    assert question.held_bytes == held_bytes < 2 * len(SENT)
    assert deferred.held_bytes == held_bytes


@pytest.mark.parametrize(("codec", "is_copied"), [("producer", False), ("gzip", True)])
def test_a_batch_that_was_recompressed_in_a_line_is_counted_beside_its_records(
    codec: str, *, is_copied: bool
) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", compression_type=codec, max_message_bytes=str(4 << 20))
        await node.create_topic(TRANSACTION_STATE_TOPIC)
        asked: list[Question] = []
        node.node.transaction_verifier.verify = lambda question, act, deferred: asked.append(  # type: ignore[method-assign]
            question
        )
        header = {
            "producer_id": 7,
            "producer_epoch": 0,
            "base_sequence": 0,
            "is_transactional": True,
        }
        content = bytes(build_batch([(0, b"k", b"v" * 10)] * 60_000, **cast("Any", header)))
        request = produce_request("a", content)
        request.transactional_id = "tx"
        pending = node.send(request, 12)
        assert isinstance(pending, PendingResponse)
        while not asked:
            await trio.testing.wait_all_tasks_blocked()
        assert (asked[0].held_bytes > len(content)) is is_copied
        pending.discard()

    tell_handlers(story)
