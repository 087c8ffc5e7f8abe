"""Commits the rows of offset ranges to a table that keeps all rows.

A batch is appended and moves the checkpoints. A replay replaces the rows of its ranges and moves
none. If rows have a wider type than the table, the same commit writes the whole table anew. Knows
no broker, no Spark and no dead letter.
Invariant: rows and checkpoints move in one commit.
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.dataset as pads
from deltalake import write_deltalake

from orchestration.lake.file_commits import widen
from orchestration.lake.schemas import conform
from orchestration.lake.tables import (
    PROVENANCE,
    TableSnapshot,
    advance,
    after_commit,
    commit_properties,
    conflicts_translated,
    ranges_predicate,
)
from orchestration.offsets.planning import Checkpoint
from orchestration.offsets.ranges import OffsetRanges


def append_with_offsets(
    snapshot: TableSnapshot,
    rows: pa.Table,
    ranges: OffsetRanges,
    leader_epochs: Mapping[int, int],
    *,
    expected: Mapping[int, Checkpoint],
    is_evolving: bool = False,
    notes: Mapping[str, str] | None = None,
    transactions: Mapping[str, int] | None = None,
) -> TableSnapshot:
    """Commit ``rows`` and move the checkpoints to the ends of ``ranges``, in one commit.

    ``rows`` may be empty. ``expected`` holds the checkpoints that the plan of the run assumed.
    ``is_evolving`` allows new, missing and wider columns (``schemas.conform``). The commit also
    carries ``transactions``.

    :raises CommitConflictError: the table changed since ``snapshot``, so its checkpoints may have
        moved.
    :raises SchemaConflictError: the rows do not fit the table.
    :raises ProgressError: a checkpoint would go back.
    """
    carried = {**advance(snapshot, ranges, leader_epochs, expected), **(transactions or {})}
    fitting, mode = conform(rows, snapshot.name, snapshot.arrow_schema, is_evolving=is_evolving)
    labels = {"ranges": str(ranges), "topic": ranges.topic, **(notes or {})}
    if mode == "widen":
        return widen(snapshot, None, fitting, carried, labels)
    properties = commit_properties(labels, carried)
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta, fitting, mode="append", schema_mode=mode, commit_properties=properties
        )
    return after_commit(snapshot)


def overwrite_ranges(
    snapshot: TableSnapshot,
    rows: pa.Table,
    ranges: OffsetRanges,
    *,
    is_evolving: bool = False,
    notes: Mapping[str, str] | None = None,
    transactions: Mapping[str, int] | None = None,
) -> TableSnapshot:
    """Replace exactly the rows of ``ranges`` by ``rows``, in one commit that moves no checkpoint.

    ``is_evolving`` allows new, missing and wider columns (``schemas.conform``). The commit also
    carries ``transactions``.

    :raises CommitConflictError: the table changed since ``snapshot``.
    :raises SchemaConflictError: the rows do not fit the table.
    """
    fitting, mode = conform(rows, snapshot.name, snapshot.arrow_schema, is_evolving=is_evolving)
    labels = {"replay": str(ranges), "topic": ranges.topic, **(notes or {})}
    if mode == "widen":
        replaced = snapshot.dataset().to_table(columns=[*PROVENANCE], filter=_within(ranges))
        return widen(snapshot, replaced, fitting, transactions or {}, labels)
    properties = commit_properties(labels, transactions or {})
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            fitting,
            mode="overwrite",
            schema_mode=mode,
            predicate=ranges_predicate(ranges),
            commit_properties=properties,
        )
    return after_commit(snapshot)


def _within(ranges: OffsetRanges) -> pads.Expression:
    """Return the filter of the rows of ``ranges``."""
    places = (
        (pads.field("_partition") == one.partition)
        & (pads.field("_offset") >= one.start)
        & (pads.field("_offset") < one.end)
        for one in ranges
    )
    return (pads.field("_topic_id") == ranges.topic_id) & reduce(or_, places, pads.scalar(False))
