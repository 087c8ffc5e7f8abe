"""What a database does for a table that follows a topic: it holds the rows and, in the same transaction, how far they reach.

Decides nothing: values and protocols. A store knows one table. A ``Writer`` is what one attempt of a run works with: from the moment it is
there no older one can commit (the store's version has moved, or the writer holds the file), so that what it reads stays true until it
commits itself. Knows no broker and no Spark.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as pads

from orchestration.checkpoints import Checkpoint, ProgressError
from orchestration.latest import Changes
from orchestration.offsets import OffsetRanges
from orchestration.schemas import SchemaConflictError
from orchestration.values.type_names import arrow_type_name

DELETED_KEYS = "_deleted_keys"
"""Behind a table's name: the table of the keys that were deleted last, with the place of what deleted them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far the table reaches: checkpoints of a topic id, the attempt of dead letters that counts, and the run that committed last.

    ``is_there``: the table exists. ``topic_ids`` are all those of which the database holds offsets.
    """

    is_there: bool
    checkpoints: Mapping[int, Checkpoint]
    topic_ids: tuple[str, ...]
    letters: int | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one transaction commits: ``rows`` are appended, or ``changes`` made, and the offsets move to the ends of ``ranges``.

    ``keys`` are those that the batch is about, for a table that keeps the newest row of each key. ``log_starts``, by partition: a deletion
    below them need not be remembered any more. A replay (``is_replay``) moves no offset: its rows take the place of all that came from
    ``ranges``, of which ``changes`` know already.
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
    """Rows of a database that were fetched, for ``orchestration.latest``."""

    rows: pa.Table

    def dataset(self) -> pads.Dataset:
        """Return the rows."""
        return pads.dataset(self.rows)


class Writer(Protocol):
    """The one writer of a table, for one attempt."""

    def standing(self, topic_id: str) -> Standing:
        """Return how far the table reaches."""
        ...

    def held(self, keys: pa.Table, places: pa.Schema, ranges: OffsetRanges | None = None) -> tuple[KnownRows, pa.Table]:
        """Return rows, and remembered deletions, with the columns of ``places``: those of ``keys``, and those that came from ``ranges``."""
        ...

    def commit(self, batch: Batch) -> None:
        """Commit rows and offsets in one transaction; of a replay rows alone.

        :raises CommitConflictError: another run took over. :raises SchemaConflictError: the table lacks columns of the rows.
        :raises StoreError: the database refuses.
        """
        ...


class Store(Protocol):
    """A table of a database. ``place`` names it for people and in the ledger, without secrets; ``kind`` is what Dagster shows."""

    @property
    def place(self) -> str:
        """Where the table is."""
        ...

    @property
    def dialect(self) -> str:
        """The database's kind, as SQLAlchemy names it."""
        ...

    def writer(self) -> AbstractContextManager[Writer]:
        """Open the writer of one attempt. From then on no older one can commit.

        :raises CommitConflictError: another run is at it. :raises StoreError: the database cannot be reached, or refuses.
        :raises NotOwnerError: the table is another's.
        """
        ...

    def holder(self) -> str | None:
        """Return who else the table belongs to, None where it is this one's, or no one's.

        :raises StoreError: the database cannot be reached, or refuses.
        """
        ...

    def take_over(self, *, is_of_this_lake: bool) -> None:
        """Become the table's owner, with the rows and the progress of the one before, which commits nothing from then on.

        ``is_of_this_lake``: an owner that is not known was of this lake.

        :raises CommitConflictError: a run is at it. :raises StoreError: the database cannot be reached, or refuses.
        """
        ...


class StoreError(RuntimeError):
    """The database could not be reached or refused. ``is_passing``: trying again may help."""

    def __init__(self, text: str, *, is_passing: bool = False) -> None:
        super().__init__(text)
        self.is_passing = is_passing


def validate_columns(place: str, table: str, existing: set[str], schema: pa.Schema) -> None:
    """Refuse rows of ``schema``, which has columns that the table lacks; it may have more.

    :raises SchemaConflictError: names them.
    """
    missing = [field for field in schema if field.name not in existing]
    if missing:
        names = ", ".join(f"{field.name} ({arrow_type_name(field.type)})" for field in missing)
        raise SchemaConflictError(
            f"the table {table} in {place} lacks columns of the result: {names}. Nothing was committed. Add them to the table "
            "(ALTER TABLE ... ADD COLUMN ...), or take them out of the result"
        )


def validate_presence(place: str, table: str, standing: Standing, undo: str) -> None:
    """Refuse to go on where the offsets are there and the table is not.

    :raises ProgressError: that is so; ``undo`` says what begins anew.
    """
    if standing.topic_ids and not standing.is_there:
        raise ProgressError(
            f"the table {table} is gone from {place}, and the offsets of what was in it are still there. Nothing was read or committed. "
            f"Put the table back from a copy, or, to have it built anew from the topic, {undo}"
        )
