"""The broker always compacts its own topic of committed offsets.

Coordinators read the remaining records.
"""

from collections.abc import Callable
from typing import Any

import trio

from log_service.broker.one_error import one_error
from log_service.common.types import GROUP_METADATA_TOPIC
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from log_service.storage.log import Log
from tests.sim import World, sim_run
from tests.unit.broker.context import Story, running

GROUPS = ("first", "second")
PROPERTIES: dict[str, Any] = {
    "offsets.topic.num.partitions": "1",
    "log.cleaner.backoff.ms": "86400000",
}


async def until_served(
    node: Story, request: Any, version: int, error_of: Callable[[Any], int]
) -> Any:
    """Ask again for as long as the coordinator is not there yet."""
    for _ in range(100):
        answer = await node.ask(request, version)
        if error_of(answer) == 0:
            return answer
        await trio.sleep(0.1)
    raise AssertionError(answer)


async def ready(node: Story) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(GROUPS))
    await until_served(node, request, 4, lambda answer: answer.coordinators[0].error_code)


async def commit(node: Story, group: str, offset: int) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name="a",
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
        )
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    await until_served(node, request, 8, lambda answer: answer.topics[0].partitions[0].error_code)


async def committed(node: Story, group: str) -> int:
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name="a", partition_indexes=[0])]
    )
    answer = await until_served(node, request, 7, lambda answer: answer.error_code)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def offsets_log(node: Story) -> Log:
    log = node.broker.replicas.partitions[GROUP_METADATA_TOPIC, 0].log
    assert log is not None
    return log


async def play(world: World) -> None:
    async with running(world, **PROPERTIES) as node:
        await node.create_topic("a")
        await ready(node)
        short = [AlterableConfig(name="segment.ms", config_operation=0, value="1")]
        resource = AlterConfigsResource(
            resource_type=2, resource_name=GROUP_METADATA_TOPIC, configs=short
        )
        assert (await node.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses[
            0
        ].error_code == 0
        for number in range(200):
            await commit(node, GROUPS[number % 2], number)
            await trio.sleep(0.01)
        size_bytes = offsets_log(node).size_bytes
        await trio.sleep(40)
        log = offsets_log(node)
        assert log.size_bytes < size_bytes / 20
        assert log.cleaned_offset == log.segments.active.base_offset
        assert [await committed(node, group) for group in GROUPS] == [198, 199]
    async with running(world, **PROPERTIES) as node:
        await ready(node)
        assert [await committed(node, group) for group in GROUPS] == [198, 199]
        assert offsets_log(node).cleaned_offset is not None


def test_committed_offsets_outlive_the_compaction_of_their_topic_and_a_restart() -> None:
    with one_error():
        sim_run(1, play)
