"""Positions as text, such as ``0:17,1:5``: the next offset to read by partition.

Clients keep such a text and send it back, as ``Last-Event-ID`` or as ``from``. A stream begins at
these offsets. The proxy itself keeps no positions.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from log_service.http.rest_proxy.errors import RestError

UNQUOTED_ZONE: Final = re.compile(r"(T[\d:.]+) (\d\d:?\d\d)")
"""A time whose ``+`` was not quoted in a URL. There a ``+`` means a blank."""
PAIRS: Final = re.compile(r"\d{1,10}:\d{1,19}(?:,\d{1,10}:\d{1,19})*")
MAX_CHARACTERS: Final = 8 << 10
MAX_OFFSET: Final = 2**63 - 1
USUAL: Final = "write earliest, latest, an offset, 0:17,1:5, or a time such as 2026-11-30T10:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The requested beginning of a stream. ``kind`` is earliest, latest, offset, pairs or time."""

    kind: str
    offset: int = 0
    time_ms: int = 0
    pairs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A requested offset that the log does not have, and the offset at which reading begins.

    The requested offset was removed, or is beyond the end.
    """

    partition: int
    asked_offset: int
    first_offset: int


def pairs_text(positions: Mapping[int, int]) -> str:
    """Return positions as text."""
    return ",".join(f"{partition}:{offset}" for partition, offset in positions.items())


def parse_start(text: str) -> Start:
    """Parse the beginning of a stream in ``from`` or ``Last-Event-ID``.

    Raises:
        RestError: 422, the text is not valid.
    """
    if text in {"earliest", "latest"}:
        return Start(kind=text)
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_OFFSET:
        return Start(kind="offset", offset=int(text))
    if len(text) <= MAX_CHARACTERS and PAIRS.fullmatch(text):
        split = [each.partition(":") for each in text.split(",")]
        pairs = {int(partition): int(offset) for partition, _, offset in split}
        if max(pairs.values()) <= MAX_OFFSET:
            return Start(kind="pairs", pairs=pairs)
    try:
        moment = datetime.fromisoformat(UNQUOTED_ZONE.sub(r"\1+\2", text))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        time_ms = round(moment.timestamp() * 1_000)
    except (ValueError, OverflowError) as error:
        raise RestError(422, f"from is {text[:60]!r}: {USUAL}.") from error
    if time_ms < 0:
        raise RestError(422, f"from is {text[:60]!r}: times are after 1970.")
    return Start(kind="time", time_ms=time_ms)


def first_positions(
    start: Start, logs: Mapping[int, tuple[int, int]], at_time: Mapping[int, int]
) -> tuple[dict[int, int], list[Gap]]:
    """Return the first offset to read of each partition, and the requested offsets not in the log.

    ``logs`` has the first offset and the end of each partition, ``at_time`` the offset at the
    requested time. A partition that is not in the client's positions is new to the client, and
    begins at its first record.
    """
    positions, gaps = dict[int, int](), list[Gap]()
    for partition, (first, end) in logs.items():
        wanted = {
            "earliest": first,
            "latest": end,
            "offset": start.offset,
            "time": at_time.get(partition, end),
            "pairs": start.pairs.get(partition, first),
        }[start.kind]
        is_named = start.kind == "offset" or partition in start.pairs
        position = positions[partition] = min(max(wanted, first), end)
        if is_named and wanted != position:
            gaps.append(Gap(partition=partition, asked_offset=wanted, first_offset=position))
    return positions, gaps
