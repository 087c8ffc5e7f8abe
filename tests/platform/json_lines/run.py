"""One run of a table of JSON lines: plan, read, compute, check, write a file, and commit its name.

The lake table of the same name holds a row per file. Its commit also moves the offsets and names
the dead letters. A killed run leaves a file that the table does not name, and the next commit
removes it.
Invariant: the files that the table names hold each row of the committed records once.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from orchestration.dead_letters.table import DeadLetters, naming
from orchestration.lake.durable import sync
from orchestration.lake.range_commits import append_with_offsets
from orchestration.lake.tables import TableSnapshot
from orchestration.transforms.batch.batch import compute_batch
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.run.context import RunContext, TopicRunResult
from orchestration.transforms.run.steps import (
    attempted,
    checked_result,
    dead_letter_rows,
    empty_result,
    origin_of,
    plan_next,
    read_planned,
    read_state,
)

FILES = pa.schema([pa.field("file", pa.string())])
COMMITS = "commits"
"""The application transaction of every commit. Two commits from one version conflict."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A folder of JSON lines, and the table that follows the topic."""

    directory: Path
    follower: TopicTable

    def run(self, table: TopicTable, context: RunContext) -> TopicRunResult:
        """Read the next batch and commit it.

        :raises CommitConflictError: rivals were faster in every attempt.
        :raises ProgressError, NotReadyError, TransformError: nothing was committed.
        """
        return attempted(context, lambda: self._attempt(table, context))

    def _attempt(self, table: TopicTable, context: RunContext) -> TopicRunResult:
        letters = DeadLetters(context.lake)
        letters_snapshot = letters.snapshot()
        state = read_state(table, context)
        plan, held = plan_next(table, context, state)
        if plan.is_empty:
            return empty_result(state, plan)
        source, plan = read_planned(table, context, state, plan, held=held)
        try:
            batch = compute_batch(context.session(), table, source, None)
            result = checked_result(table, context, source, state, batch)
            if result.failures:
                return result
            origin = origin_of(table, context, state.topic_id)
            rejected = dead_letter_rows(origin, source, batch.rejections, context.now())
        finally:
            source.release()
        target = state.snapshot or context.lake.create(
            table.name, FILES, description=f"The files of {self.directory}"
        )
        letters_snapshot = letters.cleaned(letters_snapshot, origin, target)
        attempt = letters.replace_pending(
            letters_snapshot, origin, plan.ranges, state.committed, rejected
        )
        with self.written(target, batch.rows.to_pylist()) as name:
            committed = append_with_offsets(
                target,
                table_of([name]),
                plan.ranges,
                source.statistics.epochs_at(plan.ranges.ends()),
                expected=state.committed,
                transactions={**naming(state.topic_id, attempt), **next_commit(target)},
            )
        return TopicRunResult(
            kind="batch",
            state=state,
            ranges=plan.ranges,
            version=committed.version,
            backlog=plan.backlog,
            statistics=source.statistics,
            batch=batch,
            outcomes=result.outcomes,
            letters=rejected,
        )

    def rows(self, names: Sequence[str]) -> list[Row]:
        """Return the rows of the files ``names``."""
        return [
            json.loads(line)
            for name in names
            for line in (self.directory / name).read_text().splitlines()
        ]

    @contextmanager
    def written(self, target: TableSnapshot, rows: Sequence[Row]) -> Iterator[str]:
        """Write a file, and yield its name for the commit.

        Files that were there before, and that the committed version does not name, are removed.
        After the commit no other attempt can name them.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        found = [one.name for one in self.directory.glob("*.jsonl")]
        path = self.directory / f"{uuid4().hex}.jsonl"
        path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in rows))
        sync(path)
        sync(self.directory)
        yield path.name
        for name in {*found} - {*names_in(target)}:
            (self.directory / name).unlink(missing_ok=True)


def names_in(snapshot: TableSnapshot) -> list[str]:
    """Return the names of the files that a version of the table has."""
    return list(snapshot.dataset().to_table()["file"].to_pylist())


def table_of(names: Sequence[str]) -> pa.Table:
    """Return file names as rows of the table."""
    return pa.table({"file": pa.array(names, pa.string())})


def next_commit(snapshot: TableSnapshot) -> dict[str, int]:
    """Return the application transaction that numbers the next commit."""
    return {COMMITS: (snapshot.transaction_version(COMMITS) or 0) + 1}
