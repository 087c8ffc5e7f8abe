"""A leader serves fetches of followers.

It refuses some, bounds how far they read, learns their positions, and ends their waits.
"""

from dataclasses import replace
from typing import Any, cast

import pytest
import trio
import trio.testing

from log_service.broker.handlers import delete_records
from log_service.broker.timer_task import TimerTask
from log_service.common.errors import ErrorCode
from log_service.common.types import NodeId
from log_service.network.server import ConnectionContext
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from log_service.protocol.stored.metadata_records import PartitionChangeRecord
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import batch, fetch_request, values_of
from tests.unit.metadata.records import broker

FOLLOWER = NodeId(2)
EPOCH = 20
NEVER_MS = 60_000


def follower_fetch(
    node: HandlerNode, offset: int, *, replica: int = FOLLOWER, epoch: int = EPOCH, **wanted: Any
) -> FetchRequest:
    """Version 18 of a follower's fetch of partition a-0, without a session and without waiting."""
    wanted = {
        "current_leader_epoch": 0,
        "log_start_offset": 0,
        "last_fetched_epoch": 0 if offset else -1,
        **wanted,
    }
    max_wait_ms, session_id, session_epoch = (
        wanted.pop(key, other) for key, other in (("wait", 0), ("session", 0), ("at", -1))
    )
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **wanted
    )
    topic = FetchTopic(topic_id=node.image.topics.by_name["a"].topic_id, partitions=[partition])
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[topic],
    )


async def fetch(node: HandlerNode, offset: int, **wanted: Any) -> PartitionData:
    response: FetchResponse = await node.ask(follower_fetch(node, offset, **wanted), 18)
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def lead_with_followers(node: HandlerNode, isr: tuple[int, ...] = (1, 2), **configs: str) -> None:
    """Partition a-0 has replicas 1 (this node, which leads), 2 and 3; broker 2 has registered in
    epoch 20.
    """
    node.publish(replace(broker(), broker_id=2, broker_epoch=EPOCH, fenced=False))
    node.context.create_topic(
        "a",
        replicas=[NodeId(1), NodeId(2), NodeId(3)],
        isr=[NodeId(each) for each in isr],
        **cast("Any", configs),
    )


def test_a_follower_reads_to_the_end_and_a_consumer_to_what_the_isr_has() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        await node.produce("a", batch(b"one"), acks=1)
        assert values_of((await node.fetch("a", 0)).records) == []
        found = await fetch(node, 0)
        assert (values_of(found.records), found.high_watermark) == ([b"one"], 0)
        assert (await fetch(node, 1)).high_watermark == 1
        assert values_of((await node.fetch("a", 0)).records) == [b"one"]

    tell_handlers(story)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"current_leader_epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"epoch": EPOCH - 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"offset": 7, "last_fetched_epoch": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 1, "last_fetched_epoch": 3}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"replica": 9, "offset": 7, "epoch": -1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_what_is_refused(wanted: dict[str, int], code: ErrorCode) -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        await node.produce("a", batch(b"one"), acks=1)
        assert (await fetch(node, **{"offset": 0, **wanted})).error_code == code
        assert node.context.partition().high_watermark == 0

    tell_handlers(story)


def test_an_old_leader_epoch_is_fenced_and_told_who_leads() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        node.context.elect(1)
        response: FetchResponse = await node.ask(follower_fetch(node, 0), 18)
        (found,) = response.responses[0].partitions
        assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert found.current_leader == LeaderIdAndEpoch(leader_id=1, leader_epoch=1)
        assert response.node_endpoints == [], "a broker knows from the metadata where others are"

    tell_handlers(story)


def test_a_broker_that_has_registered_again_is_told_apart_from_its_earlier_life() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        assert (await fetch(node, 0)).error_code == 0
        node.publish(replace(broker(), broker_id=2, broker_epoch=EPOCH + 1, fenced=False))
        assert (await fetch(node, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(node, 0, epoch=-1)).error_code == 0

    tell_handlers(story)


def test_a_follower_whose_log_parted_is_told_where_and_counts_for_nothing() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        await node.produce("a", batch(b"one"), acks=1)
        node.context.elect(1)
        await node.produce("a", batch(b"two"), acks=1)
        found = await fetch(node, 2, current_leader_epoch=1, last_fetched_epoch=0)
        assert found.diverging_epoch is not None
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)
        assert node.context.partition().high_watermark == 0
        assert (await fetch(node, 2, current_leader_epoch=1, last_fetched_epoch=1)).error_code == 0
        assert node.context.partition().high_watermark == 2

    tell_handlers(story)


