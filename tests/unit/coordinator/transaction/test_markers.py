"""Markers on their way: to whom they go, what an error means, and that none is lost."""

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import NodeId, TopicPartition
from log_service.coordinator.transaction.markers import (
    GONE,
    DueMarkers,
    Gone,
    MarkerBatch,
    MarkerQueue,
    Owner,
    Settled,
)
from log_service.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

OWNER = Owner(partition=3, leader_epoch=9)
A, B, C = (TopicPartition("t", index) for index in range(3))


def due(*partitions: TopicPartition, txn: str = "x", producer_id: int = 1) -> DueMarkers:
    return DueMarkers(
        transactional_id=txn,
        producer_id=producer_id,
        producer_epoch=4,
        is_commit=True,
        transaction_version=2,
        partitions=partitions,
    )


def response(
    batch: MarkerBatch, code: ErrorCode = ErrorCode.NONE, **codes: ErrorCode
) -> WriteTxnMarkersResponse:
    """Return a broker's response; ``codes`` by partition number, such as p1."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=entry.markers.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name="t",
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=where.partition,
                                error_code=codes.get(f"p{where.partition}", code),
                            )
                            for where in entry.partitions
                        ],
                    )
                ],
            )
            for entry in batch.entries
        ]
    )


def leaders(**by_partition: int) -> dict[TopicPartition, NodeId]:
    return {TopicPartition("t", int(name[1:])): NodeId(node) for name, node in by_partition.items()}


def test_all_markers_for_a_broker_go_in_one_request_and_the_next_waits_for_its_response() -> None:
    queue, where = MarkerQueue(), leaders(p0=1, p1=2, p2=1)
    queue.add(OWNER, due(A, B, C))
    queue.add(OWNER, due(A, txn="y", producer_id=2))
    batches, gone = queue.take(where.get)
    assert not gone
    assert {
        batch.node_id: [
            (entry.markers.transactional_id, entry.partitions) for entry in batch.entries
        ]
        for batch in batches
    } == {
        1: [("x", (A, C)), ("y", (A,))],
        2: [("x", (B,))],
    }
    (marker, _) = batches[0].request().markers
    assert (
        marker.coordinator_epoch,
        marker.producer_epoch,
        marker.transaction_version,
        marker.transaction_result,
    ) == (9, 4, 2, True)
    queue.add(OWNER, due(A, txn="z", producer_id=3))
    assert queue.take(where.get) == ([], [])
    settled = queue.settle(batches[0], response(batches[0]))
    assert [entry.partitions for entry in settled.written] == [(A, C), (A,)]
    assert [batch.node_id for batch in queue.take(where.get)[0]] == [1]


def test_a_request_names_each_producer_with_its_partitions_by_topic() -> None:
    queue = MarkerQueue()
    other = TopicPartition("s", 7)
    queue.add(OWNER, due(C, other, A))
    queue.add(OWNER, due(B, txn="y", producer_id=2))
    (batch,), _ = queue.take(lambda _: NodeId(1))
    assert [
        (marker.producer_id, [(topic.name, topic.partition_indexes) for topic in marker.topics])
        for marker in batch.request().markers
    ] == [(1, [("s", [7]), ("t", [0, 2])]), (2, [("t", [1])])]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_what_a_later_try_may_mend_goes_to_the_leader_of_then(code: ErrorCode) -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A, B))
    (batch,), _ = queue.take(leaders(p0=1, p1=1).get)
    settled = queue.settle(batch, response(batch, p1=code))
    assert ([entry.partitions for entry in settled.written], settled.is_retrying) == ([(A,)], True)
    (again,), _ = queue.take(leaders(p0=1, p1=2).get)
    assert (again.node_id, again.entries[0].partitions) == (2, (B,))
    queue.settle(again, response(again))
    assert len(queue) == 0


def test_a_broker_that_does_not_respond_is_asked_again() -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A))
    (batch,), _ = queue.take(leaders(p0=1).get)
    assert queue.settle(batch, None).is_retrying
    assert queue.take(leaders(p0=1).get)[0] == [batch]


def test_a_partition_without_a_leader_waits_and_one_that_is_gone_counts_as_written() -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A, B))
    found: dict[TopicPartition, NodeId | Gone] = {B: GONE}
    batches, (gone,) = queue.take(found.get)
    assert (batches, gone.partitions, len(queue)) == ([], (B,), 1)
    (batch,), _ = queue.take(leaders(p0=1).get)
    assert batch.entries[0].partitions == (A,)


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_a_transaction_that_another_coordinator_owns_is_given_up(code: ErrorCode) -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A, B))
    (batch,), _ = queue.take(leaders(p0=1, p1=1).get)
    settled = queue.settle(batch, response(batch, p1=code))
    assert (settled.written, settled.given_up, len(queue)) == ((), ("x",), 0)


def test_what_is_dropped_with_the_leadership_is_not_told_later() -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A))
    (batch,), _ = queue.take(leaders(p0=1).get)
    queue.drop(OWNER.partition)
    later = Owner(partition=3, leader_epoch=10)
    queue.add(later, due(A))
    assert not queue.settle(batch, response(batch)).written
    (again,), _ = queue.take(leaders(p0=1).get)
    assert again.request().markers[0].coordinator_epoch == 10
    assert [entry.owner for entry in queue.settle(again, response(again)).written] == [later]


def test_only_what_the_partition_of_the_coordinator_owes_is_dropped() -> None:
    queue, other = MarkerQueue(), Owner(partition=4, leader_epoch=2)
    queue.add(OWNER, due(A))
    queue.add(other, due(B, txn="y"))
    queue.drop(OWNER.partition)
    (batch,), _ = queue.take(leaders(p0=1, p1=1).get)
    assert [(entry.owner, entry.markers.transactional_id) for entry in batch.entries] == [
        (other, "y")
    ]
    queue.drop(other.partition)
    assert len(queue) == 0
    assert queue.settle(batch, response(batch)) == Settled((), is_retrying=False), (
        "no one waits for the response any more"
    )


def test_nothing_is_owed_of_a_transaction_whose_partitions_are_all_gone() -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A, B))
    found: dict[TopicPartition, NodeId | Gone] = {A: GONE, B: GONE}
    batches, (gone,) = queue.take(found.get)
    assert (batches, gone.partitions, len(queue)) == ([], (A, B), 0)


def test_the_response_to_an_earlier_end_says_nothing_of_a_later_one_of_the_same_owner() -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A))
    (batch,), _ = queue.take(leaders(p0=1).get)
    queue.add(OWNER, due(A))
    assert not queue.settle(batch, response(batch)).written
    assert [again.entries[0].partitions for again in queue.take(leaders(p0=1).get)[0]] == [(A,)]


def test_a_partition_that_a_response_leaves_out_is_asked_for_again() -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A))
    queue.add(OWNER, due(B, txn="y", producer_id=2))
    (batch,), _ = queue.take(leaders(p0=1, p1=1).get)
    answered = response(batch)
    settled = queue.settle(batch, WriteTxnMarkersResponse(markers=answered.markers[1:]))
    assert ([entry.partitions for entry in settled.written], settled.is_retrying) == ([(B,)], True)
    (again,), _ = queue.take(leaders(p0=1, p1=1).get)
    assert again.entries[0].partitions == (A,)
    assert queue.settle(again, response(again)) == Settled((again.entries[0],), is_retrying=False)


@pytest.mark.parametrize(
    "code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION]
)
def test_a_partition_that_takes_no_markers_holds_up_no_transaction(code: ErrorCode) -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A, B))
    (batch,), _ = queue.take(leaders(p0=1, p1=1).get)
    settled = queue.settle(batch, response(batch, p1=code))
    assert ([entry.partitions for entry in settled.written], settled.is_retrying, len(queue)) == (
        [(A, B)],
        False,
        0,
    )


def test_transactions_whose_markers_have_nowhere_to_go_are_counted() -> None:
    queue = MarkerQueue()
    queue.add(OWNER, due(A, B))
    queue.add(OWNER, due(A, txn="y"))
    queue.add(OWNER, due(C, txn="z"))
    assert queue.count_without_leader(leaders(p0=1).get) == 2
    queue.take(leaders(p0=1).get)
    assert queue.count_without_leader(leaders().get) == 2, "what is in flight does not wait"
    assert queue.count_without_leader(lambda _: GONE) == 0
