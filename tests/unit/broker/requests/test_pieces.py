"""Requests are cut, and responses are joined.

Nothing is lost, nothing is too large, and an error of a part is an error of the whole.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.pieces import Piece, join, split, weight_of
from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

LEVELS = REGISTRY[ApiKey.OFFSET_FETCH].pieces[0]
counts = st.lists(st.lists(st.integers(0, 40), max_size=6), min_size=1, max_size=6)


def request_of(groups: list[list[int]]) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=f"g{number}",
                topics=[
                    OffsetFetchRequestTopics(name=f"t{place}", partition_indexes=list(range(count)))
                    for place, count in enumerate(topics)
                ],
            )
            for number, topics in enumerate(groups)
        ]
    )


def leaves(message: Any, partitions: str) -> list[Any]:
    return [
        (group.group_id, topic.name, each)
        for group in message.groups
        for topic in group.topics
        for each in getattr(topic, partitions)
    ]


def answer(request: OffsetFetchRequest) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartitions(partition_index=each)
                            for each in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics or ()
                ],
            )
            for group in request.groups
        ]
    )


@given(counts, st.integers(1, 60))
def test_pieces_are_the_request_and_their_responses_its_response(
    groups: list[list[int]], max_weight: int
) -> None:
    request = request_of(groups)
    pieces = split(request, LEVELS, max_weight=max_weight, max_item_weight=1_000)
    assert [
        leaf for piece in pieces for leaf in leaves(piece.request, "partition_indexes")
    ] == leaves(request, "partition_indexes")
    assert all(weight_of(piece.request) - 1 <= max_weight + len(LEVELS) for piece in pieces)
    told = join([(piece, answer(piece.request)) for piece in pieces], LEVELS)
    assert [[topic.name for topic in group.topics] for group in told.groups] == [  # type: ignore[attr-defined]
        [topic.name for topic in group.topics or ()] for group in request.groups
    ]
    expected = [
        (group, topic, index) for group, topic, index in leaves(request, "partition_indexes")
    ]
    assert [
        (group, topic, each.partition_index) for group, topic, each in leaves(told, "partitions")
    ] == expected


def test_an_error_of_a_part_is_told_of_the_whole() -> None:
    """An error of a part is an error of the whole response.

    A group whose second part failed has no topics in it, and a client would believe that it has
    committed nothing to them.
    """
    pieces = split(request_of([[40]]), LEVELS, max_weight=10, max_item_weight=1_000)
    told: list[tuple[Piece, Any]] = [(piece, answer(piece.request)) for piece in pieces]
    told[1][1].groups[0] = OffsetFetchResponseGroup(
        group_id="g0", error_code=ErrorCode.NOT_COORDINATOR
    )
    (group,) = join(told, LEVELS).groups  # type: ignore[attr-defined]
    assert group.error_code == ErrorCode.NOT_COORDINATOR
