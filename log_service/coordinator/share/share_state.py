"""The state that the share coordinator stores for one group on one partition (KIP-932).

This file decides how a stored state and a write are combined. It knows neither the log nor
requests.

Writes may arrive late or repeatedly. If two batches overlap, the batch with the higher delivery
count wins. If the counts are equal, the batch with the later state in a record's life wins. So the
order of writes does not matter.

Invariants: Batches are sorted, do not overlap, and do not begin below the start offset. Adjacent
batches with equal state and count are joined.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from uuid import UUID

from log_service.coordinator.share.window import StateBatch

UNKNOWN_START_OFFSET = -1
UNKNOWN_COUNT = -1
FIRST_LEADER_EPOCH = 0
"""The leader epoch of a state that no leader has read yet. No leader has a lower epoch."""
NO_EPOCH = -1
"""The epoch in a request whose epoch is not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareKey:
    """The identity of a share state: one group on one partition."""

    group_id: str
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """The state of one partition of one group.

    ``delivery_complete_count`` is -1 if no leader has reported the count (KIP-1226).
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN_COUNT
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    batches: tuple[StateBatch, ...] = ()


def combined(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Combine batches that may overlap. The part below ``start_offset`` is dropped."""
    waiting = sorted(
        (
            max(each.first_offset, start_offset),
            -each.delivery_count,
            -each.delivery_state,
            each.last_offset,
        )
        for each in batches
        if each.last_offset >= start_offset
    )
    result: list[StateBatch] = []
    covering: list[tuple[int, int, int]] = []
    index = position = 0
    while index < len(waiting) or covering:
        if not covering:
            position = max(position, waiting[index][0])
        while index < len(waiting) and waiting[index][0] <= position:
            heappush(covering, waiting[index][1:])
            index += 1
        while covering and covering[0][2] < position:
            heappop(covering)
        if not covering:
            continue
        count, state, last = covering[0]
        if index < len(waiting):
            last = min(last, waiting[index][0] - 1)
        _join(
            result,
            StateBatch(
                first_offset=position,
                last_offset=last,
                delivery_state=-state,
                delivery_count=-count,
            ),
        )
        position = last + 1
    return tuple(result)


def _join(result: list[StateBatch], new: StateBatch) -> None:
    if result:
        last = result[-1]
        says_the_same = (last.delivery_state, last.delivery_count) == (
            new.delivery_state,
            new.delivery_count,
        )
        if says_the_same and last.last_offset + 1 == new.first_offset:
            new = StateBatch(
                first_offset=result.pop().first_offset,
                last_offset=new.last_offset,
                delivery_state=new.delivery_state,
                delivery_count=new.delivery_count,
            )
    result.append(new)
