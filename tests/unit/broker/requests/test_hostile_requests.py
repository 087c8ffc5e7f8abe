"""Requests that no client of Apache Kafka's sends, and that a broker takes at their cost and no
more.
"""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from log_service.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from log_service.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup as AllOfGroup,
)
from log_service.protocol.messages.describe_transactions import DescribeTransactionsRequest
from log_service.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from log_service.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from log_service.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.helpers.handler_node import HandlerNode, tell_handlers

REPEATED = [0] * 50 + list(range(1, 51))
"""Partitions of a request: one that is there, again and again, and others that are not. A request
has room for 200,000.
"""


def commit() -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=index) for index in REPEATED]
    topics = [TxnOffsetCommitRequestTopic(name="a", partitions=partitions)]
    return TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=topics
    )


def deletion() -> OffsetDeleteRequest:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in REPEATED]
    return OffsetDeleteRequest(
        group_id="g", topics=[OffsetDeleteRequestTopic(name="a", partitions=partitions)]
    )


@pytest.mark.parametrize(
    ("request_of", "version", "partition_type"),
    [(commit, 3, TxnOffsetCommitRequestPartition), (deletion, 0, OffsetDeleteRequestPartition)],
    ids=["TxnOffsetCommit", "OffsetDelete"],
)
def test_no_partition_is_compared_with_all_others(
    request_of: Any, version: int, partition_type: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with each other, 200,000 partitions held up every client of the broker for many
    minutes.
    """
    monkeypatch.setattr(partition_type, "__eq__", _never_equal)

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        response = await node.ask(request_of(), version)
        if response.topics:
            told = [
                each.partition_index
                for each in response.topics[0].partitions
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ]
            assert told == list(range(1, 51))

    tell_handlers(story)


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(-1, 0), (7, -1), (-1, -1)])
def test_a_marker_of_no_producer_is_not_appended(producer_id: int, producer_epoch: int) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        topics = [WritableTxnMarkerTopic(name="a", partition_indexes=[0])]
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=topics,
        )
        response = await node.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
        assert (
            response.markers[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        )
        assert node.replicas.get_partition("a", 0).state.log_end_offset == 0

    tell_handlers(story)


@pytest.mark.parametrize(
    ("request_of", "version", "told"),
    [
        (lambda: DescribeGroupsRequest(groups=["g", "h", "g"]), 5, "groups"),
        (lambda: ConsumerGroupDescribeRequest(group_ids=["g", "h", "g"]), 1, "groups"),
        (lambda: ShareGroupDescribeRequest(group_ids=["g", "h", "g"]), 1, "groups"),
        (lambda: StreamsGroupDescribeRequest(group_ids=["g", "h", "g"]), 0, "groups"),
        (
            lambda: DescribeShareGroupOffsetsRequest(
                groups=[AllOfGroup(group_id=each, topics=None) for each in "ghg"]
            ),
            0,
            "groups",
        ),
        (
            lambda: DescribeTransactionsRequest(transactional_ids=["g", "h", "g"]),
            0,
            "transaction_states",
        ),
        (
            lambda: DescribeProducersRequest(
                topics=[TopicRequest(name="a", partition_indexes=[0, 1, 0])] * 2
            ),
            0,
            "topics.partitions",
        ),
        (
            lambda: OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in "ghg"]
            ),
            8,
            "groups",
        ),
    ],
    ids=[
        "DescribeGroups",
        "ConsumerGroupDescribe",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
        "DescribeShareGroupOffsets",
        "DescribeTransactions",
        "DescribeProducers",
        "OffsetFetch",
    ],
)
def test_what_is_named_twice_is_told_once(request_of: Any, version: int, told: str) -> None:
    """A request has room for 200,000 names of one group; a response that describes it as often has
    not.
    """

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=2)
        found = await node.ask(request_of(), version)
        for name in told.split("."):
            found = getattr(found[0] if isinstance(found, list) else found, name)
        assert len(found) == 2

    tell_handlers(story)


def test_positions_that_are_asked_for_by_name_are_told_as_often() -> None:
    async def story(node: HandlerNode) -> None:
        topics = [OffsetFetchRequestTopics(name="a", partition_indexes=[0])]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="g", topics=topics) for _ in range(3)]
        )
        assert len((await node.ask(request, 8)).groups) == 3

    tell_handlers(story)


def _never_equal(_one: Any, _other: Any) -> bool:
    raise AssertionError("partitions are compared")
