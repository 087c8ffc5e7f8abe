"""Responses about very many things take several turns of the event loop.

Each of these requests is small, and its response is as large as the cluster. Function calls between
two checkpoints of a task are counted, as in ``test_longest_turn``.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import pytest
import trio

from log_service.broker.authorization.gate_shapes import Question
from log_service.broker.requests.call import Call, Side
from log_service.broker.requests.step_scheduler import StepScheduler
from log_service.common.access import AclOperation, AclResource, Admission
from log_service.common.types import TopicPartition
from log_service.config.views import GroupConfig
from log_service.coordinator.group.offsets.committed import OffsetStore
from log_service.coordinator.group.records.offset import CommittedOffset, OffsetRecord
from log_service.network.responses import PendingResponse
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import RequestHeader, encode_request
from log_service.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from log_service.state_machine.decision import ReplayContext
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.helpers.watchdog import MOST_CALLS, Watchdog
from tests.unit.metadata.records import broker, topic

COUNT = 5_000
VERY_FEW = MOST_CALLS // 8
"""What a turn of 250 partitions, or of 1,000 names, takes at most."""


async def longest_turn(node: HandlerNode, request: Any, version: int) -> tuple[int, Any]:
    """The calls of the longest turn of a request, and its response."""
    watchdog = Watchdog()

    async def run_uncounted(work: Callable[[], Any]) -> Any:
        watchdog.is_off = True
        try:
            return work()
        finally:
            watchdog.is_off = False

    node.node.run_in_pool = cast("Any", run_uncounted)
    node.node.step_scheduler = StepScheduler(node.node.run_in_pool)
    key = ApiKey(request.SCHEMA.key)
    chunks = encode_request(RequestHeader(key, version, 1, "story"), request)
    frame = memoryview(bytearray(b"".join(map(bytes, chunks))[4:]))  # type: ignore[arg-type]  # no slice
    with watchdog:
        pending = node.pipeline.handle_frame(node.connection, frame)
        assert isinstance(pending, PendingResponse)
        done = trio.Event()
        pending.watch(lambda _: done.set())
        if not pending.is_done:
            await done.wait()
        pending.take()
    return watchdog.most, await node.ask(request, version)


def publish(node: HandlerNode, topic_count: int, partition_count: int) -> None:
    """Have another node lead very many partitions."""
    node.publish(replace(broker(2), end_points=broker(1).end_points))
    for number in range(topic_count):
        node.publish(*topic(f"topic-{number * 7_919 % 100_003}", number, partition_count, (2,)))


@pytest.mark.parametrize(("topic_count", "partition_count"), [(2, COUNT // 2), (1_000, 1)])
@pytest.mark.parametrize("version", [1, 12])
def test_metadata_of_all_topics(topic_count: int, partition_count: int, version: int) -> None:
    async def story(node: HandlerNode) -> None:
        publish(node, topic_count, partition_count)
        most, response = await longest_turn(node, MetadataRequest(topics=None), version)
        assert most <= VERY_FEW
        assert (
            sum(len(each.partitions) for each in response.topics) == topic_count * partition_count
        )

    tell_handlers(story)


@pytest.mark.parametrize("is_one_topic", [True, False])
def test_log_directories_with_all_partitions(*, is_one_topic: bool) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        logs = cast("Any", node.node.logs.logs)
        (log,) = logs.values()
        for number in range(COUNT):
            mixed = number * 7_919 % COUNT
            name = "b" if is_one_topic else f"topic-{mixed}"
            logs[TopicPartition(name, mixed)] = log  # of which nothing but its size is told
        most, response = await longest_turn(node, DescribeLogDirsRequest(topics=None), 4)
        assert most <= VERY_FEW
        topics = [each.name for each in response.results[0].topics]
        assert topics == sorted(topics)
        (_, *told) = [each for found in response.results[0].topics for each in found.partitions]
        assert len(told) == COUNT
        if is_one_topic:
            assert [each.partition_index for each in told] == list(range(COUNT))
        logs.clear()
        logs[TopicPartition("a", 0)] = log

    tell_handlers(story)


class FakeGroups:
    """Answers with the offsets of a real store."""

    def __init__(self, topic_count: int) -> None:
        self.offsets = OffsetStore(GroupConfig())
        for number in range(COUNT):
            record = OffsetRecord(
                group_id="group",
                topic=f"topic-{number % topic_count}",
                partition=COUNT - number,
                committed=CommittedOffset(
                    offset=number, leader_epoch=0, metadata="", commit_timestamp_ms=0
                ),
            )
            self.offsets.replay(record, ReplayContext(number))

    def offset_fetch(
        self,
        groups: list[OffsetFetchRequestGroup],
        client: object,
        on_reply: Callable[[list[Any]], None],
        *,
        is_stable_required: bool,
    ) -> None:
        on_reply(
            [self.offsets.fetch(each, is_stable_required=is_stable_required) for each in groups]
        )


class OnlyGroups:
    """An authorizer with the real gate, and rights on groups alone."""

    def authorize(self, call: Call) -> Admission | None:
        api = call.route.api
        question = Question(
            api=api,
            version=call.version,
            request=call.request,
            response_type=call.response_type,
            access=cast("Any", RightsOnGroups()),
            image=cast("Any", None),
            config=cast("Any", None),
        )
        return api.gates[Side.BROKER](question)


class RightsOnGroups:
    def allowed(
        self, operation: AclOperation, resource: AclResource, names: Iterable[str]
    ) -> set[str]:
        return {name for name in names if resource is AclResource.GROUP}

    def require(self, operation: AclOperation, resource: AclResource, name: str) -> None:
        assert resource is AclResource.GROUP


@pytest.mark.parametrize("is_allowed", [True, False], ids=["allowed", "refused"])
@pytest.mark.parametrize("topic_count", [1, COUNT])
@pytest.mark.parametrize("version", [7, 8, 10])
def test_all_offsets_of_a_group(topic_count: int, version: int, *, is_allowed: bool) -> None:
    async def story(node: HandlerNode) -> None:
        node.node.groups = cast("Any", FakeGroups(topic_count))
        node.pipeline.authorizer = None if is_allowed else cast("Any", OnlyGroups())
        if version >= 10 and topic_count == 1:
            node.publish(*topic("topic-0", 1))
        request = (
            OffsetFetchRequest(group_id="group", topics=None)
            if version < 8
            else OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=None)])
        )
        most, response = await longest_turn(node, request, version)
        assert most <= VERY_FEW
        told: OffsetFetchResponseGroup = response if version < 8 else response.groups[0]
        indexes = [each.partition_index for found in told.topics for each in found.partitions]
        is_known = version < 10 or topic_count == 1
        assert sorted(indexes) == (list(range(1, COUNT + 1)) if is_allowed and is_known else [])

    tell_handlers(story)


@pytest.mark.parametrize("version", [12, 13])
def test_opening_the_largest_fetch_session(version: int) -> None:
    async def story(node: HandlerNode) -> None:
        partitions = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)
            for index in range(COUNT)
        ]
        topics = [FetchTopic(topic="a", partitions=partitions)]
        request = FetchRequest(max_bytes=1_000, min_bytes=1, session_epoch=0, topics=topics)
        most, response = await longest_turn(node, request, version)
        assert most <= 2 * VERY_FEW
        assert len(response.responses[0].partitions) == COUNT
        later = FetchRequest(
            max_bytes=1_000,
            min_bytes=1,
            session_id=response.session_id,
            session_epoch=1,
            topics=topics,
        )
        most, _ = await longest_turn(node, later, version)
        assert most <= 2 * VERY_FEW

    tell_handlers(story)
