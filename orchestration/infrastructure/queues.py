"""Queues as assets: shows the depth of a share group's queue in Dagster's UI (KIP-932).

The queue appears beside the topic that it reads. ``queue_asset`` is an asset that no run
materializes, because workers outside of Dagster empty the queue. ``queue_sensor`` asks the log
service for the depth of each queue and reports it as an observation of that asset, which the UI
plots. The depth is the queue's lag: the number of unfinished records. It includes those with lower
offsets than finished ones.

``decide_depths`` decides which depths are worth an observation, and the cursor remembers the
reported ones. If the depth of one queue cannot be read, the others still are, and the tick gives
the reason.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from orchestration.log_client.protocol import LogServiceError
from orchestration.resources.log_service import LogServiceResource
from orchestration.sensing.progress import Reported, is_due, read_cursor, stored
from orchestration.topics.spec import TopicSpec

QUEUE_PREFIX = "queues"
INTERVAL_S = 15
TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """A queue: the share group ``group_id`` reads ``topic``."""

    group_id: str
    topic: TopicSpec
    description: str = ""

    @property
    def asset_key(self) -> dg.AssetKey:
        """The key of the asset that shows the queue."""
        return dg.AssetKey([QUEUE_PREFIX, self.group_id])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDepth:
    """The depth of one partition of a queue.

    ``start_offset`` and ``depth`` are None until a worker has begun to read the partition.
    """

    partition: int
    start_offset: int | None
    depth: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """The depths of a queue's partitions at one time."""

    partitions: tuple[PartitionDepth, ...]

    @property
    def depth(self) -> int | None:
        """The number of unfinished records, None until a worker has begun to read any partition."""
        known = [one.depth for one in self.partitions if one.depth is not None]
        return sum(known) if known else None


def queue_asset(spec: QueueSpec) -> dg.AssetSpec:
    """Return the asset that shows a queue, downstream of its topic."""
    return dg.AssetSpec(
        key=spec.asset_key,
        deps=[spec.topic.asset_key],
        description=spec.description
        or f"What the share group {spec.group_id} has not done with yet of the topic"
        f" {spec.topic.name}",
        group_name=QUEUE_PREFIX,
        metadata={"tidelog/topic": spec.topic.name, "tidelog/group": spec.group_id},
    )


def queue_sensor(
    specs: Sequence[QueueSpec],
    *,
    name: str = "queue_depths",
    now_s: Callable[[], float] = time.time,
) -> dg.SensorDefinition:
    """Return the sensor that reports queues' depths. ``now_s`` returns the time in seconds."""

    @dg.sensor(
        name=name,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells how deep queues are: records that no worker is done with",
    )
    def watch_queues(
        context: dg.SensorEvaluationContext, log_service: LogServiceResource
    ) -> dg.SensorResult:
        found: dict[str, QueueDepth] = {}
        reasons: list[str] = []
        for spec in specs:
            try:
                found[spec.group_id] = look(log_service, spec)
            except LogServiceError as error:
                reasons.append(f"the queue {spec.group_id} cannot be looked at: {error}")
        due, reported = decide_depths(
            {group: each.depth for group, each in found.items()},
            read_cursor(context.cursor),
            now_s(),
        )
        events = [depth_event(spec, found[spec.group_id]) for spec in specs if spec.group_id in due]
        reasons += [] if events else ["no queue has changed"]
        return dg.SensorResult(
            asset_events=events,
            cursor=json.dumps(stored(reported)),
            skip_reason=dg.SkipReason("; ".join(reasons)) if reasons else None,
        )

    return watch_queues


def look(log_service: LogServiceResource, spec: QueueSpec) -> QueueDepth:
    """Return the current depth of a queue.

    :raises LogServiceError: the log service does not respond, or the group is not a share group.
    """
    with log_service.open_admin(timeout_ms=TIMEOUT_MS) as admin:
        offsets = admin.list_share_group_offsets(spec.group_id)
    mine = sorted(
        (where.partition, each) for where, each in offsets.items() if where.topic == spec.topic.name
    )
    return QueueDepth(
        partitions=tuple(
            PartitionDepth(partition=index, start_offset=each.start_offset, depth=each.lag)
            for index, each in mine
        )
    )


def decide_depths(
    depths: Mapping[str, int | None], reported: Mapping[str, Reported], now_s: float
) -> tuple[frozenset[str], dict[str, Reported]]:
    """Return the queues to report, and the reports to remember.

    A depth that changed is reported at most once per interval, and an empty queue at once.
    """
    fresh = {
        group: Reported(value=str(depth), at_s=now_s)
        for group, depth in depths.items()
        if depth is not None
        and is_due(reported.get(group), str(depth), now_s, is_urgent=depth == 0)
    }
    return frozenset(fresh), {**reported, **fresh}


def depth_event(spec: QueueSpec, found: QueueDepth) -> dg.AssetObservation:
    """Return the observation that reports a queue's depth."""
    rows = [
        dg.TableRecord(
            {"partition": one.partition, "start_offset": one.start_offset, "depth": one.depth}
        )
        for one in found.partitions
    ]
    return dg.AssetObservation(
        asset_key=spec.asset_key,
        description="Records that no worker is done with",
        metadata={
            "depth": found.depth or 0,
            "partitions_not_begun": sum(one.depth is None for one in found.partitions),
            "partitions": (
                dg.MetadataValue.table(rows) if rows else dg.MetadataValue.text("no partitions")
            ),
        },
    )
