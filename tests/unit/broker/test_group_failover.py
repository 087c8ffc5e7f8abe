"""The topic of groups has several replicas.

The tests tell what a commit waits for, and what the next coordinator finds.

The topic's partition is a real one on a memory disk. Node 2 is its other replica: the test says
what it has fetched, and who leads. A new coordinator reads the bytes that the old one appended.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from log_service.broker.coordinator_leadership import Coordinated, CoordinatorLeadership
from log_service.broker.partition_writer import PartitionWriter
from log_service.broker.timer_task import TimerTask
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, NodeId
from log_service.config.server import parse_server_properties
from log_service.config.views import GroupConfig
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.request_context import RequestClient
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from log_service.protocol.stored.metadata_records import PartitionChangeRecord
from log_service.replication.partition import Partition
from tests.unit.replication.context import ReplicaContext, run_story, running

CLIENT = RequestClient(api_version=8, client_id="c", client_host="/h")
FOLLOWER = NodeId(2)
Said = list[Any]


class Coordinators:
    """Node 1 with the topic of groups, one partition on nodes 1 and 2; ``groups`` is its
    coordinator.
    """

    def __init__(self, context: ReplicaContext, groups: GroupService) -> None:
        self.context = context
        self.groups = groups

    @property
    def partition(self) -> Partition:
        return self.context.partition(GROUP_METADATA_TOPIC)

    def follow(self, offset: int | None = None) -> None:
        """Have node 2 fetch up to an offset, by default all there is."""
        state = self.partition.state
        end_offset = state.log_end_offset if offset is None else offset
        now_ms = self.context.env.clock.monotonic_ms()
        state.note_fetch(FOLLOWER, end_offset, log_start_offset=0, broker_epoch=-1, now_ms=now_ms)
        self.context.replicas.announce((self.partition,))

    def elect(self, leader: int) -> None:
        self.context.elect(leader, GROUP_METADATA_TOPIC)

    def change_isr(self, *isr: int) -> None:
        """Change the in-sync replicas, which is no new leader epoch."""
        topic_id = self.context.image.topics.by_name[GROUP_METADATA_TOPIC].topic_id
        self.context.publish(
            PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=list(isr))
        )

    def commit(self, offset: int) -> Said:
        """Commit and return what the client hears, now or later."""
        said: Said = []
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])]
        )
        self.groups.offset_commit(
            request, CLIENT, lambda reply: said.append(reply.topics[0].partitions[0].error_code)
        )
        return said

    def committed(self) -> Said:
        """Ask for the committed offset, and return the response, now or later.

        It is an error code or an offset.
        """
        said: Said = []

        def hear(replies: Any) -> None:
            group = replies[0]
            said.append(
                ErrorCode.of(group.error_code)
                if group.error_code
                else group.topics[0].partitions[0].committed_offset
            )

        self.groups.offset_fetch([OffsetFetchRequestGroup(group_id="g", topics=None)], CLIENT, hear)
        return said


@asynccontextmanager
async def coordinating(
    config: GroupConfig | None = None, **topic: str
) -> AsyncIterator[Coordinators]:
    async with running() as context:
        config = config or GroupConfig(offsets_topic_partitions=1)
        pool = context.env.files.run_in_pool
        groups = GroupService(
            clock=context.env.clock,
            rng=Random(1),
            config=config,
            timers=context.timers,
            run_in_pool=pool,
        )
        await context.nursery.start(groups.run)
        await context.nursery.start(TimerTask(context.timers, context.env.clock).run)
        CoordinatorLeadership(
            context.replicas, {GROUP_METADATA_TOPIC: Coordinated(coordinator=groups)}
        )
        context.create_topic(
            GROUP_METADATA_TOPIC,
            replicas=(NodeId(1), FOLLOWER),
            isr=(NodeId(1), FOLLOWER),
            **cast("Any", topic),
        )
        story = Coordinators(context, groups)
        await wait_all_tasks_blocked()
        yield story


def tell(
    story: Callable[[Coordinators], Awaitable[None]],
    config: GroupConfig | None = None,
    **topic: str,
) -> None:
    async def main() -> None:
        async with coordinating(config, **topic) as coordinators:
            await story(coordinators)

    run_story(main)


def test_a_commit_is_acknowledged_once_the_in_sync_replicas_have_it() -> None:
    async def story(node: Coordinators) -> None:
        said = node.commit(7)
        assert said == []
        node.follow()
        assert said == [ErrorCode.NONE]

    tell(story)


def test_what_was_acknowledged_is_there_after_a_failover_and_what_was_not_waits() -> None:
    async def story(node: Coordinators) -> None:
        first = node.commit(7)
        node.follow()
        second = node.commit(8)
        node.elect(2)
        assert (first, second) == ([ErrorCode.NONE], [ErrorCode.NOT_COORDINATOR])
        node.elect(1)
        await wait_all_tasks_blocked()
        said = node.committed()
        assert said == [], (
            "offset 8 is in the log, and not yet safe: neither 7 nor 8 can be told for sure"
        )
        node.follow()
        assert said == [8]

    tell(story)


def test_an_epoch_of_the_same_leader_loads_anew_and_a_change_of_the_isr_does_not() -> None:
    async def story(node: Coordinators) -> None:
        waiting = node.commit(7)
        node.change_isr(1)
        assert waiting == [ErrorCode.NONE], "the only replica in sync has it"
        waiting = node.commit(8)
        node.change_isr(1, 2)
        assert waiting == [ErrorCode.NONE]
        waiting = node.commit(9)
        node.elect(1)
        assert waiting == [ErrorCode.NOT_COORDINATOR]
        assert node.committed() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    tell(story)


def test_under_the_minimum_of_replicas_a_commit_is_refused_at_once() -> None:
    async def story(node: Coordinators) -> None:
        node.change_isr(1)
        assert node.commit(7) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert node.partition.state.log_end_offset == 0

    tell(story, min_insync_replicas="2")


def config_of(text: str) -> GroupConfig:
    texts = {
        "node.id": "1",
        "listeners": "PLAINTEXT://h:1",
        "log.dirs": "/d",
        "offsets.topic.num.partitions": "1",
    }
    return parse_server_properties({**texts, "offsets.commit.timeout.ms": text})[0].groups


@pytest.mark.parametrize("timeout_ms", [700, 5_000])
def test_a_commit_that_stays_unsafe_is_given_up_and_may_still_count(timeout_ms: int) -> None:
    async def story(node: Coordinators) -> None:
        said = node.commit(7)
        await trio.sleep(timeout_ms / 1_000 - 0.1)
        late = node.commit(8)
        assert said == []
        await trio.sleep(0.2)
        assert (said, late) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])
        node.follow()
        assert late == [ErrorCode.NONE]
        await trio.sleep(timeout_ms / 1_000)
        assert (len(said), len(late)) == (1, 1)
        assert node.committed() == [8]

    tell(story, config_of(str(timeout_ms)))


def test_a_follower_coordinates_nothing() -> None:
    async def story(node: Coordinators) -> None:
        node.elect(2)
        said: Said = []
        node.groups.heartbeat(
            HeartbeatRequest(group_id="g", member_id="m"),
            CLIENT,
            lambda reply: said.append(reply.error_code),
        )
        assert node.commit(1) == node.committed() == said == [ErrorCode.NOT_COORDINATOR]

    tell(story)


def test_a_log_of_an_earlier_epoch_takes_no_append() -> None:
    async def story(node: Coordinators) -> None:
        stale = PartitionWriter(node.context.replicas, node.partition)
        node.elect(1)
        with pytest.raises(KafkaError) as caught:
            stale.append([(b"k", b"v")], 0)
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (stale.high_watermark, node.partition.state.log_end_offset) == (0, 0)

    tell(story)


def test_a_load_ends_with_its_epoch(caplog: pytest.LogCaptureFixture) -> None:
    """A follower may truncate what a load that nobody waits for still reads."""
    chunks: list[str] = []

    class SlowLog:
        partition = 0
        leader_epoch = 5
        high_watermark = 0

        def append(self, records: Any, wall_ms: int, transaction: Any = None) -> int:
            raise AssertionError

        def append_marker(self, marker: Any) -> int:
            raise AssertionError

        def delete_records(self, end_offset: int) -> None:
            raise AssertionError

        def watch_high_watermark(self, callback: Any) -> None:
            raise AssertionError

        def read_batches(self) -> Iterator[bytes]:
            chunks.append("first")
            yield b""
            node[0].groups.resign(0)
            chunks.append("second")
            yield b""
            chunks.append("third")
            raise OSError("the log was truncated")

    node: list[Coordinators] = []

    async def story(coordinators: Coordinators) -> None:
        node.append(coordinators)
        coordinators.groups.lead(SlowLog())
        await wait_all_tasks_blocked()
        assert coordinators.committed() == [ErrorCode.NOT_COORDINATOR]

    tell(story)
    assert chunks == ["first", "second"]
    assert not caplog.records


def test_groups_are_spread_over_the_partitions_that_the_topic_has() -> None:
    def partition_for(count: int) -> int:
        config = GroupConfig(offsets_topic_partitions=50)
        nothing: Any = None
        groups = GroupService(
            clock=nothing,
            rng=Random(1),
            config=config,
            timers=nothing,
            run_in_pool=nothing,
            partition_count=lambda: count,
        )
        return groups.partition_for("console-consumer")

    assert (partition_for(8), partition_for(0)) == (648006740 % 8, 648006740 % 50)