def test_a_new_leader_knows_where_its_epoch_begins_before_it_appends() -> None:
    """A follower with records of the epoch before, that this leader never had, has to cut them off."""

    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        await node.produce("a", batch(b"one"), acks=1)
        for _ in range(3):
            node.context.elect(1)
        log = node.context.partition().log
        assert log is not None
        assert log.leader_epochs.entries == [(0, 0), (3, 1)]
        found = await fetch(node, 4, current_leader_epoch=3, last_fetched_epoch=2)
        assert found.diverging_epoch is not None
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)

    tell_handlers(story)


async def answered(
    node: HandlerNode, offset: int, told: list[tuple[float, Any]], **wanted: Any
) -> None:
    found = await fetch(node, offset, wait=NEVER_MS, **wanted)
    told.append((trio.current_time(), found))


def test_a_waiting_follower_goes_with_an_append_and_not_with_the_high_watermark() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node, isr=(1, 2, 3))
        await node.produce("a", batch(b"one"), acks=1)
        told: list[tuple[float, Any]] = []
        node.context.nursery.start_soon(lambda: answered(node, 1, told))
        await trio.sleep(1)
        await fetch(node, 1, replica=3, epoch=-1)
        assert node.context.partition().high_watermark == 1
        await trio.sleep(1)
        assert told == []
        await node.produce("a", batch(b"two"), acks=1)
        await trio.sleep(0.001)
        assert [values_of(found.records) for _, found in told] == [[b"two"]]

    tell_handlers(story)


@pytest.mark.parametrize("change", ["epoch", "leader", "deletion"])
def test_a_waiting_follower_goes_when_the_partition_is_not_what_it_was(change: str) -> None:
    codes = {
        "epoch": ErrorCode.FENCED_LEADER_EPOCH,
        "leader": ErrorCode.FENCED_LEADER_EPOCH,
        "deletion": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }

    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        told: list[tuple[float, Any]] = []
        node.context.nursery.start_soon(lambda: answered(node, 0, told))
        await trio.sleep(1)
        if change == "deletion":
            node.context.delete_topic()
        else:
            node.context.elect(1 if change == "epoch" else 2)
        await trio.sleep(0.001)
        assert [found.error_code for _, found in told] == [codes[change]]

    tell_handlers(story)


def test_reading_again_after_a_wait_says_nothing_new_of_the_follower() -> None:
    """The fetch that waited said how far the follower was when it came, not when it was answered."""

    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        told: list[tuple[float, Any]] = []
        node.context.nursery.start_soon(lambda: answered(node, 0, told))
        await trio.sleep(5)
        await node.produce("a", batch(b"one"), acks=1)
        await trio.sleep(0.001)
        follower = node.context.partition().state.followers[2]
        assert len(told) == 1
        assert follower.last_fetch_ms == node.node.clock.monotonic_ms() - 5_001

    tell_handlers(story)


def test_acks_all_waits_for_the_isr_and_no_longer() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        came: list[tuple[float, int]] = []

        async def produce() -> None:
            result = await node.produce("a", batch(b"one"))
            came.append((trio.current_time(), result.error_code))

        node.context.nursery.start_soon(produce)
        await trio.sleep(0.1)
        assert came == []
        began = trio.current_time()
        await fetch(node, 1)
        await trio.sleep(0.001)
        assert came == [(began, 0)]

    tell_handlers(story)


