"""Requests that no client of Apache Kafka's sends, and that a broker takes at their cost and no more."""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from log_service.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.helpers.handler_node import HandlerNode, tell_handlers

REPEATED = [0] * 50 + list(range(1, 51))
"""Partitions of a request: one that is there, again and again, and others that are not. A request has room for 200,000."""


def commit() -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=index) for index in REPEATED]
    topics = [TxnOffsetCommitRequestTopic(name="a", partitions=partitions)]
    return TxnOffsetCommitRequest(transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=topics)


def deletion() -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in REPEATED]
    return OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="a", partitions=partitions)])


@pytest.mark.parametrize(
    ("request_of", "version", "partition_type"),
    [(commit, 3, TxnOffsetCommitRequestPartition), (deletion, 0, OffsetDeleteRequestPartition)],
    ids=["TxnOffsetCommit", "OffsetDelete"],
)
def test_no_partition_is_compared_with_all_others(
    request_of: Any, version: int, partition_type: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with each other, 200,000 partitions held up every client of the broker for many minutes."""
    monkeypatch.setattr(partition_type, "__eq__", _never_equal)

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        response = await node.ask(request_of(), version)
        if response.topics:
            told = [
                each.partition_index for each in response.topics[0].partitions if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ]
            assert told == list(range(1, 51))

    tell_handlers(story)


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(-1, 0), (7, -1), (-1, -1)])
def test_a_marker_of_no_producer_is_not_appended(producer_id: int, producer_epoch: int) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        topics = [WritableTxnMarkerTopic(name="a", partition_indexes=[0])]
        marker = WritableTxnMarker(producer_id=producer_id, producer_epoch=producer_epoch, transaction_result=False, topics=topics)
        response = await node.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
        assert response.markers[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert node.replicas.get_partition("a", 0).state.log_end_offset == 0

    tell_handlers(story)


def _never_equal(_one: Any, _other: Any) -> bool:
    raise AssertionError("partitions are compared")
