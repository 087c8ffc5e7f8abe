"""The protocol of a database for a table that follows a topic.

A store holds the rows and, in the same transaction, the offsets. This module has values and
protocols, and decides nothing. A store knows one table. One attempt of a run works with a
``Writer``. Once it is open, no older one can commit, because the store's version has moved or the
writer holds the file. So the progress that it reads stays true until it commits itself. Knows no
broker and no Spark.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as pads

from orchestration.lake.schemas import SchemaConflictError
from orchestration.offsets.planning import Checkpoint, ProgressError
from orchestration.offsets.ranges import OffsetRanges
from orchestration.rows.latest import Changes
from orchestration.values.type_names import arrow_type_name

DELETED_KEYS = "_deleted_keys"
"""Suffix of the table of deleted keys.

The table keeps the last deletion of each key, with its place.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgress:
    """The progress of a table.

    It holds the checkpoints of a topic id, the attempt of dead letters that counts, and the run
    that committed last. ``is_there`` is set if the table exists. ``topic_ids`` are all topic ids
    with offsets in the database.
    """

    is_there: bool
    checkpoints: Mapping[int, Checkpoint]
    topic_ids: tuple[str, ...]
    letters: int | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The content of one transaction.

    Either ``rows`` are appended or ``changes`` are made, and the offsets move to the ends of
    ``ranges``. ``keys`` are the keys of the batch, for a table that keeps the newest row of each
    key. Deletions below ``log_starts``, by partition, need not be remembered any more. A replay
    (``is_replay``) moves no offset. Its rows replace all rows that came from ``ranges``.
    ``changes`` already take that into account.
    """

    ranges: OffsetRanges
    leader_epochs: Mapping[int, int]
    letters: int | None
    run_id: str
    at: datetime
    rows: pa.Table
    changes: Changes | None = None
    keys: pa.Table | None = None
    log_starts: Mapping[int, int] | None = None
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Rows that were fetched from a database, for ``orchestration.rows.latest``."""

    rows: pa.Table

    def dataset(self) -> pads.Dataset:
        """Return the rows."""
        return pads.dataset(self.rows)


class Writer(Protocol):
    """The only writer of a table, for one attempt."""

    def progress(self, topic_id: str) -> TableProgress:
        """Return the progress of the table."""
        ...

    def held(
        self, keys: pa.Table, places: pa.Schema, ranges: OffsetRanges | None = None
    ) -> tuple[KnownRows, pa.Table]:
        """Return rows and remembered deletions: those of ``keys``, and those from ``ranges``.

        They have the columns of ``places``.
        """
        ...

    def commit(self, batch: Batch) -> None:
        """Commit rows and offsets in one transaction.

        A replay commits rows alone.

        :raises CommitConflictError: another run took over.
        :raises SchemaConflictError: the table lacks columns of the rows.
        :raises StoreError: the database refuses.
        """
        ...


class Store(Protocol):
    """A table of a database.

    ``place`` names the database for people and in the ledger, without secrets.
    """

    @property
    def place(self) -> str:
        """Return the place of the table for people, without secrets."""
        ...

    @property
    def dialect(self) -> str:
        """Return the SQLAlchemy dialect of the database."""
        ...

    def writer(self) -> AbstractContextManager[Writer]:
        """Open the writer of one attempt.

        From then on no older writer can commit.

        :raises CommitConflictError: another run is active.
        :raises StoreError: the database cannot be reached, or refuses.
        :raises NotOwnerError: the table belongs to another owner.
        """
        ...

    def holder(self) -> str | None:
        """Return a text on another owner of the table, None if no other asset owns it.

        :raises StoreError: the database cannot be reached, or refuses.
        """
        ...

    def take_over(self, *, is_of_this_lake: bool) -> None:
        """Become the table's owner, with the former owner's rows and progress.

        The former owner commits nothing from then on. ``is_of_this_lake`` says whether an unknown
        former owner is of this lake.

        :raises CommitConflictError: a run is active.
        :raises StoreError: the database cannot be reached, or refuses.
        """
        ...


def validate_columns(place: str, table: str, existing: set[str], schema: pa.Schema) -> None:
    """Refuse rows of ``schema`` if the table lacks some of its columns.

    The table may have more columns.

    :raises SchemaConflictError: names the columns.
    """
    missing = [field for field in schema if field.name not in existing]
    if missing:
        names = ", ".join(f"{field.name} ({arrow_type_name(field.type)})" for field in missing)
        raise SchemaConflictError(
            f"the table {table} in {place} lacks columns of the result: {names}. Nothing was"
            " committed. Add them to the table (ALTER TABLE ... ADD COLUMN ...), or take them out"
            " of the result"
        )


def validate_presence(place: str, table: str, progress: TableProgress, undo: str) -> None:
    """Refuse to continue if the offsets exist and the table does not.

    :raises ProgressError: the table is missing. ``undo`` says how to begin anew.
    """
    if progress.topic_ids and not progress.is_there:
        raise ProgressError(
            f"the table {table} is gone from {place}, and the offsets of what was in it are still"
            " there. Nothing was read or committed. Put the table back from a copy, or, to have it"
            f" built anew from the topic, {undo}"
        )
