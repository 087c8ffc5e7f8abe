"""How far groups have read: their positions, and their lags.

A few groups are described at the same time, within a deadline. A group that cannot be read has no
positions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import GroupListing, ItemsFailed, PartitionOffsets
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition
from log_service.http.console.pages.groups.view import SHARE

GROUPS_AT_ONCE = 8
LAG_TIMEOUT_S = 10.0
MAX_TOPICS = 200
"""The most topics whose offsets are requested."""

Ends = Mapping[TopicPartition, PartitionOffsets]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The positions of a group by partition. Those of a queue (share group) are its start offsets.

    ``queue_lag`` is the lag of a queue as the cluster counts it. It is None for other groups,
    and if it is unknown.
    """

    positions: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    queue_lag: int | None = None

    def lag(self, ends: Ends) -> int | None:
        """Return the lag of the group, None if no end offset is known.

        Without a lag from the cluster, it counts only partitions whose end offset is known.
        """
        if self.queue_lag is not None:
            return self.queue_lag
        behind = [
            max(0, ends[where].high_watermark - position)
            for where, position in self.positions.items()
            if position is not None and where in ends
        ]
        return sum(behind) if behind else None


async def read_progress(admin: Admin, groups: Iterable[GroupListing]) -> dict[str, Progress]:
    """Return how far each group has read, by group id.

    A group that was just deleted has no positions.
    """
    found: dict[str, Progress] = {}
    limiter = trio.CapacityLimiter(GROUPS_AT_ONCE)

    async def read(group: GroupListing) -> None:
        async with limiter:
            try:
                found[group.group_id] = await _progress(admin, group)
            except KafkaError:
                found[group.group_id] = Progress()

    async with trio.open_nursery() as nursery:
        for group in groups:
            nursery.start_soon(read, group)
    return dict(sorted(found.items()))


async def _progress(admin: Admin, group: GroupListing) -> Progress:
    if group.group_type != SHARE:
        committed = await admin.list_group_offsets(group.group_id)
        return Progress(positions={where: each.offset for where, each in committed.items()})
    queue = await admin.list_share_group_offsets(group.group_id)
    lags = [each.lag for each in queue.values() if each.lag is not None]
    return Progress(
        positions={where: each.start_offset for where, each in queue.items()},
        queue_lag=sum(lags) if lags else None,
    )


async def read_ends(admin: Admin, topics: Sequence[str]) -> Ends:
    """Return first and end offsets of the partitions of those topics that this person may see."""
    if not topics:
        return {}
    try:
        return await admin.describe_offsets(topics, is_leader_awaited=False)
    except ItemsFailed as error:
        return dict(error.results)


async def read_lags(admin: Admin, groups: Sequence[GroupListing]) -> dict[str, int | None]:
    """Return the lag of each group by id. It is None if it is not known within the deadline."""
    lags: dict[str, int | None] = dict.fromkeys([each.group_id for each in groups])
    with trio.move_on_after(LAG_TIMEOUT_S):
        found = await read_progress(admin, groups)
        topics = sorted({where.topic for each in found.values() for where in each.positions})
        ends = await read_ends(admin, topics[:MAX_TOPICS])
        lags |= {group_id: each.lag(ends) for group_id, each in found.items()}
    return lags
