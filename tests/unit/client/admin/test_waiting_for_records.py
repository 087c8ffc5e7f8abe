"""An admin waits for records of several partitions.

It leaves out a partition that its leader refuses.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from log_service.client import Admin, ErrorCode, ItemsFailed
from log_service.common.types import TopicPartition
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.sim.world import World, sim_run
from tests.unit.client.scripted_broker import ScriptedBroker, clustered

Story = Callable[["Leaders", Admin], Awaitable[None]]
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Leaders:
    """Two brokers respond to fetches.

    They respond at once where a partition is refused, or holds something, else when the fetch has
    waited. The first leads the partitions 0 and 1, the second leads 2.  The first leads the
    partitions 0 and 1, the second leads 2.
    """

    def __init__(self, world: World) -> None:
        hosts = {1: "broker", 2: "other"}
        self.brokers = [
            ScriptedBroker(world, partition_count=3, node_id=node_id, host=host)
            for node_id, host in hosts.items()
        ]
        clustered(*self.brokers)
        self.brokers[0].leaders[:] = [1, 1, 2]
        self.refusals: dict[int, ErrorCode] = {}
        self.filled_s: dict[int, float] = {}
        """When a partition holds something, by partition."""
        self.asked: list[list[int]] = []
        for broker in self.brokers:
            broker.other[ApiKey.FETCH] = self._fetch

    async def _fetch(self, request: Any, version: int) -> FetchResponse:
        wanted = [partition.partition for topic in request.topics for partition in topic.partitions]
        self.asked.append(wanted)
        until_s = trio.current_time() + request.max_wait_ms / 1_000
        if not self.refusals.keys() & set(wanted):
            await trio.sleep_until(
                min([until_s, *(self.filled_s[each] for each in wanted if each in self.filled_s)])
            )
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        self._fetched(partition.partition) for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetched(self, number: int) -> PartitionData:
        is_filled = self.filled_s.get(number, float("inf")) <= trio.current_time()
        code = self.refusals.get(number, ErrorCode.NONE)
        return PartitionData(
            partition_index=number,
            error_code=code,
            records=b"record" if is_filled and not code else None,
        )


def tell(story: Story) -> None:
    async def main(world: World) -> None:
        leaders = Leaders(world)
        async with trio.open_nursery() as nursery:
            for broker in leaders.brokers:
                await nursery.start(broker.run)
            async with Admin("broker:9092", env=world.client_env()) as admin:
                with trio.fail_after(1_000):
                    await story(leaders, admin)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


def test_a_refused_partition_keeps_none_from_being_waited_for() -> None:
    async def story(leaders: Leaders, admin: Admin) -> None:
        leaders.refusals[0] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        started = trio.current_time()
        leaders.filled_s[1] = started + 5
        assert await admin.wait_for_records({T0: 0, T1: 0, T2: 0}, 20_000) == {T1}
        assert trio.current_time() - started == pytest.approx(5, abs=0.5)
        assert sorted(leaders.asked) == [[0, 1], [1], [2]], (
            "what was refused once is not asked for again"
        )

    tell(story)


def test_a_leader_that_refuses_all_that_it_leads_ends_no_wait_for_the_others() -> None:
    async def story(leaders: Leaders, admin: Admin) -> None:
        leaders.refusals[2] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        started = trio.current_time()
        assert await admin.wait_for_records({T0: 0, T2: 0}, 20_000) == set()
        assert trio.current_time() - started == pytest.approx(20, abs=0.5)

    tell(story)


def test_a_topic_that_the_cluster_does_not_know_keeps_no_other_from_being_waited_for() -> None:
    async def story(leaders: Leaders, admin: Admin) -> None:
        leaders.filled_s[0] = trio.current_time()
        assert await admin.wait_for_records({TopicPartition("gone", 0): 0, T0: 0}, 20_000) == {T0}

    tell(story)


def test_a_partition_that_holds_something_is_told_beside_one_that_has_moved() -> None:
    async def story(leaders: Leaders, admin: Admin) -> None:
        leaders.refusals[0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        leaders.filled_s[1] = trio.current_time()
        assert await admin.wait_for_records({T0: 0, T1: 0}, 20_000) == {T1}

    tell(story)


@pytest.mark.parametrize(
    ("waited_for", "code"),
    [
        ([T0, T2], ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ([TopicPartition("gone", 0)], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_where_all_partitions_are_refused_their_refusals_are_raised_at_once(
    waited_for: list[TopicPartition], code: ErrorCode
) -> None:
    async def story(leaders: Leaders, admin: Admin) -> None:
        leaders.refusals = dict.fromkeys((0, 2), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        started = trio.current_time()
        with pytest.raises(ItemsFailed) as caught:
            await admin.wait_for_records(dict.fromkeys(waited_for, 0), 20_000)
        assert (list(caught.value.errors), caught.value.code) == (waited_for, code)
        assert trio.current_time() - started < 1

    tell(story)
