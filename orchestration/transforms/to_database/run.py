"""One run of a table in a database: open the writer, plan, read, compute, check, and commit.

Decides the order that keeps a run exact when it is killed at any moment. The writer is opened
first. From then on no older run can commit, so the progress, which is read after that, is final.
The dead letters are written before the commit, under a number that the commit names. So they count
from the same moment as the rows. The ledger in the lake is updated last. If a run is killed before
that, the next one updates the ledger. Knows no Dagster.
Invariant: each record up to the offsets in the database is in the table as the transform made it,
or a dead letter.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import CommitConflictError, TableSnapshot
from orchestration.log_client.protocol import TopicDescription
from orchestration.rows.latest import PLACE, Changes, KeyedTable, Replaced, newest
from orchestration.transforms.batch.batch import ComputedBatch, compute_batch, without_rejected
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.ledger import ledger
from orchestration.transforms.ledger.progress import Progress, Route, advanced
from orchestration.transforms.run.context import RunContext, TopicRunResult, TopicState
from orchestration.transforms.run.steps import (
    attempted,
    checked_result,
    dead_letter_rows,
    empty_result,
    origin_of,
    plan_next,
    read_planned,
)
from orchestration.transforms.to_database.declarations import DatabaseTable, not_storable
from orchestration.transforms.to_database.stores import Batch, Store, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """Runs a table in a database, given its declaration and the store that holds it."""

    declared: DatabaseTable
    store: Store

    def run(self, table: TopicTable, context: RunContext) -> TopicRunResult:
        """Read the next batch, and commit its result.

        ``table`` is the follower.

        :raises CommitConflictError: in every attempt another run was faster.
        :raises StoreError: the database refuses.
        :raises ProgressError, NotReadyError, TransformError, SchemaConflictError: nothing was
            committed. The text says what to do.
        """
        return attempted(context, lambda: self._attempt(table, context))

    def _attempt(self, table: TopicTable, context: RunContext) -> TopicRunResult:
        letters_snapshot = DeadLetters(context.lake).snapshot()
        with self.attempt(table, context) as attempt:
            return attempt.run(letters_snapshot)

    @contextmanager
    def attempt(self, table: TopicTable, context: RunContext) -> "Iterator[StoringAttempt]":
        """Open the writer, and yield an attempt that uses it.

        From then on no older run commits.

        :raises NotReadyError: there is no such topic.
        :raises CommitConflictError: another run is active.
        """
        source = context.log.describe_topic(table.topic.name)
        if source is None:
            raise NotReadyError(
                f"there is no topic {table.topic.name}: materialize topics/{table.topic.name},"
                " which creates it"
            )
        target = TopicDescription(
            topic=self.store.place, topic_id=self.store.dialect, partitions=0, replication_factor=0
        )
        route = Route(source=source, target=target, group_id="")
        with self.store.writer() as writer:
            yield StoringAttempt(
                work=self, table=table, context=context, route=route, writer=writer
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoringAttempt:
    """An attempt to read and commit a batch, while no other run can commit to the table."""

    work: Storing
    table: TopicTable
    context: RunContext
    route: Route
    writer: Writer

    def run(self, letters_snapshot: TableSnapshot) -> TopicRunResult:
        """Read the next batch and commit it.

        ``letters_snapshot`` was loaded before the writer was opened.
        """
        table, context, topic_id = self.table, self.context, self.route.source.topic_id
        letters = DeadLetters(context.lake)
        account, progress, state = self.start()
        for note in progress.notes:
            context.reporter.note(note)
        plan, held = plan_next(table, context, state)
        if plan.is_empty:
            return empty_result(state, plan)
        source, plan = read_planned(table, context, state, plan, held=held)
        try:
            computed = self.storable(compute_batch(context.session(), table, source, None))
            result = checked_result(table, context, source, state, computed)
            if result.failures:
                return result
            origin = origin_of(table, context, topic_id)
            rejected = dead_letter_rows(origin, source, computed.rejections, context.now())
        finally:
            source.release()
        log_starts = state.forgotten_below(plan.backlog)
        changes, keys = self.changes(computed, state, log_starts=log_starts)
        letters_snapshot = letters.cleaned(letters_snapshot, origin, account)
        attempt = letters.replace_pending(
            letters_snapshot, origin, plan.ranges, state.committed, rejected
        )
        batch = Batch(
            ranges=plan.ranges,
            leader_epochs=source.statistics.epochs_at(plan.ranges.ends()),
            letters=progress.letters if attempt is None else attempt,
            run_id=context.run_id,
            at=context.now(),
            rows=computed.rows if changes is None else changes.rows,
            changes=changes,
            keys=keys,
            log_starts=log_starts,
        )
        account = self.commit(batch, progress)
        return replace(
            result,
            version=account.version,
            backlog=plan.backlog,
            letters=rejected,
            changes=changes,
            sent={"target": self.work.store.place, "rows_written": batch.rows.num_rows},
        )

    def start(self) -> tuple[TableSnapshot, Progress, TopicState]:
        """Update the ledger, and return it with the database's progress and the table's state."""
        log = self.context.log.partition_offsets(self.table.topic.name)
        account, progress = self._follow([one.partition for one in log])
        topic_id = self.route.source.topic_id
        return (
            account,
            progress,
            TopicState(
                topic_id=topic_id, log=log, snapshot=account, committed=progress.checkpoints
            ),
        )

    def storable(self, computed: ComputedBatch) -> ComputedBatch:
        """Return ``computed``, and reject records whose rows or keys the database cannot hold."""
        keys, dialect, deletions = self.table.latest_by, self.work.store.dialect, computed.deletions
        found = {
            (one.partition, one.offset): one for one in not_storable(computed.rows, keys, dialect)
        }
        if deletions is not None:
            found = {
                (one.partition, one.offset): one for one in not_storable(deletions, keys, dialect)
            } | found
            deletions = without_rejected(deletions, tuple(found.values()))
        refused = tuple(found.values())
        rows = without_rejected(computed.rows, refused)
        return replace(
            computed, rows=rows, deletions=deletions, rejections=(*computed.rejections, *refused)
        )

    def changes(
        self,
        computed: ComputedBatch,
        state: TopicState,
        *,
        log_starts: Mapping[int, int],
        replaced: Replaced | None = None,
    ) -> tuple[Changes | None, pa.Table | None]:
        """Return the changes of a table with a key, and the keys of the batch or replay.

        Both are None for a table without a key. Deletions below ``log_starts`` are forgotten.

        :raises ProgressError: a replay cannot know the earlier value of a row.
        """
        if computed.deletions is None:
            return None, None
        names = [*self.table.latest_by, *PLACE]
        places = computed.rows.select(names).schema
        both = pa.concat_tables(
            [computed.rows.select(names), computed.deletions.select(names).cast(places)]
        )
        keys = (
            both.select(list(self.table.latest_by))
            .group_by(list(self.table.latest_by))
            .aggregate([])
        )
        rows, remembered = self.writer.held(
            keys, places, None if replaced is None else replaced.ranges
        )
        if replaced is not None:
            known = [
                one.select(keys.column_names).cast(keys.schema) for one in (rows.rows, remembered)
            ]
            keys = pa.concat_tables([keys, *known]).group_by(keys.column_names).aggregate([])
        changes = newest(
            computed.rows,
            computed.deletions,
            self.table.latest_by,
            KeyedTable(snapshot=rows, deletions=remembered),
            state.topic_id,
            log_starts=log_starts,
            replaced=replaced,
        )
        return changes, keys

    def _follow(self, partitions: list[int]) -> tuple[TableSnapshot, Progress]:
        """Update the ledger from the database, and return it with the database's progress."""
        return ledger.follow_group(
            self._ledger, self.route, partitions, self._read_progress, self.context.now()
        )

    def _ledger(self) -> TableSnapshot:
        text = (
            f"What {self.table.name} committed to {self.work.store.place}: a row per partition and"
            " transaction"
        )
        return ledger.open_ledger(self.context.lake, self.table.name, text)

    def _read_progress(self, _account: TableSnapshot) -> Progress:
        topic_id = self.route.source.topic_id
        found = self.writer.progress(topic_id)
        others = [one for one in found.topic_ids if one != topic_id]
        note = (
            f"topic {self.table.topic.name} was recreated: its id is now {topic_id} (the database"
            f" also knows {', '.join(others)}); reading starts at its log start"
        )
        notes = (note,) if others and not found.checkpoints else ()
        return Progress(
            checkpoints=found.checkpoints, letters=found.letters, notes=notes, run_id=found.run_id
        )

    def commit(self, batch: Batch, progress: Progress) -> TableSnapshot:
        """Commit ``batch`` to the database, then update the ledger.

        The ledger's snapshot is loaded before the commit, so that a slower run gets a conflict.
        """
        account = self._ledger()
        self.writer.commit(batch)
        ends = {} if batch.is_replay else batch.ranges.ends()
        after = replace(
            progress,
            checkpoints=advanced(progress.checkpoints, ends, ends, batch.leader_epochs),
            letters=batch.letters,
        )
        counts = Counter(batch.rows["_partition"].to_pylist())
        replayed = list(batch.ranges.spanning(batch.ranges)) if batch.is_replay else []
        entry = ledger.Entry(
            before=progress.checkpoints,
            records=counts,
            run_id=batch.run_id,
            at=batch.at,
            replayed=replayed,
        )
        try:
            return ledger.write(account, self.route, after, entry)
        except CommitConflictError:  # maintenance committed: update the ledger again
            known: Callable[[TableSnapshot], Progress] = partial(_known, after)
            return ledger.follow_group(
                self._ledger, self.route, list(after.checkpoints), known, batch.at
            )[0]


def _known(progress: Progress, _account: TableSnapshot) -> Progress:
    return progress
