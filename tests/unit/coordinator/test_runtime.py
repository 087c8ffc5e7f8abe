"""The runtime around shards loads them and holds responses until the high watermark.

Requests are refused, and a log refuses.
"""

import errno
import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.config.views import GroupConfig
from log_service.coordinator.group.records.codec import encode
from log_service.coordinator.group.records.offset import CommittedOffset, OffsetRecord
from log_service.coordinator.group_service import GroupService
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.records.builder import build_batch
from log_service.records.control import ControlType, build_end_transaction_marker
from log_service.records.record import NewRecord
from tests.unit.coordinator.memory_log import (
    CLIENT,
    MemoryLog,
    StoppedClock,
    commit,
    commit_error,
    fetch,
    run_inline,
    service,
    with_leader,
)


def test_after_its_end_a_runtime_coordinates_nothing_and_no_request_waits() -> None:
    """A node that ends because its disk failed still has connections that ask."""
    log = MemoryLog(is_high_watermark_held=True)
    replies: list[Any] = []

    async def main() -> None:
        groups = service()
        async with trio.open_nursery() as nursery:
            await nursery.start(groups.run)
            groups.lead(log)
            await trio.testing.wait_all_tasks_blocked()
            commit(groups, 1, replies)
            nursery.cancel_scope.cancel()
        groups.lead(log)
        commit(groups, 2, replies)

    trio.run(main)
    assert [commit_error(reply) for reply in replies] == [ErrorCode.NOT_COORDINATOR] * 2


def test_without_its_partition_a_node_is_not_the_coordinator() -> None:
    replies: list[Any] = []
    commit(service(), 1, replies)
    assert commit_error(replies[0]) == ErrorCode.NOT_COORDINATOR


def test_while_it_loads_a_shard_asks_for_patience() -> None:
    async def main() -> None:
        replies: list[Any] = []
        groups = service()
        async with trio.open_nursery() as nursery:
            await nursery.start(groups.run)
            groups.lead(MemoryLog())
            commit(groups, 1, replies)
            groups.list_groups(ListGroupsRequest(), CLIENT, replies.append)
            nursery.cancel_scope.cancel()
        assert (
            commit_error(replies[0])
            == replies[1].error_code
            == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )

    trio.run(main)


