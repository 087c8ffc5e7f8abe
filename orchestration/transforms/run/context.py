"""The inputs and the results of a run of any kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from orchestration.dead_letters.fixes import At
from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.log_client.protocol import LogClient
from orchestration.offsets.byte_limits import DEFAULT_LIMITS, ByteLimits
from orchestration.offsets.planning import Checkpoint, PartitionOffsets
from orchestration.offsets.ranges import OffsetRanges
from orchestration.quality.suites import Outcome
from orchestration.rows.latest import Changes
from orchestration.spark.source import BatchStatistics
from orchestration.transforms.batch.batch import ComputedBatch
from orchestration.transforms.batch.reading import ReadAhead

COUNTS_OTHERS = "counts_other_topics"
"""The application transaction that marks a table of aggregates with counts of another topic.

That may be a deleted topic of the same name.
"""
NO_FIXES: Mapping[At, bytes | None] = MappingProxyType({})


class Reporter(Protocol):
    """Receives the reports of a run."""

    def note(self, sentence: str) -> None:
        """Report a sentence for a person."""
        ...

    def pin(self, kind: str, ranges: OffsetRanges) -> None:
        """Report the ranges that the run is going to read, before it reads them.

        ``kind`` is "batch" for new records, and "replay" for committed ones.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The context of a run.

    ``session`` opens Spark on its first call, so that a run without records needs none.
    """

    log: LogClient
    lake: Lake
    session: Callable[[], Any]
    reporter: Reporter
    run_id: str
    records_per_run: int
    arrow_records: int
    commit_attempts: int
    byte_limits: ByteLimits = DEFAULT_LIMITS
    scratch: Path | None = None
    is_loss_accepted: bool = False
    ahead: ReadAhead | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """A topic, and a table's progress in it, read at the start of an attempt."""

    topic_id: str
    log: tuple[PartitionOffsets, ...]
    snapshot: TableSnapshot | None
    committed: Mapping[int, Checkpoint]

    @property
    def high_watermarks(self) -> dict[int, int]:
        """Return the high watermark of each partition."""
        return {one.partition: one.high_watermark for one in self.log}

    def forgotten_below(self, backlog: int) -> dict[int, int]:
        """Return, by partition, the offset below which deletions need not be remembered any more.

        A table that keeps the newest row of each key remembers deletions. ``backlog`` is the number
        of offsets that the run leaves. They may hold an older record of a key that another
        partition has deleted. So no deletion is forgotten before they are read.
        """
        return {} if backlog else {one.partition: one.log_start_offset for one in self.log}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRunResult:
    """The result of a run.

    If ``version`` is None, nothing was committed, because there was nothing new, or a check forbade
    it. ``row_count`` is of the whole table after the commit. ``letters`` are the rows of the dead
    letters that the commit made valid. ``changes`` are set for a table that keeps the newest row of
    each key. ``sent`` has the counts of a transform to a topic by label.
    """

    kind: str
    state: TopicState
    ranges: OffsetRanges
    version: int | None
    backlog: int = 0
    statistics: BatchStatistics | None = None
    batch: ComputedBatch | None = None
    outcomes: tuple[Outcome, ...] = ()
    failures: tuple[str, ...] = ()
    row_count: int | None = None
    letters: pa.Table | None = None
    changes: Changes | None = None
    sent: Mapping[str, int | str] | None = None

    @property
    def next_offsets(self) -> dict[int, int]:
        """Return the checkpoints after the run, by partition.

        A replay, or a run without a commit, moves none.
        """
        before = {partition: one.next_offset for partition, one in self.state.committed.items()}
        return (
            before
            if self.version is None or self.kind == "replay"
            else {**before, **self.ranges.ends()}
        )

    @property
    def awaited(self) -> dict[tuple[str, int], int]:
        """Return, by topic and partition, the offset at which the next new record would be."""
        return awaited_of(self.ranges.topic, self.state.log, self.next_offsets)


def awaited_of(
    topic: str, log: Sequence[PartitionOffsets], next_offsets: Mapping[int, int]
) -> dict[tuple[str, int], int]:
    """Return, by topic and partition, the offset of the next record to read.

    It is the checkpoint in ``next_offsets``, or the log start offset of a partition without one.
    """
    return {
        (topic, one.partition): next_offsets.get(one.partition, one.log_start_offset) for one in log
    }
