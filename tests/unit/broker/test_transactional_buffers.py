"""Transactional batches at a leader, while it asks the coordinator of their transaction."""

from types import SimpleNamespace
from typing import Any, cast

from log_service.broker.handlers.transactional_produce import handle_transactional_produce
from log_service.broker.produce_lines import ProduceLines
from log_service.common.types import TopicPartition
from log_service.config.views import LogConfig
from log_service.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from log_service.records.builder import build_batch
from log_service.records.validator import validate_in_steps


def test_the_records_of_a_request_outlive_the_buffer_of_its_connection_while_the_coordinator_is_asked() -> None:
    """The connection reads its next request into the buffer: batches came out garbled, or of another request."""
    sent = bytes(build_batch([(0, b"k", b"v")], producer_id=3, producer_epoch=1, base_sequence=0, is_transactional=True))
    buffer = bytearray(sent)
    data = [PartitionProduceData(index=0, records=memoryview(buffer))]
    request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    asked: list[Any] = []
    partition = SimpleNamespace(
        topic_partition=TopicPartition("t", 0),
        check_in_steps=lambda records, now_ms, allowance: validate_in_steps(records, LogConfig(), now_ms, allowance),
    )
    node = SimpleNamespace(
        clock=SimpleNamespace(wall_ms=lambda: 1),
        produce_lines=ProduceLines(),
        replicas=SimpleNamespace(find=lambda *_: partition),
        transaction_verifier=SimpleNamespace(verify=lambda *arguments: asked.append(arguments)),
    )
    call = SimpleNamespace(defer=object, version=12, request=request, connection=SimpleNamespace(connection_id=1))
    handle_transactional_produce(cast("Any", node), cast("Any", call), request)
    ((question, act, _),) = asked
    question.keep()  # it has to wait
    buffer[:] = b"\0" * len(buffer)
    assert bytes(request.topic_data[0].partition_data[0].records or b"") == sent
    (checked,) = act.args[2].values()
    assert bytes(checked.buffer) == sent
