"""The leader of a partition handles WriteTxnMarkers.

The tests look at the log afterwards, and see that every request has its response.
"""

from collections.abc import Iterator

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from log_service.records.batch import iterate_headers
from log_service.records.control import ControlType, iterate_control_records
from tests.helpers.handler_node import HandlerNode, tell_handlers


async def codes_of(node: HandlerNode, *markers: WritableTxnMarker) -> list[int]:
    response = await node.ask(WriteTxnMarkersRequest(markers=list(markers)), 2)
    return [
        part.error_code
        for marker in response.markers
        for topic in marker.topics
        for part in topic.partitions
    ]


def marker(
    *indexes: int,
    producer_id: int = 7,
    epoch: int = 0,
    commits: bool = True,
    topic: str = "a",
    coordinator_epoch: int = 3,
) -> WritableTxnMarker:
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=list(indexes))]
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commits,
        topics=topics,
        coordinator_epoch=coordinator_epoch,
    )


def ends_in(node: HandlerNode, topic: str = "a") -> Iterator[tuple[int, int, ControlType | None]]:
    for chunk in node.replicas.get_partition(topic, 0).read_batches():
        for position, header in iterate_headers(chunk):
            for record in iterate_control_records(chunk, position):
                yield header.producer_id, header.producer_epoch, record.type


def test_a_marker_says_how_the_transaction_ended() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        assert await codes_of(
            node, marker(0), marker(0, producer_id=8, epoch=5, commits=False)
        ) == [0, 0]
        assert list(ends_in(node)) == [(7, 0, ControlType.COMMIT), (8, 5, ControlType.ABORT)]

    tell_handlers(story)


@pytest.mark.parametrize("wrong", [marker(0, producer_id=-1), marker(0, epoch=-1)])
def test_a_marker_of_no_producer_is_refused_and_those_beside_it_are_written(
    wrong: WritableTxnMarker,
) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        assert await codes_of(node, wrong, marker(0, producer_id=8)) == [
            ErrorCode.UNKNOWN_SERVER_ERROR,
            0,
        ]
        assert list(ends_in(node)) == [(8, 0, ControlType.COMMIT)]

    tell_handlers(story)


def test_a_partition_that_is_named_twice_has_one_marker_and_one_that_is_not_there_has_none() -> (
    None
):
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        assert await codes_of(node, marker(0, 0, 1)) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert len(list(ends_in(node))) == 1

    tell_handlers(story)


def test_positions_of_groups_are_ended_by_their_coordinator_alone() -> None:
    """Only the coordinator of groups writes markers for their positions.

    On any other node the transaction coordinator has to look for another leader. A marker that
    only the log had would lose positions.
    """

    async def story(node: HandlerNode) -> None:
        await node.create_topic(GROUP_METADATA_TOPIC)
        assert await codes_of(node, marker(0, topic=GROUP_METADATA_TOPIC)) == [
            ErrorCode.NOT_LEADER_OR_FOLLOWER
        ]
        assert list(ends_in(node, GROUP_METADATA_TOPIC)) == []

    tell_handlers(story)


def test_a_marker_of_an_earlier_coordinator_is_refused() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        assert await codes_of(node, marker(0, coordinator_epoch=4)) == [0]
        assert await codes_of(node, marker(0, coordinator_epoch=3, commits=False)) == [
            ErrorCode.TRANSACTION_COORDINATOR_FENCED
        ]
        assert list(ends_in(node)) == [(7, 0, ControlType.COMMIT)]

    tell_handlers(story)
