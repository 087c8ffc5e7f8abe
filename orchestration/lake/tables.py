"""Delta tables, whose transaction log holds their progress, and the parts of their commits.

Each topic partition has one application transaction, ``<topic id>/<partition>`` = the next offset,
and beside it ``.../leader_epoch``. Every commit is a compare-and-swap from the snapshot on which
its decisions are based. If another writer commits in between, it fails with
``CommitConflictError``, and the caller decides again. Knows no broker, no Spark and no dead letter.
Invariants: rows and checkpoint move in one commit. A checkpoint never goes back. A replay changes
rows of its ranges and no checkpoint. Deletion vectors and column mapping stay off, because Spark
and DuckDB read the files directly.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from orchestration.lake.quoting import quoted_text
from orchestration.offsets.planning import Checkpoint, validate_advance
from orchestration.offsets.ranges import OffsetRanges

PROVENANCE = ("_topic_id", "_partition", "_offset")
LAKE_PREFIX = "lake"
"""The first part of the asset keys of tables."""
FIXES = "dead_letter_fixes"
RESERVED_NAMES = frozenset({"dead_letters", FIXES})
TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
DEFAULT_RETENTION_HOURS = 168
METADATA_PREFIX = "tidelog."
PERCENT_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
UNKNOWN_EPOCH = -1
LATEST_BY = (  # a table's property: the key columns of which it keeps the newest row
    "tidelog.latestBy"
)
JOINED_AS = "tidelog.joinedAs"  # a table's property: what it joins, and how


class CommitConflictError(Exception):
    """Another writer committed to the table after the snapshot.

    Reload the snapshot and decide again.
    """


class TableMissingError(LookupError):
    """The lake has no table of that name yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """A table as it was at one version.

    A run that bases decisions on a snapshot commits from the same snapshot.
    """

    name: str
    version: int
    delta: DeltaTable

    def checkpoints(self, topic_id: str, partitions: Iterable[int]) -> dict[int, Checkpoint]:
        """Return the checkpoints of ``topic_id``.

        Partitions that were never committed are left out.
        """
        found = {}
        for partition in partitions:
            next_offset = self.transaction_version(f"{topic_id}/{partition}")
            if next_offset is not None:
                epoch = self.transaction_version(f"{topic_id}/{partition}/leader_epoch")
                found[partition] = Checkpoint(
                    next_offset=next_offset, leader_epoch=None if epoch == UNKNOWN_EPOCH else epoch
                )
        return found

    def transaction_version(self, application_id: str) -> int | None:
        """Return the last committed version of an application transaction, or None."""
        version = self.delta.transaction_version(application_id)
        return None if version is None else int(version)

    def topic_ids(self) -> tuple[str, ...]:
        """Return the topic ids that the rows come from.

        The statistics of the files give them, or the rows themselves if a file has none. There are
        none if the table has no column ``_topic_id``.
        """
        if "_topic_id" not in self.arrow_schema.names:
            return ()
        actions = pa.table(self.delta.get_add_actions(flatten=True))
        if "min._topic_id" not in actions.column_names or actions["min._topic_id"].null_count:
            return tuple(
                sorted(
                    pc.unique(
                        self.dataset().to_table(columns=["_topic_id"])["_topic_id"]
                    ).to_pylist()
                )
            )
        found = [
            value
            for name in ("min._topic_id", "max._topic_id")
            if name in actions.column_names
            for value in actions[name].to_pylist()
        ]
        return tuple(sorted({value for value in found if value is not None}))

    @property
    def latest_by(self) -> tuple[str, ...]:
        """The columns that are the key of the table, if it keeps only the newest row of each key.

        There are none if the table keeps all rows.
        """
        return tuple(json.loads(self.delta.metadata().configuration.get(LATEST_BY, "[]")))

    @property
    def joined_as(self) -> str | None:
        """The declaration of the table's join as text, or None if the table is not a join."""
        found = self.delta.metadata().configuration.get(JOINED_AS)
        return None if found is None else str(found)

    @property
    def table_id(self) -> str:
        """The id that the table got when it was created.

        A table that is built anew has another id.
        """
        return str(self.delta.metadata().id)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the table."""
        return pa.schema(self.delta.schema().to_arrow())

    @property
    def row_count(self) -> int:
        """The number of rows, from the statistics of the files."""
        return int(self.delta.count())

    @property
    def size_bytes(self) -> int:
        """The size in bytes of all files that make up this version."""
        return sum(self.file_sizes)

    @property
    def file_sizes(self) -> tuple[int, ...]:
        """The size in bytes of each file that makes up this version."""
        return tuple(pa.table(self.delta.get_add_actions(flatten=True))["size_bytes"].to_pylist())

    @property
    def folder(self) -> Path:
        """The folder of the table.

        delta-rs names it as a URI, in which a blank is ``%20``.
        """
        return Path(url2pathname(urlsplit(self.delta.table_uri).path))

    @property
    def files(self) -> tuple[Path, ...]:
        """The Parquet files that make up this version."""
        root = urlsplit(self.delta.table_uri).path
        return tuple(self.folder / uri.removeprefix(root) for uri in self.delta.file_uris())

    def dataset(self) -> pads.Dataset:
        """Return the rows as a dataset that filters and projects while it reads.

        DuckDB and pyarrow read it. The statistics of columns that are younger than a file are left
        out. delta-rs assumes that no row of such a file can match a filter on the column, so ``IS
        NULL`` would find none of its rows.
        """
        whole = self.delta.to_pyarrow_dataset()
        later = self._columns_younger_than_a_file()
        if not later:
            return whole
        known = pa.schema([field for field in self.arrow_schema if field.name not in later])
        fragments = list(self.delta.to_pyarrow_dataset(schema=known).get_fragments())
        return pads.FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)

    def _columns_younger_than_a_file(self) -> set[str]:
        actions = pa.table(self.delta.get_add_actions(flatten=True))
        counted = [
            name.removeprefix("min.") for name in actions.column_names if name.startswith("min.")
        ]
        return {name for name in counted if actions[f"null_count.{name}"].null_count}


@dataclass(frozen=True, slots=True)
class Lake:
    """A directory of Delta tables, one folder each.

    :raises ValueError: the path contains an escape such as ``%20``, which delta-rs would decode.
    """

    root: Path

    def __post_init__(self) -> None:
        """Refuse a path that delta-rs decodes: tables could be created there but not opened."""
        found = PERCENT_ESCAPE.search(str(self.root.absolute()))
        if found is not None:
            raise ValueError(
                f"the lake cannot be in {self.root}: the library of Delta tables takes {found[0]}"
                " in the name of a folder for another character and looks elsewhere. Rename the"
                " folder, or set TIDELOG_LAKE to a path without % before two hexadecimal digits"
            )

    def names(self) -> tuple[str, ...]:
        """Return the names of the tables that exist."""
        if not self.root.is_dir():
            return ()
        return tuple(
            sorted(
                folder.name for folder in self.root.iterdir() if (folder / "_delta_log").is_dir()
            )
        )

    def snapshot(self, name: str) -> TableSnapshot | None:
        """Return the newest version of the table, None if it does not exist yet."""
        path = self.path(name)
        if not (path / "_delta_log").is_dir() or not DeltaTable.is_deltatable(str(path)):
            return None
        delta = DeltaTable(str(path))
        return TableSnapshot(name=name, version=delta.version(), delta=delta)

    def existing(self, name: str) -> TableSnapshot:
        """Return the newest version of the table.

        :raises TableMissingError: the table does not exist yet.
        """
        found = self.snapshot(name)
        if found is None:
            known = ", ".join(self.names()) or "none yet"
            raise TableMissingError(
                f"the lake at {self.root} has no table {name}; it has {known}. Materialize"
                f" lake/{name} first"
            )
        return found

    def path(self, name: str) -> Path:
        """Return the folder of the table.

        :raises ValueError: the name cannot be a table's.
        """
        if not TABLE_NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} cannot be a table's name: letters, digits and underscores, not starting"
                " with a digit"
            )
        return self.root / name

    def create(
        self,
        name: str,
        schema: pa.Schema,
        *,
        description: str = "",
        partition_by: list[str] | None = None,
        latest_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> TableSnapshot:
        """Create the table without rows, or return it if another writer was faster.

        ``properties`` are stored in the table's metadata.
        """
        path = self.path(name)
        path.mkdir(parents=True, exist_ok=True)
        try:
            DeltaTable.create(
                str(path),
                schema,
                name=name,
                description=description[:4000] or None,
                partition_by=partition_by,
                configuration={
                    **(properties or {}),
                    **({LATEST_BY: json.dumps(list(latest_by))} if latest_by else {}),
                }
                or None,
                raise_if_key_not_exists=False,
            )
        except (CommitFailedError, DeltaError):
            if not DeltaTable.is_deltatable(str(path)):
                raise
        return self.existing(name)

    def compact(self, name: str, *, target_bytes: int | None = None) -> dict[str, Any]:
        """Merge small files into larger ones, and return delta-rs's figures on that.

        Rows and checkpoints stay as they are.

        :raises CommitConflictError: a file that was to be merged was replaced meanwhile.
        """
        with conflicts_translated(name):
            return dict(self.existing(name).delta.optimize.compact(target_size=target_bytes))

    def vacuum(self, name: str, *, retention_hours: int = DEFAULT_RETENTION_HOURS) -> list[str]:
        """Delete files that no version of the last ``retention_hours`` needs. Return their names.

        Files of killed runs are deleted, too.
        """
        delta = self.existing(name).delta
        return list(
            delta.vacuum(
                retention_hours=retention_hours,
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
        )


def advance(
    snapshot: TableSnapshot,
    ranges: OffsetRanges,
    leader_epochs: Mapping[int, int],
    expected: Mapping[int, Checkpoint],
) -> dict[str, int]:
    """Return the transactions that move the checkpoints to the ends of ``ranges``.

    :raises CommitConflictError: the checkpoints in ``snapshot`` differ from ``expected``.
    :raises ProgressError: a checkpoint would go back.
    """
    committed = snapshot.checkpoints(ranges.topic_id, ranges.ends())
    if committed != {
        partition: expected[partition] for partition in ranges.ends() if partition in expected
    }:
        raise CommitConflictError(f"another run moved the checkpoints of the table {snapshot.name}")
    validate_advance(ranges.topic, committed, ranges.ends())
    return offset_transactions(ranges, leader_epochs)


def offset_transactions(ranges: OffsetRanges, leader_epochs: Mapping[int, int]) -> dict[str, int]:
    """Return the application transactions of a commit of ``ranges``: versions by id.

    They are the next offset and the leader epoch of each partition. An unknown epoch is written as
    ``UNKNOWN_EPOCH``, because the epoch that the table has belongs to earlier offsets.
    """
    ends = ranges.ends()
    epochs = {
        f"{ranges.topic_id}/{partition}/leader_epoch": leader_epochs.get(partition, UNKNOWN_EPOCH)
        for partition in ends
    }
    return {**{f"{ranges.topic_id}/{partition}": end for partition, end in ends.items()}, **epochs}


def fence(snapshot: TableSnapshot, transactions: Mapping[str, int]) -> TableSnapshot:
    """Make an empty commit with ``transactions``, so that other commits with one of them conflict.

    That holds for commits from this snapshot or an older one.

    :raises CommitConflictError: another writer was faster.
    """
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            snapshot.arrow_schema.empty_table(),
            mode="append",
            commit_properties=commit_properties({}, transactions),
        )
    return after_commit(snapshot)


def add_columns(
    snapshot: TableSnapshot, fields: Sequence[pa.Field], *, partition_by: list[str]
) -> TableSnapshot:
    """Add columns to the table, null in every row, and return its newest version.

    A conflict with another writer is ignored, because that one has added the same columns. The rows
    are written anew. A file without the column would make readers believe, because of delta-rs,
    that the column is never null in it.
    """
    rows = snapshot.dataset().to_table()
    for field in fields:
        rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    with suppress(CommitFailedError):
        write_deltalake(
            snapshot.delta,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            partition_by=partition_by,
        )
    newest = DeltaTable(snapshot.delta.table_uri)
    return TableSnapshot(name=snapshot.name, version=newest.version(), delta=newest)


def ranges_predicate(ranges: OffsetRanges) -> str:
    """Return the SQL predicate of the rows of ``ranges``."""
    parts = [
        f"(_partition = {one.partition} AND _offset >= {one.start} AND _offset < {one.end})"
        for one in ranges
    ]
    return f"_topic_id = {quoted_text(ranges.topic_id)} AND ({' OR '.join(parts)})"


def overwrite_where(
    snapshot: TableSnapshot,
    rows: pa.Table,
    predicate: str,
    transactions: Mapping[str, int],
    notes: Mapping[str, str],
) -> TableSnapshot:
    """Replace the rows that match ``predicate`` by ``rows``, in one commit.

    The commit carries ``transactions``.

    :raises CommitConflictError: the matching rows, or one of the transactions, changed since
        ``snapshot``.
    """
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            rows,
            mode="overwrite",
            predicate=predicate,
            commit_properties=commit_properties(notes, transactions),
        )
    return after_commit(snapshot)


def replace_all(
    snapshot: TableSnapshot,
    rows: pa.Table | pa.RecordBatchReader,
    transactions: Mapping[str, int],
    notes: Mapping[str, str],
) -> TableSnapshot:
    """Replace the whole table, with its columns, in one commit that carries ``transactions``.

    ``transactions`` are the versions of the table's inputs.

    :raises CommitConflictError: the table changed since ``snapshot``.
    """
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=commit_properties(notes, transactions),
        )
    return after_commit(snapshot)


def replace_all_by_files(
    snapshot: TableSnapshot,
    actions: Sequence[AddAction],
    schema: pa.Schema,
    transactions: Mapping[str, int],
    notes: Mapping[str, str],
) -> None:
    """Replace the whole table by files in its folder, in one commit that carries ``transactions``.

    :raises CommitConflictError: the table changed since ``snapshot``.
    """
    with conflicts_translated(snapshot.name):
        snapshot.delta.create_write_transaction(
            [*actions],
            mode="overwrite",
            schema=schema,
            commit_properties=commit_properties(notes, transactions),
        )


def commit_properties(
    notes: Mapping[str, str], transactions: Mapping[str, int], *, max_retries: int | None = None
) -> CommitProperties:
    """Return the properties of a commit: its application transactions, and notes for people.

    Keys of notes get Tidelog's prefix. With ``max_retries=0`` the commit conflicts with any other
    that came before it.
    """
    return CommitProperties(
        custom_metadata={f"{METADATA_PREFIX}{key}": value for key, value in notes.items()},
        app_transactions=[
            Transaction(application_id, version)
            for application_id, version in sorted(transactions.items())
        ],
        max_commit_retries=max_retries,
    )


def after_commit(snapshot: TableSnapshot) -> TableSnapshot:
    """Return the table at the version that a commit through ``snapshot`` has made.

    delta-rs moves the ``DeltaTable`` object that was written through to that version.
    """
    return TableSnapshot(name=snapshot.name, version=snapshot.delta.version(), delta=snapshot.delta)


@contextmanager
def conflicts_translated(name: str) -> Iterator[None]:
    """Turn delta-rs's error about a faster writer in the block into a ``CommitConflictError``.

    :raises CommitConflictError: another writer was faster.
    """
    try:
        yield
    except CommitFailedError as conflict:
        raise CommitConflictError(
            f"another writer committed to the table {name} at the same time"
        ) from conflict
