"""The commits in a table's transaction log: their offset ranges, pace and time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RANGE = re.compile(r"(\d+):\[(\d+),(\d+)\)")
PACE_WINDOW_MS = 60_000
SHOWN_RANGES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit of a table.

    ``ranges`` are partition, start and end, the end exclusive. With ``is_replay`` the commit
    replaced the rows of these ranges, and no checkpoint moved. ``run_id`` is empty if no run of
    Dagster committed.
    """

    version: int
    committed_ms: int
    operation: str
    topic: str = ""
    ranges: Sequence[Sequence[int]] = ()
    range_count: int = 0
    offset_count: int = 0
    is_replay: bool = False
    run_id: str = ""


def ranges_in(text: str) -> list[tuple[int, int, int]]:
    """Return the ranges that a commit's note names, as ``OffsetRange`` writes them.

    >>> ranges_in("0:[0,5) 1:[7,9)")
    [(0, 0, 5), (1, 7, 9)]
    """
    return [(int(each[0]), int(each[1]), int(each[2])) for each in RANGE.findall(text)]


def commit_of(entry: Mapping[str, Any]) -> Commit:
    """Return a commit from an entry of a Delta table's history."""
    replay = str(entry.get("tidelog.replay") or "")
    found = ranges_in(replay or str(entry.get("tidelog.ranges") or ""))
    return Commit(
        version=int(entry.get("version", 0)),
        committed_ms=int(entry.get("timestamp", 0)),
        operation=str(entry.get("operation", "")),
        topic=str(entry.get("tidelog.topic") or ""),
        ranges=found[:SHOWN_RANGES],
        range_count=len(found),
        offset_count=sum(end - start for _, start, end in found),
        is_replay=bool(replay),
        run_id=str(entry.get("tidelog.run_id") or ""),
    )


def pace_of(commits: Sequence[Commit], now_ms: int) -> float | None:
    """Return the offsets per second committed in the last minute, None if no commit is known."""
    new = [each for each in commits if not each.is_replay and each.offset_count]
    if not new:
        return None
    since_ms = now_ms - PACE_WINDOW_MS
    count = sum(each.offset_count for each in new if each.committed_ms >= since_ms)
    return round(count * 1_000 / PACE_WINDOW_MS, 3)
