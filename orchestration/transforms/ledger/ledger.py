"""The ledger of a transform to a topic or a database: a lake table that copies its progress.

The progress itself commits with the rows: in the offsets of a group (``to_topic``) or in the
database (``to_database``). After each transaction the ledger gets a row for each partition that
moved, and one for each replayed range. A run that is killed in between leaves the ledger out of
date, and the next run updates it (``follow_group``). The lake reads the ledger's progress like
any table's, from application transactions (``orchestration.lake.tables``). The progress of a table
never goes back. That of a ledger may, because a person may reset the offsets of the group. Knows no
broker and no Spark.

Invariant: a ledger is written from a snapshot that was loaded before the progress was read. So a
slower writer gets a conflict instead of setting the ledger back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from deltalake import write_deltalake

from orchestration.dead_letters.table import named_attempt, naming
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import (
    CommitConflictError,
    Lake,
    TableSnapshot,
    after_commit,
    commit_properties,
    conflicts_translated,
)
from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRange
from orchestration.transforms.ledger.progress import Progress, Route

LEDGER = pa.schema(
    [
        pa.field("_topic_id", pa.string()),
        pa.field("_partition", pa.int32()),
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("records_sent", pa.int64()),
        pa.field("source", pa.string()),
        pa.field("target", pa.string()),
        pa.field("target_id", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("sent_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""The columns of the ledger.

``records_sent`` is null if a run was killed before it could write the number.
"""
REMIND_AFTER_S = 86_400.0
"""Age of the last offset commit after which the offsets are committed again.

Groups forget offsets that were not committed for a while, seven days by default.
"""
COMMITTED_AT = "offsets_committed_at"
"""The application transaction whose version is the time of the group's last offset commit.

It is in seconds since 1970.
"""
ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One transaction, as the ledger records it.

    ``records`` counts the sent records by partition, None if it is unknown. ``replayed`` are the
    ranges of a replay, which moves no checkpoint.
    """

    before: Mapping[int, Checkpoint]
    records: Mapping[int, int] | None
    run_id: str
    at: datetime
    replayed: Sequence[OffsetRange] = ()


def open_ledger(lake: Lake, name: str, description: str) -> TableSnapshot:
    """Return the newest version of the ledger, created if need be.

    :raises SchemaConflictError: the lake has another table of that name.
    """
    found = lake.snapshot(name) or lake.create(name, LEDGER, description=description)
    if found.arrow_schema.names != LEDGER.names:
        raise SchemaConflictError(
            f"the lake has a table {name} that is not a ledger of what was sent to a topic: give"
            " the transform another name, or move the table away"
        )
    return found


def is_reminder_due(snapshot: TableSnapshot, now: datetime) -> bool:
    """Return whether the group's last offset commit is so old that it has to be repeated.

    The time of the ledger's newest commit does not tell that, because upkeep of the lake commits,
    too.
    """
    return now.timestamp() - (snapshot.transaction_version(COMMITTED_AT) or 0) >= REMIND_AFTER_S


def write(snapshot: TableSnapshot, route: Route, progress: Progress, entry: Entry) -> TableSnapshot:
    """Write ``progress`` to the ledger, with a row for each range of ``entry``.

    :raises CommitConflictError: another writer was faster.
    """
    is_just_committed = (
        entry.records is not None or snapshot.transaction_version(COMMITTED_AT) is None
    )
    transactions = {
        **naming(route.source.topic_id, progress.letters),
        **{
            f"{route.source.topic_id}/{partition}": one.next_offset
            for partition, one in progress.checkpoints.items()
        },
        **({COMMITTED_AT: int(entry.at.timestamp())} if is_just_committed else {}),
    }
    properties = commit_properties(
        {"topic": route.source.topic, "target": route.target.topic, "run_id": entry.run_id},
        transactions,
    )
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            _rows(route, progress, entry),
            mode="append",
            commit_properties=properties,
        )
    return after_commit(snapshot)


def follow_group(
    load: Callable[[], TableSnapshot],
    route: Route,
    partitions: Iterable[int],
    read: Callable[[TableSnapshot], Progress],
    now: datetime,
) -> tuple[TableSnapshot, Progress]:
    """Update the ledger from the progress if they differ, and return ledger and progress.

    ``load`` returns the ledger's newest snapshot. Then ``read`` returns the progress, from the
    group or the database.

    :raises CommitConflictError: in every attempt another writer was faster.
    :raises Exception: ``read`` raised it.
    """
    known = list(partitions)
    for _ in range(ATTEMPTS):
        snapshot = load()
        progress = read(snapshot)
        before = snapshot.checkpoints(route.source.topic_id, known)
        if not progress.checkpoints or _says(snapshot, route, before, progress):
            return snapshot, progress
        try:
            return (
                write(
                    snapshot,
                    route,
                    progress,
                    Entry(before=before, records=None, run_id=progress.run_id, at=now),
                ),
                progress,
            )
        except CommitConflictError:
            continue
    raise CommitConflictError(
        f"other runs committed to the ledger {snapshot.name} before this one, {ATTEMPTS} times:"
        " start the run again"
    )


def _says(
    snapshot: TableSnapshot, route: Route, before: Mapping[int, Checkpoint], progress: Progress
) -> bool:
    """Return whether the ledger agrees with ``progress``, except for leader epochs.

    Only the group has leader epochs.
    """
    offsets = {partition: one.next_offset for partition, one in before.items()}
    is_named = (
        progress.letters is None
        or named_attempt(snapshot, route.source.topic_id) >= progress.letters
    )
    return is_named and offsets == {
        partition: one.next_offset for partition, one in progress.checkpoints.items()
    }


def _moved(progress: Progress, entry: Entry) -> Iterator[tuple[int, int | None, int]]:
    """Yield partition, start and end of the ranges by which the checkpoints moved.

    The start is None if nothing was committed before.
    """
    for partition, one in sorted(progress.checkpoints.items()):
        start = entry.before[partition].next_offset if partition in entry.before else None
        if start != one.next_offset:
            yield partition, start, one.next_offset


def _rows(route: Route, progress: Progress, entry: Entry) -> pa.Table:
    rows = []
    names = (route.source.topic, route.target.topic, route.target.topic_id)
    for partition, start, end in (
        *_moved(progress, entry),
        *((one.partition, one.start, one.end) for one in entry.replayed),
    ):
        sent = None if entry.records is None else entry.records.get(partition, 0)
        rows.append(
            (route.source.topic_id, partition, start, end, sent, *names, entry.run_id, entry.at)
        )
    columns = zip(*rows, strict=True) if rows else [[] for _ in LEDGER]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, LEDGER, strict=True)],
        schema=LEDGER,
    )
