"""Computes the offsets to which a reset moves a group. It changes nothing.

This module decides which offset each target means, as kafka-consumer-groups does. An offset outside
of the log is replaced by the nearest offset of the log, and the result notes that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import OffsetAndMetadata, OffsetSpec, PartitionOffsets
from log_service.common.errors import TidelogError
from log_service.common.types import TopicPartition

Offsets = dict[TopicPartition, int]


class ResetRefused(TidelogError):  # noqa: N818 - it names what happened
    """The offsets of a group cannot be moved to this target. Nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTarget:
    """The target of a reset: its kind, and the number that the kind needs.

    ``kind`` is one of earliest, latest, current, offset, shift, time, given.
    """

    kind: str
    value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition's committed offset before and after the reset.

    ``note`` tells how the target was adjusted, empty if it was not.
    """

    where: TopicPartition
    before: int | None
    after: int
    end: int
    note: str = ""


async def planned_moves(
    admin: Admin,
    target: ResetTarget,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    wanted: Mapping[TopicPartition, int],
) -> list[Move]:
    """Return the move of each partition in ``wanted``.

    For a target of the kind ``given``, ``wanted`` also has the new offset of each partition. Its
    numbers are ignored for other kinds.

    Raises:
        ResetRefused: a partition does not exist, or has no committed offset that could be shifted.
        KafkaError: the cluster refuses to list offsets.
    """
    topics = sorted({where.topic for where in wanted})
    bounds = await admin.describe_offsets(topics) if wanted else {}
    for where in wanted:
        if where not in bounds:
            text = f"there is no partition {where}; see: tidelog topics describe {where.topic}"
            raise ResetRefused(text)
    at_time = target.kind == "time"
    found = await _by_time(admin, list(wanted), target.value, bounds) if at_time else {}
    moves = []
    for where in sorted(wanted):
        before = committed[where].offset if where in committed else None
        start, end = bounds[where].log_start_offset, bounds[where].high_watermark
        after = {
            "earliest": start,
            "latest": end,
            "current": end if before is None else before,
            "offset": target.value,
            "shift": _shifted(where, before, target.value) if target.kind == "shift" else 0,
            "time": found.get(where, end),
            "given": wanted[where],
        }[target.kind]
        moves.append(_bounded(Move(where=where, before=before, after=after, end=end), start))
    return moves


def _shifted(where: TopicPartition, before: int | None, by: int) -> int:
    if before is None:
        text = f"the group has committed nothing for {where}: there is nothing to shift"
        raise ResetRefused(text)
    return before + by


async def _by_time(
    admin: Admin,
    wanted: Sequence[TopicPartition],
    time_ms: int,
    bounds: Mapping[TopicPartition, PartitionOffsets],
) -> Offsets:
    """Return each partition's first offset at or after a time, or its end if there is none."""
    found = await admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.at(time_ms)))
    return {
        where: each.offset if each.offset >= 0 else bounds[where].high_watermark
        for where, each in found.items()
    }


def _bounded(move: Move, start: int) -> Move:
    """Return a move whose new offset is within the log."""
    after = min(max(move.after, start), move.end)
    if after == move.after:
        return move
    note = f"{move.after} is {'below the start' if move.after < start else 'above the end'}"
    return Move(where=move.where, before=move.before, after=after, end=move.end, note=note)
