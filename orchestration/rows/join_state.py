"""Keeps a join's state between runs: rows that wait for a partner, and the event-time clock.

The state is a folder ``_join_state/NUMBER`` of the table that no reader of the table sees. Each
commit names the number of the valid folder in Delta's application transaction ``join_state``. So
rows, offsets, kept rows and watermark change in one commit, and two commits from one snapshot
always conflict. A killed run leaves at most a folder that no commit names. Does not know brokers or
dead letters. Invariant: the folder that the newest commit names is complete, and is never written
again.
"""

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from orchestration.lake.durable import sync
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import CommitConflictError, TableSnapshot
from orchestration.offsets.planning import ProgressError
from orchestration.rows.joins import (
    LEFT,
    MATCHED,
    RIGHT,
    SIDES,
    JoinClock,
    JoinShape,
    Side,
    SideClock,
)

STATE = "join_state"
FOLDER = "_join_state"
"""Readers of a Delta table ignore files whose names begin with an underscore."""
CLOCK = "clock.json"
NUMBER_BITS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinState:
    """The state of a join after a commit: kept rows by side, and the clock."""

    kept: Mapping[Side, pa.Table]
    clock: JoinClock


def declared_text(topics: Sequence[str], shape: JoinShape) -> str:
    """Return as text the part of a join's declaration that must not change while rows are kept.

    It names the topics, the key columns, the range of time, and the type of join.
    """
    on = ", ".join(f"{left} = {right}" for left, right in shape.on)
    times = (
        f"{shape.event_time[1]} from {shape.before_us} us before to {shape.after_us} us after"
        f" {shape.event_time[0]}"
    )
    return f"{shape.how} join of {topics[0]} and {topics[1]} on {on}, {times}"


def validate_joined(snapshot: TableSnapshot, declared: str) -> None:
    """Refuse a table that is not a join, or not the declared join.

    :raises SchemaConflictError: the table is not the declared join. The text names both.
    """
    if snapshot.joined_as == declared:
        return
    kind = "no join" if snapshot.joined_as is None else f"the {snapshot.joined_as}"
    raise SchemaConflictError(
        f"the table {snapshot.name} is {kind}, and its declaration says {declared}: rows that only"
        " the new one needs were not kept. Nothing was committed. Declare it as it was, give it"
        " another name, or move the table away and let it be built anew"
    )


def read_state(snapshot: TableSnapshot) -> JoinState | None:
    """Return the state of the table's newest commit. It is None before the first commit.

    :raises CommitConflictError: the folder is gone because another run has committed since
        ``snapshot``.
    :raises ProgressError: the folder is gone and no run has committed. The table was copied from
        elsewhere, or set back to an older version.
    """
    number = snapshot.transaction_version(STATE)
    if number is None:
        return None
    folder = snapshot.folder / FOLDER / str(number)
    try:
        stored = json.loads((folder / CLOCK).read_text())
        kept = {
            side: pq.read_table(folder / f"{side}.parquet", partitioning=None) for side in SIDES
        }
    except FileNotFoundError as gone:
        if DeltaTable(str(snapshot.folder)).transaction_version(STATE) == number:
            raise ProgressError(
                f"the rows that the join {snapshot.name} keeps for partners are not in {folder}:"
                f" was the table copied without its folder {FOLDER}, or set back to an older"
                " version? Nothing was committed. Put the folder back, or move the table away and"
                " let it be built anew"
            ) from gone
        raise CommitConflictError(
            f"another writer committed to the table {snapshot.name} after it was looked at"
        ) from gone
    return JoinState(kept=kept, clock=_clock(stored))


def fitted(kept: pa.Table | None, schema: pa.Schema, name: str) -> pa.Table:
    """Return the kept rows with the columns of ``schema``. ``kept`` None means no rows.

    A column that is new in the schema is null in older rows.

    :raises ProgressError: a column has another type now.
    """
    wanted = schema.append(pa.field(MATCHED, pa.bool_()))
    if kept is None:
        return wanted.empty_table()
    try:
        columns = [
            (
                kept[field.name].cast(field.type)
                if field.name in kept.column_names
                else pa.nulls(kept.num_rows, field.type)
            )
            for field in wanted
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ProgressError(
            f"rows that the join {name} keeps do not fit the topic's schema of now: {error}."
            " Nothing was committed. Put the schema back, or move the table away and let it be"
            " built anew"
        ) from error
    return pa.table(columns, schema=wanted)


class StateWriter:
    """Writes the state that one commit will name by ``number``.

    After that commit, no other commit can name an older folder.
    """

    def __init__(self, folder: Path) -> None:
        """Choose a new number. ``folder`` is the table's folder."""
        self._folder = folder / FOLDER
        self._before = list(self._folder.iterdir()) if self._folder.is_dir() else []
        self.number = secrets.randbits(NUMBER_BITS) + 1

    def __repr__(self) -> str:
        return f"<StateWriter {self._folder / str(self.number)}>"

    def write(self, state: JoinState) -> int:
        """Write ``state``, and return its size in bytes. The commit has to name ``number``.

        The state is synced to the disk when this returns.
        """
        folder = self._folder / str(self.number)
        folder.mkdir(parents=True)
        for side, table in state.kept.items():
            pq.write_table(table, folder / f"{side}.parquet", compression="zstd")
        clock = {
            "left": asdict(state.clock.left),
            "right": asdict(state.clock.right),
            "watermark_us": state.clock.watermark_us,
        }
        (folder / CLOCK).write_text(json.dumps(clock))
        files = list(folder.iterdir())
        for path in (*files, folder, folder.parent, folder.parent.parent):
            sync(path)
        return sum(file.stat().st_size for file in files)

    def tidy(self) -> None:
        """Remove the state of older commits and of killed runs. Call it after the commit.

        A concurrent run may have written one of these folders. Its commit will conflict, because it
        decided from a snapshot before this commit.
        """
        for one in self._before:
            shutil.rmtree(one, ignore_errors=True)


def _clock(stored: Mapping[str, object]) -> JoinClock:
    sides = {side: _side(stored[side]) for side in SIDES}
    watermark_us = stored["watermark_us"]
    assert watermark_us is None or isinstance(watermark_us, int)
    return JoinClock(left=sides[LEFT], right=sides[RIGHT], watermark_us=watermark_us)


def _side(stored: object) -> SideClock:
    assert isinstance(stored, dict)
    greatest = {
        int(partition): int(time_us) for partition, time_us in stored["greatest_us"].items()
    }
    return SideClock(
        topic_id=str(stored["topic_id"]), greatest_us=greatest, read_at_us=int(stored["read_at_us"])
    )
