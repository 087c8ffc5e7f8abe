"""The protocol of a source: it yields the new records after a position, in portions.

Each portion is sent and committed in one transaction. This module has values and a protocol, and
decides nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, sleep
from typing import Any, Protocol

from orchestration.log_client.protocol import LogClient, OutgoingRecord, TopicDescription
from orchestration.offsets.ranges import OffsetRange

Position = Mapping[str, Any]
"""The state that a source needs to continue: JSON values, in a form of its own."""

SETTLED_WITHIN_S = 120.0
"""Seconds to wait for open transactions, more than the timeout of the platform's own."""
SETTLED_POLL_S = 0.05
PORTION_RECORDS = 5_000
PORTION_BYTES = 8 << 20
"""The approximate size of one transaction. A larger record goes alone."""


class SourceError(RuntimeError):
    """A source cannot be read.

    The text says why and what to do. ``is_passing`` means that a retry may help.
    """

    def __init__(self, text: str, *, is_passing: bool = False) -> None:
        super().__init__(text)
        self.is_passing = is_passing


class LookTooLongError(SourceError):
    """A check for new records took too long, so it is unknown whether the source has any.

    Starting a run instead would take just as long.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Records and the position after them, which are committed in one transaction.

    ``finish`` is called after the commit, but a killed run may never call it. ``counts`` are
    numbers for the run's report, by label.
    """

    records: Sequence[OutgoingRecord]
    position: Position
    finish: Callable[[], None] | None = None
    counts: dict[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The inputs for reading a source: log service, target topic as it is now, and the time."""

    log: LogClient
    target: TopicDescription
    now: datetime


class Source(Protocol):
    """A source of records that can be read from a position on."""

    def is_wanting(self, position: Position | None, now: datetime) -> bool:
        """Return whether there may be new records after ``position``.

        :raises LookTooLongError: the check took too long.
        :raises SourceError: the source cannot be read.
        """
        ...

    def portions(
        self, position: Position | None, situation: Situation, note: Callable[[str], None]
    ) -> Iterator[Portion]:
        """Yield the new records after ``position``.

        The caller requests a portion after it has committed the previous one. ``note`` is called
        with lines for the run's log.

        :raises SourceError: the source cannot be read any further.
        """
        ...


def settled_ranges(
    log: LogClient, topic: str, *, within_s: float = SETTLED_WITHIN_S
) -> list[OffsetRange]:
    """Wait until all records up to the current end of a topic can be read, and return their ranges.

    Readers of committed records stop at the first open transaction of any producer. Records after
    it may be committed, and a source must not consider them missing. With ``within_s`` 0 do not
    wait, and return the ranges that can be read now.

    :raises SourceError: a transaction stays open for longer than ``within_s``.
    """
    asked = log.partition_offsets(topic)
    ends = {
        one.partition: one.high_watermark if within_s else one.last_stable_offset for one in asked
    }
    deadline_s = monotonic() + within_s
    while any(
        one.last_stable_offset < ends[one.partition] for one in asked if one.partition in ends
    ):
        if monotonic() > deadline_s:
            raise SourceError(
                f"a transaction in the topic {topic} is open for more than {within_s:.0f} s",
                is_passing=True,
            )
        sleep(SETTLED_POLL_S)
        asked = log.partition_offsets(topic)
    starts = {one.partition: one.log_start_offset for one in asked}
    found = (
        OffsetRange(partition=number, start=min(starts[number], end), end=end)
        for number, end in sorted(ends.items())
    )
    return [one for one in found if not one.is_empty]


def size_of(record: OutgoingRecord) -> int:
    """Return the approximate size of a record in bytes."""
    return (
        len(record.key or b"")
        + len(record.value or b"")
        + sum(len(name) + len(value or b"") for name, value in record.headers)
    )


def portioned(
    records: Iterator[tuple[OutgoingRecord, Any]],
) -> Iterator[tuple[list[OutgoingRecord], Any]]:
    """Cut records into portions of at most ``PORTION_RECORDS`` and ``PORTION_BYTES``.

    A larger record is a portion alone. Each record comes with the position after it. Each portion
    has the position of its last record.
    """
    portion: list[OutgoingRecord] = []
    size, place = 0, None
    for record, after in records:
        own = size_of(record)
        if portion and (len(portion) >= PORTION_RECORDS or size + own > PORTION_BYTES):
            yield portion, place
            portion, size = [], 0
        portion.append(record)
        size, place = size + own, after
    if portion:
        yield portion, place
