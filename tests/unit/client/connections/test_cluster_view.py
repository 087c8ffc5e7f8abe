"""A client updates its view of a cluster with each response."""

from uuid import UUID

from log_service.client.connections.cluster_view import ClusterView
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST, SECOND = UUID(int=1), UUID(int=2)


def response(
    name: str, topic_id: UUID, *partitions: tuple[int, int], error_code: int = 0
) -> MetadataResponse:
    """``partitions`` are (leader, leader epoch)."""
    topic = MetadataResponseTopic(
        name=name,
        topic_id=topic_id,
        error_code=error_code,
        partitions=[
            MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=epoch)
            for index, (leader, epoch) in reversed(list(enumerate(partitions)))
        ],
    )
    brokers = [
        MetadataResponseBroker(node_id=node_id, host=f"b{node_id}", port=9092) for node_id in (1, 2)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=2, topics=[topic])


def test_partitions_are_in_order_and_leaders_are_found() -> None:
    view = ClusterView().updated(response("t", FIRST, (1, 0), (2, 3), (-1, 4)), is_full=False)
    assert [view.leader_of(TopicPartition("t", number)) for number in range(4)] == [1, 2, -1, -1]
    assert view.topics["t"].available == (0, 1)
    assert (view.topic_id_of("t"), view.names_by_id[view.topic_id_of("t")]) == (FIRST, "t")
    assert (view.cluster_id, view.controller_id, view.nodes[2].host) == ("c", 2, "b2")


def test_a_leader_that_is_no_known_node_is_none() -> None:
    view = ClusterView().updated(response("t", FIRST, (9, 0)), is_full=False)
    assert view.leader_of(TopicPartition("t", 0)) == -1


def test_an_older_leader_epoch_does_not_win_unless_the_topic_is_another() -> None:
    view = ClusterView().updated(response("t", FIRST, (1, 5)), is_full=False)
    assert (
        view.updated(response("t", FIRST, (2, 4)), is_full=False).leader_of(TopicPartition("t", 0))
        == 1
    )
    assert (
        view.updated(response("t", FIRST, (2, 6)), is_full=False).leader_of(TopicPartition("t", 0))
        == 2
    )
    recreated = view.updated(response("t", SECOND, (2, 0)), is_full=False)
    assert recreated.leader_of(TopicPartition("t", 0)) == 2
    assert FIRST not in recreated.names_by_id


def test_a_response_about_one_topic_keeps_the_others_and_a_full_one_does_not() -> None:
    view = ClusterView().updated(response("t", FIRST, (1, 0)), is_full=False)
    assert set(view.updated(response("u", SECOND, (1, 0)), is_full=False).topics) == {"t", "u"}
    assert set(view.updated(response("u", SECOND, (1, 0)), is_full=True).topics) == {"u"}


def test_a_topic_that_is_gone_is_forgotten_and_one_in_trouble_is_not() -> None:
    view = ClusterView().updated(response("t", FIRST, (1, 0)), is_full=False)
    gone = view.updated(
        response("t", FIRST, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), is_full=False
    )
    assert (set(gone.topics), gone.errors["t"]) == (set(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    troubled = view.updated(
        response("t", FIRST, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), is_full=False
    )
    assert (set(troubled.topics), troubled.errors["t"]) == (
        {"t"},
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def test_a_leader_that_a_response_names_is_believed_if_it_is_newer() -> None:
    view, partition = (
        ClusterView().updated(response("t", FIRST, (1, 5)), is_full=False),
        TopicPartition("t", 0),
    )
    assert view.with_leader(partition, 2, 6).leader_of(partition) == 2
    assert view.with_leader(partition, 2, 5) is view
    assert view.with_leader(partition, 9, 6) is view
    assert view.with_leader(TopicPartition("nope", 0), 2, 6) is view


def test_every_change_has_another_version() -> None:
    view = ClusterView()
    later = view.updated(response("t", FIRST, (1, 5)), is_full=False)
    assert (
        view.version
        < later.version
        < later.with_leader(TopicPartition("t", 0), 2, 6).version
        < later.without(["t"]).version + 2
    )
    assert later.without(["t"]).topics == {}
