"""One run of a transform to a topic: fence older runs, plan, read, compute, check, and send.

Decides the order that keeps a run exact when it is killed at any moment. The sender is opened
first. From then on no older run can commit, and the open transaction of a killed run is aborted. So
the group's offsets, which are read after that, are final. Everything is computed and checked before
the first transaction begins, so that a transaction lasts no longer than sending takes. The dead
letters are written before it, under a number that the offsets' note names, and count from the same
moment as the records. The ledger is updated last. Knows no Dagster.
Invariant: for readers of committed records, each record of the source up to the group's offsets has
become the rows of the transform, once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.table import DeadLetters, Rejection
from orchestration.lake.tables import CommitConflictError, TableSnapshot
from orchestration.log_client.protocol import LogServiceError, Sender
from orchestration.offsets.planning import BatchPlan
from orchestration.offsets.ranges import OffsetRanges, Places
from orchestration.topics.spec import reconcile
from orchestration.transforms.batch.batch import (
    Batch,
    ComputedBatch,
    compute_batch,
    without_rejected,
)
from orchestration.transforms.batch.deletions import is_tombstone
from orchestration.transforms.batch.isolation import NOTHING
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import NotReadyError
from orchestration.transforms.ledger import ledger
from orchestration.transforms.ledger.progress import (
    Progress,
    Route,
    advanced,
    decide_progress,
    note_of,
    offsets_to_commit,
)
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
from orchestration.transforms.to_topic import outgoing
from orchestration.transforms.to_topic.declarations import TopicTransform

TRANSACTION_BYTES = 16 << 20
"""Most bytes of one transaction, except for the rows of one more record.

At 1 MB/s, sending takes a quarter of the time that a transaction may take.
"""
NO_KEY = "the value is null, and so is the key: a tombstone deletes nothing without a key"
TOMBSTONE_RULE = "tombstone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Runs a transform: holds its declaration, its group, and the open sender."""

    transform: TopicTransform
    group_id: str
    sender: Sender
    is_memory_trusted: bool = False
    transaction_bytes: int = TRANSACTION_BYTES

    def run(self, table: TopicTable, context: RunContext) -> TopicRunResult:
        """Read the next batch, and send and commit its result.

        ``table`` is the transform's own.

        :raises SenderFencedError: another run took over.
        :raises CommitConflictError: in every attempt somebody changed the group's offsets.
        :raises ProgressError, NotReadyError, TransformError, SchemaConflictError: nothing was sent.
            The text says what to do.
        """
        return attempted(context, lambda: _attempt(self, table, context))


def _attempt(work: Sending, table: TopicTable, context: RunContext) -> TopicRunResult:
    letters = DeadLetters(context.lake)
    letters_snapshot = letters.snapshot()
    route = described_route(work, context)
    log = context.log.partition_offsets(route.source.topic)
    partitions = [one.partition for one in log]
    account, progress = followed_ledger(work, context, route, partitions)
    for note in progress.notes:
        context.reporter.note(note)
    state = TopicState(
        topic_id=route.source.topic_id, log=log, snapshot=account, committed=progress.checkpoints
    )
    plan, held = plan_next(table, context, state)
    if plan.is_empty:
        _remind(work, context, route, account, progress)
        return empty_result(state, plan)
    source, plan = read_planned(
        table,
        context,
        state,
        plan,
        held=held,
        fixes=Fixes(context.lake).of(table.name, state.topic_id),
    )
    try:
        computed, rows = computed_batch(work, table, context, source)
        result = checked_result(table, context, source, state, computed)
        if result.failures:
            return result
        origin = origin_of(table, context, state.topic_id)
        rejected = dead_letter_rows(origin, source, computed.rejections, context.now())
    finally:
        source.release()
    validate_unmoved(work, context, route, partitions, progress)
    letters_snapshot = letters.cleaned(letters_snapshot, origin, account)
    attempt = letters.replace_pending(
        letters_snapshot, origin, plan.ranges, state.committed, rejected
    )
    batch = _Batch(
        plan=plan, rows=rows, leader_epochs=source.statistics.epochs_at(plan.ranges.ends())
    )
    account, transactions = _send(
        work,
        context,
        route,
        progress if attempt is None else replace(progress, letters=attempt),
        batch,
    )
    sent = sent_counts(route, batch.rows, transactions)
    return replace(
        result, version=account.version, backlog=plan.backlog, letters=rejected, sent=sent
    )


