"""Plans the moves of ``tidelog groups reset``: reads offsets and targets, and changes nothing.

This module decides which partitions the options name, and which offset each option means. It reads
and writes the CSV of kafka-consumer-groups.
"""

import csv
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from log_service.cli.names import partitions_named
from log_service.cli.numbers import checked_size
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import OffsetAndMetadata
from log_service.cluster_operations.group_offsets import (
    Move,
    Offsets,
    ResetRefused,
    ResetTarget,
    planned_moves,
)
from log_service.common.types import TopicPartition

DURATION = re.compile(
    r"(?:P(?:(?P<days>\d+)D)?T?)?(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?",
    re.IGNORECASE,
)
MS_OF = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a reset: its kind, and the number or file that the kind needs.

    ``kind`` is one of earliest, latest, current, offset, shift, time, file.
    """

    kind: str
    value: int = 0
    path: Path | None = None


class DurationParameter(click.ParamType[int]):
    """Milliseconds, written like 90m, 1d, 2h30m or as ISO 8601 (PT2H30M)."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return milliseconds."""
        text = str(value).strip()
        found = DURATION.fullmatch(re.sub(r"^(\d+)d", r"P\1DT", text, flags=re.IGNORECASE))
        parts = (
            {unit: int(count) for unit, count in found.groupdict().items() if count}
            if found and text
            else {}
        )
        if not parts:
            self.fail(f"{text!r} is not a duration like 90m, 2h30m, 1d or PT2H30M", param, ctx)
        return checked_size(
            sum(count * MS_OF[unit] for unit, count in parts.items()), self, param, ctx
        )


async def chosen_partitions(
    admin: Admin,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    topics: Sequence[str],
    *,
    is_all: bool,
) -> list[TopicPartition]:
    """Return the named partitions, or all for which the group has committed an offset.

    Raises:
        UsageError: neither topics nor all partitions are requested, or both.
    """
    if is_all == bool(topics):
        raise click.UsageError(
            "say what to reset: --topic TOPIC[:0,2-4], or --all-topics for all that the group has"
            " committed"
        )
    return sorted(committed) if is_all else await partitions_named(admin, topics, "--topic")


async def planned(
    admin: Admin,
    target: Target,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    wanted: Offsets,
) -> list[Move]:
    """Return each partition's old and new offset.

    ``wanted`` has the partitions, and the offsets if a file names them.

    Raises:
        ClickException: a partition does not exist, or has no committed offset that could be
            shifted.
    """
    reset = ResetTarget(kind="given" if target.path else target.kind, value=target.value)
    try:
        return await planned_moves(admin, reset, committed, wanted)
    except ResetRefused as error:
        raise click.ClickException(str(error)) from error


def read_csv(path: Path) -> Offsets:
    """Read the offsets in a CSV file with lines of ``topic,partition,offset``.

    Raises:
        ClickException: a line has another form.
    """
    offsets: Offsets = {}
    with path.open(newline="", encoding="utf-8") as file:
        for number, line in enumerate(csv.reader(file), 1):
            if not line:
                continue
            try:
                topic, partition, offset = line
                offsets[TopicPartition(topic.strip(), int(partition))] = int(offset)
            except ValueError as error:
                raise click.ClickException(
                    f"{path}: line {number} is not topic,partition,offset: {','.join(line)!r}"
                ) from error
    return offsets


def as_csv(moves: Sequence[Move]) -> str:
    """Return moves as CSV text that ``read_csv`` can read."""
    return "".join(f"{move.where.topic},{move.where.partition},{move.after}\n" for move in moves)


def time_before_now_ms(duration_ms: int) -> int:
    """Return the time ``duration_ms`` before now, in milliseconds since 1970."""
    return max(0, time.time_ns() // 1_000_000 - duration_ms)
