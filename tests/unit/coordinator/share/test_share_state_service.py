"""The share state APIs give one response for several partitions.

A client gets an error for a shard that is not here (KIP-932).
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
import trio
import trio.testing

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.config.server import parse_server_properties
from log_service.coordinator.share.share_state import ShareKey
from log_service.coordinator.share_state_service import ShareStateService
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing
from tests.unit.coordinator.memory_log import MemoryLog, StoppedClock, run_inline

TOPIC = UUID(int=7)


class SetClock(StoppedClock):
    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


def service(
    partition_count: int = 1,
    timers: TimerQueue | None = None,
    write_timeout_ms: int = 5_000,
    clock: Clock | None = None,
) -> ShareStateService:
    config, _ = parse_server_properties(
        {"node.id": "1", "share.coordinator.write.timeout.ms": str(write_timeout_ms)}
    )
    return ShareStateService(
        clock=clock or StoppedClock(),
        timers=TimerQueue() if timers is None else timers,
        config=config.share_states,
        run_in_pool=run_inline,
        is_there=lambda topic_id, partition: topic_id == TOPIC and partition < 10,
        partition_count=lambda: partition_count,
    )


def initialize(share: ShareStateService, replies: list[Any], *partitions: int) -> None:
    asked = [
        initializing.PartitionData(partition=partition, state_epoch=1, start_offset=0)
        for partition in partitions
    ]
    topics = [initializing.InitializeStateData(topic_id=TOPIC, partitions=asked)]
    share.initialize(
        initializing.InitializeShareGroupStateRequest(group_id="g", topics=topics), replies.append
    )


def write(share: ShareStateService, replies: list[Any], last: int) -> None:
    batch = writing.StateBatch(first_offset=0, last_offset=last, delivery_state=2, delivery_count=1)
    asked = writing.PartitionData(
        partition=0,
        state_epoch=1,
        leader_epoch=3,
        start_offset=0,
        delivery_complete_count=last + 1,
        state_batches=[batch],
    )
    topics = [writing.WriteStateData(topic_id=TOPIC, partitions=[asked])]
    share.write(writing.WriteShareGroupStateRequest(group_id="g", topics=topics), replies.append)


def read(share: ShareStateService, replies: list[Any], leader_epoch: int = 3) -> None:
    topics = [
        reading.ReadStateData(
            topic_id=TOPIC,
            partitions=[reading.PartitionData(partition=0, leader_epoch=leader_epoch)],
        )
    ]
    share.read(reading.ReadShareGroupStateRequest(group_id="g", topics=topics), replies.append)


def summarize(share: ShareStateService, replies: list[Any], *partitions: int) -> None:
    asked = [summarizing.PartitionData(partition=partition) for partition in partitions]
    topics = [summarizing.ReadStateSummaryData(topic_id=TOPIC, partitions=asked)]
    share.read_summary(
        summarizing.ReadShareGroupStateSummaryRequest(group_id="g", topics=topics), replies.append
    )


def delete(share: ShareStateService, replies: list[Any]) -> None:
    topics = [
        deleting.DeleteStateData(topic_id=TOPIC, partitions=[deleting.PartitionData(partition=0)])
    ]
    share.delete(deleting.DeleteShareGroupStateRequest(group_id="g", topics=topics), replies.append)


def errors(reply: Any) -> list[int]:
    return [partition.error_code for result in reply.results for partition in result.partitions]


def with_leader(
    log: MemoryLog, story: Callable[[ShareStateService], None], partition_count: int = 1
) -> None:
    async def main() -> None:
        share = service(partition_count)
        async with trio.open_nursery() as nursery:
            await nursery.start(share.run)
            share.lead(log)
            await trio.testing.wait_all_tasks_blocked()
            story(share)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_what_was_written_is_read_also_after_a_load() -> None:
    replies: list[Any] = []
    log = MemoryLog()

    def begin(share: ShareStateService) -> None:
        initialize(share, replies, 0)
        write(share, replies, 4)

    with_leader(log, begin)
    with_leader(log, lambda share: read(share, replies))
    assert [errors(reply) for reply in replies] == [[0], [0], [0]]
    (part,) = replies[2].results[0].partitions
    assert (part.state_epoch, part.start_offset) == (1, 0)
    assert [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in part.state_batches
    ] == [(0, 4, 2, 1)]


def test_a_response_waits_until_what_it_says_is_safe() -> None:
    replies: list[Any] = []
    log = MemoryLog(is_high_watermark_held=True)

    def story(share: ShareStateService) -> None:
        initialize(share, replies, 0)
        read(share, replies)
        assert replies == []
        log.advance_high_watermark()
        assert [errors(reply) for reply in replies] == [[0], [0]]

    with_leader(log, story)


def test_a_write_waits_for_its_replicas_as_long_as_configured() -> None:
    timers, replies, clock = TimerQueue(), list[Any](), SetClock()

    async def main() -> None:
        share = service(timers=timers, write_timeout_ms=700, clock=clock)
        async with trio.open_nursery() as nursery:
            await nursery.start(share.run)
            share.lead(MemoryLog(is_high_watermark_held=True))
            await trio.testing.wait_all_tasks_blocked()
            initialize(share, replies, 0)
            for clock.now_ms in (699, 700):
                assert replies == []
                timers.fire_due(clock.now_ms)
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert errors(replies[0]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_partitions_of_one_request_are_asked_wherever_their_shards_are() -> None:
    places = {
        number: service(4).partition_for(ShareKey(group_id="g", topic_id=TOPIC, partition=number))
        for number in range(10)
    }
    assert len(set(places.values())) > 1
    replies: list[Any] = []
    with_leader(
        MemoryLog(partition=places[0]),
        lambda share: initialize(share, replies, *places),
        partition_count=4,
    )
    expected = [
        ErrorCode.NONE if place == places[0] else ErrorCode.NOT_COORDINATOR
        for place in places.values()
    ]
    assert errors(replies[0]) == expected
    assert [part.partition for part in replies[0].results[0].partitions] == list(places)


def test_a_refusal_says_why() -> None:
    replies: list[Any] = []

    def story(share: ShareStateService) -> None:
        write(share, replies, 4)
        read(share, replies)
        initialize(share, replies, -1, 10, 0)

    with_leader(MemoryLog(), story)
    invalid, unknown = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [errors(reply) for reply in replies] == [[invalid], [invalid], [invalid, unknown, 0]]
    assert all(
        part.error_message
        for reply in replies
        for part in reply.results[0].partitions
        if part.error_code
    )


def test_a_log_that_refuses_sends_the_client_to_find_the_coordinator_again() -> None:
    replies: list[Any] = []
    log = MemoryLog(failure=KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "1 of 2"))
    with_leader(log, lambda share: initialize(share, replies, 0))
    assert errors(replies[0]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_summary_of_what_is_not_known_has_no_offset() -> None:
    replies: list[Any] = []

    def story(share: ShareStateService) -> None:
        initialize(share, replies, 0)
        write(share, replies, 4)
        summarize(share, replies, 0, 1)
        delete(share, replies)
        summarize(share, replies, 0)

    with_leader(MemoryLog(), story)
    known, unknown = replies[2].results[0].partitions
    assert (known.state_epoch, known.start_offset, known.delivery_complete_count) == (1, 0, 5)
    (deleted,) = replies[4].results[0].partitions
    for each in (unknown, deleted):
        assert (
            each.error_code,
            each.state_epoch,
            each.leader_epoch,
            each.start_offset,
            each.delivery_complete_count,
        ) == (0, 0, 0, -1, -1)


@pytest.mark.parametrize(
    ("group_id", "topics"),
    [("", [TOPIC]), ("g", []), ("g", [UUID(int=8)])],
    ids=["group", "topics", "partitions"],
)
def test_a_request_for_nothing_gets_an_empty_response(group_id: str, topics: list[UUID]) -> None:
    replies: list[Any] = []
    asked = [
        reading.ReadStateData(
            topic_id=topic_id, partitions=[reading.PartitionData()] if topic_id == TOPIC else []
        )
        for topic_id in topics
    ]
    service().read(
        reading.ReadShareGroupStateRequest(group_id=group_id, topics=asked), replies.append
    )
    assert [reply.results for reply in replies] == [[]]