def sent_counts(route: Route, rows: pa.Table, transactions: int) -> dict[str, int | str]:
    """Return counts of the sent ``rows`` (``outgoing.OUTGOING``) by label."""
    return {
        "records_sent": rows.num_rows,
        "tombstones": rows["value"].null_count,
        "transactions": transactions,
        "target": route.target.topic,
    }


def computed_batch(
    work: Sending,
    table: TopicTable,
    context: RunContext,
    source: Batch,
    *,
    forgiven: Places = NOTHING,
) -> tuple[ComputedBatch, pa.Table]:
    """Return the function's result, and the rows to be sent, in order.

    The rows are those of the result and forwarded tombstones. Records at the places ``forgiven``
    are dead letters already, so the function may throw on them again.
    """
    computed = compute_batch(context.session(), table, source, None, forgiven=forgiven)
    rows, own = outgoing.split(computed.rows)
    limit = _size_limit(work, context)
    refused = outgoing.not_sendable(rows, own, limit)
    forwarded, rejections = _forwarded(
        work.transform, source, (*computed.rejections, *refused), limit
    )
    sent = outgoing.in_order(without_rejected(own, refused), forwarded)
    return replace(computed, rows=without_rejected(rows, refused), rejections=rejections), sent


def _size_limit(work: Sending, context: RunContext) -> outgoing.SizeLimit:
    """Return the size limit of the target's records.

    If the target's configs may not be read, their defaults are assumed.
    """
    target = work.transform.target.name
    configs: Mapping[str, str] = {}
    with suppress(LogServiceError):
        configs = context.log.topic_configs(target)
    return outgoing.size_limit(target, configs, work.sender.max_record_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """The rows to send (``outgoing.OUTGOING``, in order) and the plan that they came from."""

    plan: BatchPlan
    rows: pa.Table
    leader_epochs: Mapping[int, int]

    @property
    def ranges(self) -> OffsetRanges:
        return self.plan.ranges


def described_route(work: Sending, context: RunContext) -> Route:
    """Return the descriptions of both topics. A missing target is created.

    Otherwise the producer would create it, with other configs than the declared ones.
    """
    transform = work.transform
    source = context.log.describe_topic(transform.source.name)
    if source is None:
        raise NotReadyError(
            f"there is no topic {transform.source.name}: materialize"
            f" topics/{transform.source.name}, which creates it"
        )
    target = context.log.describe_topic(transform.target.name)
    if target is None:
        context.reporter.note(
            f"topic {transform.target.name}: {reconcile(context.log, transform.target).summary}"
        )
        target = context.log.describe_topic(transform.target.name)
    if target is None:
        raise LogServiceError(f"the topic {transform.target.name} was created and is not there yet")
    return Route(source=source, target=target, group_id=work.group_id)


def followed_ledger(
    work: Sending, context: RunContext, route: Route, partitions: Sequence[int]
) -> tuple[TableSnapshot, Progress]:
    """Update the ledger from the group, and return it with the group's progress."""

    def load() -> TableSnapshot:
        text = (
            f"What {work.transform.name} sent to the topic {route.target.topic}: a row per"
            " partition and transaction"
        )
        return ledger.open_ledger(context.lake, work.transform.name, text)

    return ledger.follow_group(
        load,
        route,
        partitions,
        partial(read_progress, work, context, route, partitions),
        context.now(),
    )


def read_progress(
    work: Sending,
    context: RunContext,
    route: Route,
    partitions: Sequence[int],
    account: TableSnapshot,
) -> Progress:
    """Return the group's progress, if it agrees with ``account``, the ledger.

    :raises ProgressError: the offsets belong to another transform, or the ledger has offsets that
        the group has lost.
    """
    committed = context.log.committed_offsets(route.group_id, route.source.topic, partitions)
    remembered = account.checkpoints(route.source.topic_id, partitions)
    return decide_progress(route, committed, remembered, is_memory_trusted=work.is_memory_trusted)


def validate_unmoved(
    work: Sending, context: RunContext, route: Route, partitions: Sequence[int], progress: Progress
) -> None:
    """Check, before anything is written, that the group's offsets have not changed meanwhile.

    A person may have set them.

    :raises CommitConflictError: somebody changed the offsets.
    """
    now = read_progress(
        work, context, route, partitions, ledger.open_ledger(context.lake, work.transform.name, "")
    )
    if now.checkpoints != progress.checkpoints:
        raise CommitConflictError(f"somebody moved the offsets of the group {route.group_id}")


def _send(
    work: Sending, context: RunContext, route: Route, progress: Progress, batch: _Batch
) -> tuple[TableSnapshot, int]:
    """Send ``batch`` in as many transactions as its size needs.

    Return the ledger afterwards, and the number of transactions.
    """
    parts = outgoing.cut(batch.rows, batch.ranges, work.transaction_bytes)
    note = note_of(route, progress.letters, context.run_id)
    whole = batch.ranges.ends()
    for part in parts:
        rows = batch.rows.slice(part.start, part.end - part.start)
        after = replace(
            progress,
            checkpoints=advanced(progress.checkpoints, part.ends, whole, batch.leader_epochs),
        )
        account = ledger.open_ledger(context.lake, work.transform.name, "")
        work.sender.send(
            route.target.topic,
            outgoing.outgoing_records(rows),
            group_id=route.group_id,
            source=route.source.topic,
            offsets=offsets_to_commit(after.checkpoints, note),
        )
        counts = Counter(rows["_partition"].to_pylist())
        entry = ledger.Entry(
            before=progress.checkpoints, records=counts, run_id=context.run_id, at=context.now()
        )
        try:
            account = ledger.write(account, route, after, entry)
        except CommitConflictError:  # maintenance, or an older run that is fenced, committed
            account, _ = followed_ledger(work, context, route, list(after.checkpoints))
        progress = after
    return account, len(parts)


def _remind(
    work: Sending, context: RunContext, route: Route, account: TableSnapshot, progress: Progress
) -> None:
    """If the last commit of the offsets is old, commit them again in a transaction of their own.

    Otherwise the cluster would forget them.
    """
    if not progress.checkpoints or not ledger.is_reminder_due(account, context.now()):
        return
    note = note_of(route, progress.letters, context.run_id)
    offsets = offsets_to_commit(progress.checkpoints, note)
    work.sender.send(
        route.target.topic, (), group_id=route.group_id, source=route.source.topic, offsets=offsets
    )
    entry = ledger.Entry(
        before=progress.checkpoints, records={}, run_id=context.run_id, at=context.now()
    )
    ledger.write(account, route, progress, entry)
    context.reporter.note(
        f"reminded the group {route.group_id} of its offsets, which the cluster would forget"
        " otherwise"
    )


def _forwarded(
    transform: TopicTransform,
    source: Batch,
    rejections: Sequence[Rejection],
    limit: outgoing.SizeLimit,
) -> tuple[pa.Table, tuple[Rejection, ...]]:
    """Return the tombstones to forward, and the rejections except those of forwarded tombstones."""
    found = [one for one in rejections if transform.is_forwarding_tombstones and is_tombstone(one)]
    if not found:
        return outgoing.OUTGOING.empty_table(), tuple(rejections)
    wanted: dict[int, list[int]] = {}
    for one in found:
        wanted.setdefault(one.partition, []).append(one.offset)
    records = source.records_at(wanted)
    nameless = (
        records.filter(records["key"].is_null()).select(["_partition", "_offset"]).to_pylist()
    )
    refused = [
        Rejection(
            partition=row["_partition"], offset=row["_offset"], reason=NO_KEY, rule=TOMBSTONE_RULE
        )
        for row in nameless
    ]
    kept = [one for one in rejections if not is_tombstone(one)]
    forwarded = outgoing.tombstones(records.filter(records["key"].is_valid()))
    large = outgoing.too_large(forwarded, limit)
    return without_rejected(forwarded, large), (*kept, *refused, *large)
