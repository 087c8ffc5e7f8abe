"""Commits changes to a table that keeps the newest row of each key. ``rows.latest`` decides them.

Files are rewritten if rows change or are removed. Otherwise the commit appends. The deleted keys
are a Parquet file in the table's folder that no reader of the table sees. Each commit names the
number of the valid file in Delta's application transaction ``deleted_keys``. So rows, offsets and
deleted keys change in one commit, and two commits from one snapshot always conflict. A killed run
leaves at most files that no commit names. Does not know brokers or dead letters.
"""

import secrets
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from orchestration.lake.abandoned_files import old_ones
from orchestration.lake.file_commits import replace_rows, widen
from orchestration.lake.schemas import conform
from orchestration.lake.tables import (
    DEFAULT_RETENTION_HOURS,
    CommitConflictError,
    TableSnapshot,
    after_commit,
    commit_properties,
    conflicts_translated,
)
from orchestration.rows.latest import Changes

DELETED_KEYS = "deleted_keys"
FOLDER = "_deleted_keys"
"""Readers of a Delta table ignore files whose names begin with an underscore."""
NUMBER_BITS = 62
NO_FILE = 0


def remembered_deletions(snapshot: TableSnapshot) -> pa.Table | None:
    """Return the table's remembered deletions (``KeyedTable.deletions``), None without any."""
    number = snapshot.transaction_version(DELETED_KEYS) or NO_FILE
    return (
        None
        if number == NO_FILE
        else pq.read_table(snapshot.folder / FOLDER / _name(number), partitioning=None)
    )


def upsert(
    snapshot: TableSnapshot,
    changes: Changes,
    *,
    is_evolving: bool = False,
    notes: Mapping[str, str] | None = None,
    transactions: Mapping[str, int] | None = None,
) -> TableSnapshot:
    """Commit ``changes``, which may be empty, together with the application ``transactions``.

    :raises CommitConflictError: the table changed since ``snapshot``.
    :raises SchemaConflictError: the rows do not fit the table.
    """
    base = _after_own_fence(snapshot)
    fitting, mode = conform(
        changes.rows, snapshot.name, snapshot.arrow_schema, is_evolving=is_evolving
    )
    number = write_deleted_keys(snapshot, changes)
    carried = {**(transactions or {}), DELETED_KEYS: number}
    if mode == "widen":
        committed = widen(base, changes.replaced, fitting, carried, notes or {})
    elif changes.replaced.num_rows:
        if mode is not None:
            base = _with_new_columns(base, fitting)
        committed = replace_rows(base, changes.replaced, fitting, carried, notes or {})
    else:
        with conflicts_translated(snapshot.name):
            properties = commit_properties(notes or {}, carried)
            write_deltalake(
                snapshot.delta,
                fitting,
                mode="append",
                schema_mode=mode,
                commit_properties=properties,
            )
        committed = after_commit(snapshot)
    remove_old_files(committed, number)
    return committed


def replace_groups(
    snapshot: TableSnapshot,
    rows: pa.Table,
    *,
    notes: Mapping[str, str] | None = None,
    transactions: Mapping[str, int] | None = None,
) -> TableSnapshot:
    """Replace all rows of a table by ``rows``, in one commit with application ``transactions``.

    :raises CommitConflictError: the table changed since ``snapshot``.
    :raises SchemaConflictError: the rows do not fit the table.
    """
    _after_own_fence(snapshot)
    fitting, _ = conform(rows, snapshot.name, snapshot.arrow_schema)
    carried = {
        **(transactions or {}),
        DELETED_KEYS: snapshot.transaction_version(DELETED_KEYS) or NO_FILE,
    }
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            fitting,
            mode="overwrite",
            commit_properties=commit_properties(notes or {}, carried),
        )
    return after_commit(snapshot)


def _after_own_fence(snapshot: TableSnapshot) -> TableSnapshot:
    """Return the table after the fence that this run may have committed since ``snapshot``.

    A run commits a fence if it removed the dead letters of a killed run. If the version grew by
    more than one since ``snapshot``, another writer has committed.

    :raises CommitConflictError: another writer committed after ``snapshot``.
    """
    if snapshot.delta.version() > snapshot.version + 1:
        raise CommitConflictError(
            f"another writer committed to the table {snapshot.name} after it was decided what"
            " changes"
        )
    return after_commit(snapshot)


def _with_new_columns(snapshot: TableSnapshot, rows: pa.Table) -> TableSnapshot:
    """Add the new columns of ``rows`` to the table in a separate commit, which changes no row.

    It conflicts as all other commits do.
    """
    held = {DELETED_KEYS: snapshot.transaction_version(DELETED_KEYS) or NO_FILE}
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            rows.slice(0, 0),
            mode="append",
            schema_mode="merge",
            commit_properties=commit_properties({}, held),
        )
    return after_commit(snapshot)


def write_deleted_keys(snapshot: TableSnapshot, changes: Changes) -> int:
    """Write the deletions to a new file if they change, and return the number of the valid file."""
    if not changes.is_deletion_new:
        return snapshot.transaction_version(DELETED_KEYS) or NO_FILE
    if not changes.deletions.num_rows:
        return NO_FILE
    number = secrets.randbits(NUMBER_BITS) + 1
    folder = snapshot.folder / FOLDER
    folder.mkdir(exist_ok=True)
    pq.write_table(changes.deletions, folder / _name(number), compression="zstd")
    return number


def remove_old_files(snapshot: TableSnapshot, number: int) -> None:
    """Remove files of deletions other than ``number`` after the retention of table versions.

    By then no version that names one of them can be read.
    """
    for file in old_ones(snapshot.folder / FOLDER, "*", DEFAULT_RETENTION_HOURS * 3_600):
        if file.name != _name(number):
            file.unlink(missing_ok=True)


def _name(number: int) -> str:
    return f"{number}.parquet"