def test_acks_all_is_refused_below_min_isr_and_told_where_it_sinks_below_later() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node, min_insync_replicas="2")
        codes: list[int] = []

        async def produce() -> None:
            codes.append((await node.produce("a", batch(b"one"))).error_code)

        node.context.nursery.start_soon(produce)
        await trio.sleep(0.1)
        topic_id = node.image.topics.by_name["a"].topic_id
        await fetch(node, 1)
        await trio.sleep(0.001)
        assert codes == [0]
        node.publish(PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1]))
        assert (await node.produce("a", batch(b"two"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await node.produce("a", batch(b"two"), acks=1)).error_code == 0
        await fetch(node, 2)
        assert node.context.partition().high_watermark == 1

    tell_handlers(story)


def test_acks_all_times_out_where_a_follower_is_silent() -> None:
    async def story(node: HandlerNode) -> None:
        await node.context.nursery.start(TimerTask(node.context.timers, node.node.clock).run)
        lead_with_followers(node)
        began = trio.current_time()
        assert (await node.produce("a", batch(b"one"))).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert trio.current_time() - began == pytest.approx(1.0, abs=0.01)

    tell_handlers(story)


def test_a_followers_session_tells_only_what_changed_and_every_request_is_noted() -> None:
    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        await node.produce("a", batch(b"one"), acks=1)
        first: FetchResponse = await node.ask(follower_fetch(node, 0, at=0), 18)
        assert first.session_id != 0
        await node.ask(follower_fetch(node, 1, session=first.session_id, at=1), 18)
        silent = replace(follower_fetch(node, 1, session=first.session_id, at=2), topics=[])
        third: FetchResponse = await node.ask(silent, 18)
        assert [topic.partitions[0].high_watermark for topic in third.responses] == [1]
        await trio.sleep(3)
        fourth: FetchResponse = await node.ask(replace(silent, session_epoch=3), 18)
        assert fourth.responses == []
        assert (
            node.context.partition().state.followers[2].last_caught_up_ms
            == node.node.clock.monotonic_ms()
        )

    tell_handlers(story)


def test_a_second_request_of_a_session_does_not_change_what_the_first_one_waits_for() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        topic_id = node.image.topics.by_name["a"].topic_id
        await node.produce("a", batch(b"one"), acks=1)
        request = replace(fetch_request("a", 1, max_wait_ms=NEVER_MS), session_epoch=0)
        request.topics[0].topic_id = topic_id
        told: list[FetchResponse] = []

        async def ask(wanted: FetchRequest) -> None:
            told.append(await node.ask(wanted, 18))

        node.context.nursery.start_soon(ask, request)
        await trio.sleep(0.1)
        (session_id,) = node.node.fetch_sessions.session_ids
        later = replace(
            fetch_request("a", 2, max_wait_ms=NEVER_MS), session_epoch=1, session_id=session_id
        )
        later.topics[0].topic_id = topic_id
        node.context.nursery.start_soon(ask, later)
        await trio.sleep(0.1)
        await node.produce("a", batch(b"two"), acks=1)
        await trio.sleep(0.001)
        found = [response.responses[0].partitions[0] for response in told]
        assert [(each.error_code, values_of(each.records)) for each in found] == [
            (ErrorCode.OFFSET_OUT_OF_RANGE, []),
            (0, [b"two"]),
        ]

    tell_handlers(story)


def test_a_bug_of_a_deletion_that_waits_for_followers_costs_its_own_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The follower whose fetch has it asked gets its records."""

    def fails(_awaited: object) -> bool:
        raise ZeroDivisionError

    async def story(node: HandlerNode) -> None:
        lead_with_followers(node)
        await node.produce("a", batch(b"one"), acks=1)
        await fetch(node, 1)
        wanted = DeleteRecordsPartition(partition_index=0, offset=1)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="a", partitions=[wanted])], timeout_ms=NEVER_MS
        )

        async def delete() -> None:
            with pytest.raises(OSError, match="the request failed"):
                await node.ask(
                    request, 2, ConnectionContext(2, "operator", "127.0.0.1", "PLAINTEXT")
                )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            await trio.testing.wait_all_tasks_blocked()
            assert node.replicas.delayed_deletes.waiting_count == 1
            monkeypatch.setattr(delete_records.DeleteRecordsPartitionStatus, "maybe_finish", fails)
            assert (await fetch(node, 1)).error_code == 0
        assert node.replicas.delayed_deletes.waiting_count == 0

    tell_handlers(story)
