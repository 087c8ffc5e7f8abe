"""Measures the lag of a mirror's flows: records of the source that the target has not committed.

It reads the committed progress from the target and the offsets from the source. It does not ask
the mirror's own process, so it also works if the mirror is not running. It writes nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import PartitionOffsets
from log_service.client.consumer.range_reader import read_range
from log_service.common.env import Env
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.mirror.flow import admin_of
from log_service.mirror.offsets_topic import read_progress
from log_service.mirror.progress import Progress
from log_service.mirror.settings import FlowSettings
from log_service.mirror.topic_plan import mirrored_topics
from log_service.records.batch import iterate_headers, iterate_records

MAX_LOOKED_AT = 8
"""Number of partitions of a topic whose next record is read for its timestamp.

They are the partitions with the largest lag.
"""
LOOK_MS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """The lag of one topic of a flow.

    ``records_behind`` counts source offsets below the last stable offset that are not mirrored. For
    transactional producers that includes markers. ``seconds_behind`` is the age of the oldest
    record that is not mirrored: 0.0 if there is none, None if no timestamp could be read.
    ``begun_count`` counts the partitions that have progress.
    ``lost_count`` counts offsets that retention removed before they were mirrored.
    """

    topic: str
    remote_topic: str
    partition_count: int
    begun_count: int
    records_behind: int
    seconds_behind: float | None
    lost_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLag:
    """The lag of one flow, topic by topic."""

    flow: str
    topics: tuple[TopicLag, ...]

    @property
    def records_behind(self) -> int:
        """The sum of ``records_behind`` of all topics."""
        return sum(each.records_behind for each in self.topics)

    @property
    def seconds_behind(self) -> float | None:
        """The largest ``seconds_behind`` of the topics, or None if one of them has None."""
        known = [each.seconds_behind for each in self.topics]
        return (
            max((each for each in known if each is not None), default=0.0)
            if None not in known
            else None
        )


async def measure_lag(
    flows: Sequence[FlowSettings], flow: FlowSettings, env: Env, timeout_ms: int | None = None
) -> FlowLag:
    """Return the present lag of ``flow``. ``timeout_ms`` limits each request to a cluster.

    ``flows`` are all enabled flows, which decide what ``flow`` must not mirror.

    Raises:
        KafkaError: a cluster cannot be reached, or refuses a request.
    """
    limit = {} if timeout_ms is None else {"default_api_timeout_ms": timeout_ms}
    async with (
        admin_of(flow.source, env, **limit) as source,
        admin_of(flow.target, env, **limit) as target,
    ):
        names, _ = mirrored_topics(flows, flow, [each.name for each in await source.list_topics()])
        progress = await read_progress(target, flow.offsets_topic, is_every_transaction_ended=False)
        ends = await source.describe_offsets(names) if names else {}
        topics = [
            await _topic_lag(
                source, flow, name, _of_topic(ends, name), progress, now_ms=env.clock.wall_ms()
            )
            for name in names
        ]
    return FlowLag(flow=flow.name, topics=tuple(topics))


def _of_topic(
    ends: Mapping[TopicPartition, PartitionOffsets], name: str
) -> dict[TopicPartition, PartitionOffsets]:
    return {where: each for where, each in ends.items() if where.topic == name}


async def _topic_lag(
    source: Admin,
    flow: FlowSettings,
    name: str,
    ends: Mapping[TopicPartition, PartitionOffsets],
    progress: Mapping[TopicPartition, Progress],
    *,
    now_ms: int,
) -> TopicLag:
    begun = {
        where: progress[where] for where, each in ends.items() if _is_of(progress.get(where), each)
    }
    positions = {
        where: max(
            begun[where].position if where in begun else each.log_start_offset,
            each.log_start_offset,
        )
        for where, each in ends.items()
    }
    behind = {
        where: max(each.last_stable_offset - positions[where], 0) for where, each in ends.items()
    }
    return TopicLag(
        topic=name,
        remote_topic=flow.remote_topic(name),
        partition_count=len(ends),
        begun_count=len(begun),
        records_behind=sum(behind.values()),
        seconds_behind=await _seconds_behind(source, positions, behind, now_ms),
        lost_count=sum(each.lost_count for each in begun.values()),
    )


def _is_of(progress: Progress | None, ends: PartitionOffsets) -> bool:
    """Return whether the progress is that of this topic, and not of a deleted topic of its name."""
    return progress is not None and progress.lineage.source_topic_id == str(ends.topic_id)


async def _seconds_behind(
    source: Admin,
    positions: Mapping[TopicPartition, int],
    behind: Mapping[TopicPartition, int],
    now_ms: int,
) -> float | None:
    """Return the age of the oldest record that is not mirrored yet.

    Only the ``MAX_LOOKED_AT`` partitions with the largest lag are looked at. Return 0.0 if all
    records are mirrored, and None if no timestamp can be read.
    """
    waiting = sorted(
        (where for where, count in behind.items() if count),
        key=lambda where: behind[where],
        reverse=True,
    )[:MAX_LOOKED_AT]
    if not waiting:
        return 0.0
    times_ms: list[int] = []
    for where in waiting:
        with suppress(KafkaError):
            # Retention was faster, or the batch cannot be read; the lag is reported without its
            # age.
            times_ms += (await _timestamps(source, where, positions[where]))[:1]
    return max(round((now_ms - min(times_ms)) / 1_000, 3), 0.0) if times_ms else None


async def _timestamps(source: Admin, where: TopicPartition, position: int) -> list[int]:
    """Return the timestamps of the records from ``position`` to the end of the batch around it."""
    return [
        record.timestamp
        async for chunk in read_range(source, where, position, position + 1, timeout_ms=LOOK_MS)
        for at, _ in iterate_headers(chunk.batches)
        for record in iterate_records(chunk.batches, at)
        if record.offset >= position and record.timestamp >= 0
    ]