def test_a_shard_that_cannot_be_read_is_not_coordinated_and_stands_in_no_other_ones_way() -> None:
    replies: list[Any] = []

    class Unreadable(MemoryLog):
        def read_batches(self) -> Iterator[bytes]:
            raise OSError(errno.EIO, "the disk")

    async def main() -> None:
        config = GroupConfig(offsets_topic_partitions=2)
        groups = GroupService(
            clock=StoppedClock(),
            rng=Random(1),
            config=config,
            timers=TimerQueue(),
            run_in_pool=run_inline,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(groups.run)
            groups.lead(MemoryLog(partition=groups.partition_for("g")))
            groups.lead(Unreadable(partition=groups.partition_for("h")))
            await trio.testing.wait_all_tasks_blocked()
            commit(groups, 1, replies)
            commit(groups, 1, replies, group_id="h")
            groups.list_groups(ListGroupsRequest(), CLIENT, replies.append)
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert [commit_error(reply) for reply in replies[:2]] == [
        ErrorCode.NONE,
        ErrorCode.NOT_COORDINATOR,
    ]
    assert [group.group_id for group in replies[2].groups] == ["g"]


def test_what_was_committed_is_there_after_loading_anew() -> None:
    log = MemoryLog()
    replies: list[Any] = []
    with_leader(log, lambda groups: commit(groups, 42, replies))
    with_leader(log, lambda groups: fetch(groups, replies, "g", "unknown"))
    known, unknown = replies[1]
    assert known.topics[0].partitions[0].committed_offset == 42
    assert (unknown.group_id, unknown.topics, unknown.error_code) == ("unknown", [], 0)


def test_responses_of_reads_and_writes_wait_for_the_high_watermark_and_keep_their_order() -> None:
    log = MemoryLog(is_high_watermark_held=True)
    replies: list[Any] = []

    def story(groups: GroupService) -> None:
        commit(groups, 1, replies)
        fetch(groups, replies, "g")
        assert replies == []
        log.advance_high_watermark()
        assert commit_error(replies[0]) == ErrorCode.NONE
        assert replies[1][0].topics[0].partitions[0].committed_offset == 1

    with_leader(log, story)


def test_what_no_record_can_hold_is_refused_and_changes_nothing() -> None:
    replies: list[Any] = []

    def story(groups: GroupService) -> None:
        commit(groups, 1, replies, group_id="g" * 40_000)
        groups.list_groups(ListGroupsRequest(), CLIENT, replies.append)

    with_leader(MemoryLog(), story)
    assert commit_error(replies[0]) == ErrorCode.INVALID_REQUEST
    assert replies[1].groups == []


def test_log_that_refuses_loses_nothing_that_was_acknowledged() -> None:
    log = MemoryLog()
    replies: list[Any] = []

    def first(groups: GroupService) -> None:
        commit(groups, 1, replies)
        log.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")
        commit(groups, 2, replies)
        log.failure = None

    with_leader(log, first)
    assert [commit_error(reply) for reply in replies] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
    with_leader(log, lambda groups: fetch(groups, replies, "g"))
    assert replies[2][0].topics[0].partitions[0].committed_offset == 1


def test_resigning_refuses_every_request_that_still_waits() -> None:
    log = MemoryLog(is_high_watermark_held=True)
    replies: list[Any] = []

    def story(groups: GroupService) -> None:
        commit(groups, 1, replies)
        groups.resign(0)
        assert commit_error(replies[0]) == ErrorCode.NOT_COORDINATOR
        log.advance_high_watermark()
        assert len(replies) == 1

    with_leader(log, story)


def test_request_that_names_no_groups_has_a_response() -> None:
    replies: list[Any] = []
    service().delete_groups(DeleteGroupsRequest(), CLIENT, replies.append)
    assert replies[0].results == []


def test_records_that_cannot_be_read_cost_one_warning_and_no_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = MemoryLog()
    replies: list[Any] = []
    with_leader(log, lambda groups: commit(groups, 5, replies))
    offset_key = b"\0\1" + b"\0\1g" + b"\0\6orders" + bytes(4)
    strange = [
        (b"\0\x12\0\1g", b"\0\0\0\0\0\1"),  # of a type that Kafka reserves
        (b"\0\x63\0\1g", b"of a type that does not exist"),
        (offset_key, b"\0\x63 a version that does not exist"),
        (offset_key, b"\0\3cut"),
        (b"\0", b"no key"),
        (b"\0\2\0\1g", b"\0\3\xff\xff"),
    ]
    log.append(strange, 0)
    log.batches.append(
        bytes(
            build_batch(
                [NewRecord(key=None, value=b"no key at all", timestamp=0)],
                base_offset=log.end_offset,
            )
        )
    )
    log.end_offset += 1
    log.high_watermark = log.end_offset
    with_leader(log, lambda groups: fetch(groups, replies, "g"))
    assert replies[1][0].topics[0].partitions[0].committed_offset == 5
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "5 records cannot be read" in warning
    assert "the first at offset 2" in warning


def test_damaged_batch_costs_its_own_records_only() -> None:
    log = MemoryLog()
    replies: list[Any] = []
    with_leader(log, lambda groups: commit(groups, 5, replies))
    log.append([(b"\0\1", b"x" * 50)], 0)
    log.batches[-1] = log.batches[-1][:61] + b"\xff" * (len(log.batches[-1]) - 61)
    with_leader(log, lambda groups: commit(groups, 6, replies, "h"))
    with_leader(log, lambda groups: fetch(groups, replies, "g", "h"))
    assert [group.topics[0].partitions[0].committed_offset for group in replies[2]] == [5, 6]


def test_what_apache_kafka_stored_is_loaded_and_groups_of_other_kinds_are_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``written_by_kafka.json`` holds segments of Kafka 4.3.1.

    Its groups are a classic one, one of KIP-848 and one of share consumers.
    """
    segments = [
        b64decode(text)
        for text in json.loads((Path(__file__).parent / "written_by_kafka.json").read_text())
    ]
    replies: list[Any] = []
    for segment in segments:
        with_leader(
            MemoryLog(batches=[segment], end_offset=100, high_watermark=100),
            lambda groups: groups.describe_groups(
                DescribeGroupsRequest(groups=["classic", "modern", "sharing", "g1"]),
                CLIENT,
                replies.append,
            ),
        )
        with_leader(
            MemoryLog(batches=[segment], end_offset=100, high_watermark=100),
            lambda groups: fetch(groups, replies, "classic", "modern", "g1"),
        )
    states = [
        {group.group_id: (group.group_state, len(group.members)) for group in described.groups}
        for described in replies[::2]
    ]
    missing = ("Dead", 0)
    assert states == [
        {"classic": missing, "modern": missing, "sharing": missing, "g1": missing},
        {"classic": missing, "modern": missing, "sharing": missing, "g1": missing},
        {"classic": ("Stable", 1), "modern": missing, "sharing": missing, "g1": missing},
    ]
    offsets = [
        {
            group.group_id: group.topics[0].partitions[0].committed_offset
            for group in response
            if group.topics
        }
        for response in replies[1::2]
    ]
    assert offsets == [{}, {"modern": 5}, {"classic": 5}]
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


# Positions in transactions, as Apache Kafka writes them


def committed_in_transaction(log: MemoryLog, producer_id: int, offset: int) -> None:
    """Append what a transactional producer commits for group g, as the coordinator that took it
    stores it.
    """
    committed = CommittedOffset(offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=0)
    key, value = encode(
        OffsetRecord(group_id="g", topic="orders", partition=0, committed=committed)
    )
    record = NewRecord(key=key, value=value, timestamp=0)
    batch = build_batch(
        [record],
        base_offset=log.end_offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
    )
    log.batches.append(bytes(batch))
    log.end_offset += 1


def end_transaction(log: MemoryLog, producer_id: int, control_type: ControlType) -> None:
    marker = build_end_transaction_marker(
        control_type,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=log.end_offset,
    )
    log.batches.append(marker)
    log.end_offset += 1


def position_after_loading(log: MemoryLog) -> int:
    log.high_watermark = log.end_offset
    replies: list[Any] = []
    with_leader(log, lambda groups: fetch(groups, replies, "g"))
    topics = replies[0][0].topics
    return int(topics[0].partitions[0].committed_offset) if topics else -1


def test_a_position_in_a_transaction_counts_once_it_is_committed() -> None:
    log = MemoryLog()
    committed_in_transaction(log, 7, 10)
    assert position_after_loading(log) == -1
    end_transaction(log, 7, ControlType.COMMIT)
    assert position_after_loading(log) == 10


def test_a_position_in_a_transaction_that_was_aborted_never_counts() -> None:
    log = MemoryLog()
    with_leader(log, lambda groups: commit(groups, 1, []))
    committed_in_transaction(log, 7, 10)
    end_transaction(log, 7, ControlType.ABORT)
    assert position_after_loading(log) == 1


def test_the_position_that_stands_later_in_the_log_wins_however_the_transactions_end() -> None:
    log = MemoryLog()
    committed_in_transaction(log, 7, 10)
    committed_in_transaction(log, 8, 20)
    end_transaction(log, 8, ControlType.COMMIT)
    end_transaction(log, 7, ControlType.COMMIT)
    assert position_after_loading(log) == 20
    committed_in_transaction(log, 7, 30)
    log.append([encode(OffsetRecord(group_id="g", topic="orders", partition=0, committed=None))], 0)
    end_transaction(log, 7, ControlType.COMMIT)
    assert position_after_loading(log) == -1
