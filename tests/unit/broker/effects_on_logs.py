"""Each key about logs has an effect that a test observes at a node.

It looks at responses to clients and at the files of a partition.

An effect is seen where the value is set, and would not be seen where it is not.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.records.batch import iterate_headers
from log_service.storage.log import Log
from tests.unit.broker.context import DATA, Story, batch

TOPIC, BROKER = 2, 4
QUICK_UPKEEP = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "1000",
    "log.flush.scheduler.interval.ms": "500",
}


def log_of(node: Story, index: int = 0, topic: str = "a") -> Log:
    log = node.broker.replicas.partitions[(topic, index)].log
    assert log is not None
    return log


def segment_files(node: Story, index: int = 0, topic: str = "a") -> list[str]:
    names = node.broker.env.files.list_directory(DATA / f"{topic}-{index}")
    return [name for name in names if name.endswith(".log")]


def now_ms(node: Story) -> int:
    return node.broker.env.clock.wall_ms()


async def produce(
    node: Story, size_bytes: int = 10, *, timestamp_ms: int | None = None, index: int = 0
) -> int:
    """Produce one record and return the error code."""
    content = batch(
        bytes(size_bytes), timestamp_ms=now_ms(node) if timestamp_ms is None else timestamp_ms
    )
    return (await node.produce("a", content, partition=index)).error_code


async def small_segments_roll(node: Story) -> None:
    for _ in range(3):
        assert await produce(node, 700_000) == 0
    assert len(segment_files(node)) == 3


async def old_segments_roll(node: Story) -> None:
    for late_ms in (0, 500, 5_000):
        assert await produce(node, timestamp_ms=now_ms(node) + late_ms) == 0
    assert len(segment_files(node)) == 2


async def segments_roll_at_different_ages(node: Story) -> None:
    week_ms = 7 * 24 * 3_600_000
    for index in range(12):
        for late_ms in (0, week_ms // 2):
            assert (
                await produce(node, timestamp_ms=now_ms(node) - week_ms + late_ms, index=index) == 0
            )
    rolled = [index for index in range(12) if len(segment_files(node, index)) == 2]
    assert 0 < len(rolled) < 12


async def every_batch_has_an_index_entry(node: Story) -> None:
    for _ in range(4):
        assert await produce(node) == 0
    # The first batch of a segment needs none.
    assert len(log_of(node).segments.active.offset_index) == 3


async def a_full_index_rolls(node: Story) -> None:
    for _ in range(6):
        assert await produce(node, 5_000) == 0
    assert len(segment_files(node)) > 1


async def old_records_go(node: Story) -> None:
    assert await produce(node, timestamp_ms=now_ms(node) - 60_000) == 0
    await trio.sleep(3)
    assert log_of(node).log_start_offset == 1


async def much_goes(node: Story) -> None:
    for _ in range(3):
        assert await produce(node, 700_000) == 0
    log_of(node).roll()
    await trio.sleep(3)
    assert 0 < log_of(node).log_start_offset < 3


async def keys_are_needed(node: Story) -> None:
    assert await produce(node) == ErrorCode.INVALID_RECORD


async def files_go_soon(node: Story) -> None:
    await node.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000), 6)
    await trio.sleep(2)
    assert any(name.endswith("-delete") for name in node.broker.env.files.list_directory(DATA))
    await trio.sleep(5)
    assert not any(name.endswith("-delete") for name in node.broker.env.files.list_directory(DATA))


async def every_record_is_synced(node: Story) -> None:
    for _ in range(3):
        assert await produce(node) == 0
        assert log_of(node).recovery_point == log_of(node).log_end_offset


async def records_are_synced_in_time(node: Story) -> None:
    assert await produce(node) == 0
    await trio.sleep(1.5)  # longer than the interval that holds where this one is not heeded
    assert log_of(node).recovery_point == 0
    await trio.sleep(4)
    assert log_of(node).recovery_point == 1


async def large_batches_are_refused(node: Story) -> None:
    assert await produce(node, 50) == 0
    assert await produce(node, 1_000) == ErrorCode.MESSAGE_TOO_LARGE


async def the_broker_stamps(node: Story) -> None:
    answer = await node.produce("a", batch(b"x", timestamp_ms=5))
    assert answer.log_append_time_ms == pytest.approx(now_ms(node), abs=1_000)


async def the_past_is_refused(node: Story) -> None:
    assert await produce(node, timestamp_ms=now_ms(node) - 500) == 0
    assert await produce(node, timestamp_ms=now_ms(node) - 60_000) == ErrorCode.INVALID_TIMESTAMP


async def the_future_is_refused(node: Story) -> None:
    assert await produce(node, timestamp_ms=now_ms(node) + 500) == 0
    assert await produce(node, timestamp_ms=now_ms(node) + 60_000) == ErrorCode.INVALID_TIMESTAMP


async def batches_are_stored_as_zstd(node: Story) -> None:
    assert await produce(node, 1_000) == 0
    records = (await node.fetch("a", 0)).records
    assert isinstance(records, bytes | bytearray | memoryview)
    content = bytes(records)
    assert [header.attributes & 7 for _, header in iterate_headers(content)] == [4]


class Effect(NamedTuple):
    """A value of a topic's key and what it does; ``beside`` is in the file whatever is tested."""

    value: str
    seen: Callable[[Story], Awaitable[None]]
    beside: dict[str, str] = {}  # noqa: RUF012 - never changed
    partition_count: int = 1


EFFECTS = {
    "cleanup.policy": Effect("compact", keys_are_needed),
    "compression.type": Effect("zstd", batches_are_stored_as_zstd),
    "file.delete.delay.ms": Effect("4000", files_go_soon, QUICK_UPKEEP),
    "flush.messages": Effect("1", every_record_is_synced),
    "flush.ms": Effect(
        "3000",
        records_are_synced_in_time,
        {**QUICK_UPKEEP, "log.flush.interval.ms": str(2**63 - 1)},
    ),
    "index.interval.bytes": Effect("0", every_batch_has_an_index_entry),
    "max.message.bytes": Effect("200", large_batches_are_refused),
    "message.timestamp.after.max.ms": Effect("1000", the_future_is_refused),
    "message.timestamp.before.max.ms": Effect("1000", the_past_is_refused),
    "message.timestamp.type": Effect("LogAppendTime", the_broker_stamps),
    "retention.bytes": Effect(
        "1000000", much_goes, {**QUICK_UPKEEP, "log.segment.bytes": "1048576"}
    ),
    "retention.ms": Effect("1000", old_records_go, QUICK_UPKEEP),
    "segment.bytes": Effect("1048576", small_segments_roll),
    "segment.index.bytes": Effect("20", a_full_index_rolls),
    "segment.jitter.ms": Effect(
        str(7 * 24 * 3_600_000), segments_roll_at_different_ages, partition_count=12
    ),
    "segment.ms": Effect("1000", old_segments_roll),
}
"""By the topic's key; the broker's keys are its synonyms."""
EFFECTS_OF_UNITS = {
    "log.retention.hours": Effect("0", old_records_go, QUICK_UPKEEP),
    "log.retention.minutes": Effect("0", old_records_go, QUICK_UPKEEP),
}


async def set_dynamically(
    node: Story, resource_type: int, resource: str, name: str, value: str
) -> None:
    changed = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=resource,
        configs=[AlterableConfig(name=name, config_operation=0, value=value)],
    )
    response = await node.ask(IncrementalAlterConfigsRequest(resources=[changed]), 1)
    assert response.responses[0].error_code == 0, response
