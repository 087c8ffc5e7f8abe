"""A replay of a table of aggregates: computes all groups anew and replaces them in one commit.

A group does not know which part of its values came from a range, so a range cannot be replayed
alone. Reads the records piece by piece, as runs do, and merges each piece into groups in memory,
with the dead letters. The table keeps the old groups until the commit. No checkpoint moves. A
killed rebuild has changed nothing. If a run of the table commits meanwhile, the rebuild reads the
added records and tries again.
Invariant: the groups are those of all records below the checkpoint, each counted once, by today's
function and rules.
"""

from dataclasses import dataclass, field, replace

import pyarrow as pa

from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.table import ENVELOPE, DeadLetters, Origin, Rejection, naming
from orchestration.lake.tables import TableSnapshot
from orchestration.offsets.ranges import OffsetRange, OffsetRanges, outside
from orchestration.quality.suites import Outcome
from orchestration.rows.aggregates import accumulated
from orchestration.rows.upserts import replace_groups
from orchestration.spark.source import BatchStatistics
from orchestration.transforms.batch.batch import ComputedBatch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.replay.pieces import pieces, read_held, rest_of
from orchestration.transforms.replay.plan import counted_ranges, held_of
from orchestration.transforms.run.context import RunContext, TopicRunResult, TopicState
from orchestration.transforms.run.steps import (
    attempted,
    dead_letter_rows,
    letters_that_stay,
    origin_of,
    read_state,
)
from orchestration.transforms.to_lake.run import checked_batch


@dataclass(slots=True)
class Rebuild:
    """Groups that are computed anew, with counts and dead letters of the records read so far."""

    table: TopicTable
    context: RunContext
    topic_id: str
    groups: pa.Table | None = None
    done: list[OffsetRange] = field(default_factory=list)
    letters: list[pa.Table] = field(default_factory=list)
    staying: list[pa.Table] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    violations: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    filtered: int = 0
    records: int = 0
    size_bytes: int = 0
    newest_ms: int | None = None

    def run(self) -> TopicRunResult:
        """Read all counted records, and replace the groups.

        :raises ProgressError: neither log nor archive holds all counted records.
        :raises NotReadyError: table or topic were created anew meanwhile.
        :raises CommitConflictError: in every attempt another writer was faster.
        """
        return attempted(self.context, self._attempt)

    def _attempt(self) -> TopicRunResult:
        table, context = self.table, self.context
        letters = DeadLetters(context.lake)
        letters_snapshot = letters.snapshot()
        state = read_state(table, context)
        if state.snapshot is None or state.topic_id != self.topic_id:
            raise NotReadyError(
                f"the table {table.name} or its topic {table.topic.name} was made anew while its"
                " groups were"
            )
        ranges = counted_ranges(table, context, held_of(table, context, state), state)
        left = replace(ranges, ranges=tuple(outside(ranges, self.done)))
        for piece in pieces(left, table.records_per_run or context.records_per_run):
            while not (still := rest_of(piece, self.done)).is_empty:
                refused = self._take(state, still)
                if refused is not None:
                    return refused
        assert self.groups is not None
        origin = self._origin()
        cleaned = letters.cleaned(letters_snapshot, origin, state.snapshot)
        rejected = pa.concat_tables([ENVELOPE.empty_table(), *self.letters])
        attempt = letters.begin_replay(
            cleaned, origin, ranges, pa.concat_tables([rejected, *self.staying])
        )
        committed = replace_groups(
            state.snapshot,
            self.groups,
            notes={"replay": str(ranges), "topic": ranges.topic, "run_id": context.run_id},
            transactions=naming(state.topic_id, attempt),
        )
        if attempt is not None:
            letters.settle_replay(origin, ranges, attempt)
        return self._result(state, ranges, committed, rejected)

    def _take(self, state: TopicState, piece: OffsetRanges) -> TopicRunResult | None:
        """Read a piece, as far as the limits of a run allow, and merge it.

        Return a result with the failures that forbid the commit, if there are any.
        """
        table, context = self.table, self.context
        fixes = Fixes(context.lake).of(table.name, state.topic_id)
        source = read_held(
            table, context, held_of(table, context, state), piece, fixes=fixes, is_whole=False
        )
        piece = source.ranges
        try:
            forgiven = DeadLetters(context.lake).places(table.name, state.topic_id)
            result = checked_batch(table, context, source, state, None, forgiven=forgiven)
            if result.failures:
                return replace(result, kind="replay")
            assert result.batch is not None
            self.letters.append(
                dead_letter_rows(self._origin(), source, result.batch.rejections, context.now())
            )
            self.staying.append(letters_that_stay(self._origin(), context, source, piece))
        finally:
            source.release()
        self.groups = accumulated(
            result.batch.rows, self.groups, table.aggregate_by, table.aggregates
        )
        self.done += piece
        self._count(result.batch, source.statistics, result.outcomes)
        return None

    def _count(
        self, batch: ComputedBatch, statistics: BatchStatistics, outcomes: tuple[Outcome, ...]
    ) -> None:
        self.rejections += batch.rejections
        self.filtered += batch.filtered
        for name, count in batch.violations.items():
            self.violations[name] = self.violations.get(name, 0) + count
        for one in outcomes:  # an unmet outcome of one piece replaces the met ones of others
            if self.outcomes.setdefault(one.expectation.check_name, one).is_met:
                self.outcomes[one.expectation.check_name] = one
        self.records += statistics.records
        self.size_bytes += statistics.bytes
        self.newest_ms = max(
            (one for one in (self.newest_ms, statistics.newest_timestamp_ms) if one is not None),
            default=None,
        )

    def _origin(self) -> Origin:
        return origin_of(self.table, self.context, self.topic_id)

    def _result(
        self, state: TopicState, ranges: OffsetRanges, committed: TableSnapshot, letters: pa.Table
    ) -> TopicRunResult:
        """Return the result for Dagster's events. Its rows are the groups."""
        statistics = BatchStatistics(
            records=self.records,
            bytes=self.size_bytes,
            newest_timestamp_ms=self.newest_ms,
            leader_epochs={},
            last_offsets={},
        )
        batch = ComputedBatch(
            rows=self.groups,
            rejections=tuple(self.rejections),
            violations=self.violations,
            filtered=self.filtered,
        )
        return TopicRunResult(
            kind="replay",
            state=state,
            ranges=ranges,
            version=committed.version,
            statistics=statistics,
            batch=batch,
            outcomes=tuple(self.outcomes.values()),
            row_count=committed.row_count,
            letters=letters,
        )
