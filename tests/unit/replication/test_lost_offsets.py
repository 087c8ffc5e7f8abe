"""A follower whose next offset its leader lacks asks where the leader's log begins and ends.

It goes on there.
"""

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from log_service.protocol.stored.metadata_records import PartitionChangeRecord
from log_service.replication.fetcher import Fetcher
from log_service.replication.followed_partition import Followed
from log_service.replication.partition import OffsetSpec, Partition
from tests.unit.replication.context import NODE, ReplicaContext
from tests.unit.replication.fetching import BACKOFF_MS, active, fetcher_of, pair_of, tell


class Leader:
    """The connection to a leader whose log begins and ends at these offsets. ``refuse`` may raise,
    or say another error.
    """

    def __init__(
        self,
        start_offset: int,
        end_offset: int,
        refuse: Callable[[], ErrorCode | None] = lambda: ErrorCode.NONE,
    ) -> None:
        self.offsets = {OffsetSpec.EARLIEST: start_offset, OffsetSpec.LATEST: end_offset}
        self.refuse = refuse
        self.asked: list[ListOffsetsRequest] = []
        self.announced: list[Partition] = []
        """Partitions whose high watermark moved at the follower."""

    async def request(
        self, request: ListOffsetsRequest, _response_type: type[ListOffsetsResponse]
    ) -> ListOffsetsResponse:
        self.asked.append(request)
        code, wanted = self.refuse(), request.topics[0].partitions[0]
        if code is None:
            return ListOffsetsResponse()
        told = ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            error_code=code,
            offset=self.offsets[OffsetSpec(wanted.timestamp)],
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=request.topics[0].name, partitions=[told])]
        )


async def lost(context: ReplicaContext, leader: Leader) -> tuple[Fetcher, Partition]:
    """Have a follower with the records 0 to 4 ask, whose leader has nothing at offset 5."""
    first, _ = pair_of(context, *(b"%d" % number for number in range(5)))
    fetcher = fetcher_of(context, on_safe=leader.announced.append)
    fetcher.add(first)
    assert named(fetcher) == [0]
    followed = next(iter(fetcher.followed.values()))
    found: list[Followed] = []
    fetcher.take_error(followed, ErrorCode.OFFSET_OUT_OF_RANGE, found)
    assert found == [followed]
    await fetcher.find_offset(followed, cast("Any", leader))
    return fetcher, first


def named(fetcher: Fetcher) -> list[int]:
    """Return the partitions that the next request names."""
    return [
        partition.partition
        for topic in fetcher.next_request().topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize(
    ("leader_offsets", "own_offsets"),
    [((0, 3), (0, 3)), ((7, 9), (7, 7)), ((5, 9), (0, 5)), ((2, 5), (0, 5))],
    ids=[
        "the leader has less",
        "the leader begins later",
        "the leader begins just here",
        "the leader has it by now",
    ],
)
def test_a_follower_goes_where_its_leaders_log_begins_or_ends(
    leader_offsets: tuple[int, int], own_offsets: tuple[int, int]
) -> None:
    async def story(context: ReplicaContext) -> None:
        leader = Leader(*leader_offsets)
        fetcher, partition = await lost(context, leader)
        assert partition.log is not None
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == own_offsets
        assert (leader.announced, partition.high_watermark) == (
            ([partition], 7) if own_offsets == (7, 7) else ([], 0)
        )
        assert active(fetcher) == [partition]
        asked = [
            (request.replica_id, request.topics[0].partitions[0].current_leader_epoch)
            for request in leader.asked
        ]
        assert set(asked) == {(NODE, partition.leader_epoch)}, (
            "as a follower, which may read what is not safe yet"
        )
        assert named(fetcher) == [0], "it is asked for again"

    tell(story)


@pytest.mark.parametrize(
    "failure",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        None,
        KafkaError(ErrorCode.NETWORK_EXCEPTION, "the way is cut"),
    ],
    ids=str,
)
def test_a_follower_whose_leader_does_not_tell_its_offsets_keeps_its_log_and_asks_again_later(
    failure: ErrorCode | KafkaError | None, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> ErrorCode | None:
        if isinstance(failure, KafkaError):
            raise failure
        return failure

    async def story(context: ReplicaContext) -> None:
        fetcher, partition = await lost(context, Leader(7, 9, refuse))
        assert partition.log is not None
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 5)
        assert (active(fetcher), named(fetcher)) == ([], [])
        await trio.sleep(BACKOFF_MS / 1_000)
        fetcher.resume_paused()
        assert named(fetcher) == [0]

    tell(story)
    assert "a-0" in caplog.text


@pytest.mark.parametrize(
    "asked_count", [1, 2], ids=["while the end is asked for", "while the start is asked for"]
)
def test_what_a_leader_tells_counts_for_its_own_epoch_alone(asked_count: int) -> None:
    """News of another leader came while it was asked: that one may have the records, and is asked
    anew.
    """

    async def story(context: ReplicaContext) -> None:
        def elect() -> ErrorCode:
            if len(leader.asked) == asked_count:
                identity = context.image.topics.by_name["a"].topic_id
                context.publish(PartitionChangeRecord(topic_id=identity, partition_id=0, leader=2))
            return ErrorCode.NONE

        leader = Leader(7, 3 if asked_count == 1 else 9, elect)
        _, partition = await lost(context, leader)
        assert partition.log is not None
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 5)
        assert len(leader.asked) == asked_count

    tell(story)
