"""Results that Spark writes itself: Parquet files that one commit adds to a table.

Decides where the files lie until then, and their entries in the table's log. So a result of any
size never passes through the run process. Files of killed runs are removed once they are old. Knows
no transform.
Invariant: nothing in a staging folder is part of a table. A file that was moved and not committed
is removed by the table's vacuum.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from orchestration.lake.abandoned_files import new_staging_folder
from orchestration.lake.schemas import nullable


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFiles:
    """Parquet files in their own folder inside a table's folder."""

    folder: Path
    files: tuple[Path, ...]
    schema: pa.Schema

    def dataset(self) -> pads.Dataset:
        """Return the rows."""
        return pads.dataset(
            [str(file) for file in self.files], schema=self.schema, format="parquet"
        )

    def add_actions(self) -> list[AddAction]:
        """Move the files into the table's folder and return their entries for its log."""
        actions = []
        for file in self.files:
            place = self.folder.parent / f"part-{uuid4().hex}.parquet"
            described = statistics_of(file)
            file.replace(place)
            changed_ms = int(time() * 1000)
            actions.append(
                AddAction(place.name, place.stat().st_size, {}, changed_ms, True, described)
            )
        return actions

    def release(self) -> None:
        """Remove the files that were not moved."""
        shutil.rmtree(self.folder, ignore_errors=True)


def stage(frame: Any, table_folder: Path) -> StagedFiles:
    """Let Spark compute ``frame`` into files below ``table_folder``.

    Spark has to share this file system.
    """
    table_folder.mkdir(parents=True, exist_ok=True)
    folder = new_staging_folder(table_folder)
    frame.write.parquet(str(folder))
    files = tuple(sorted(folder.glob("*.parquet")))
    return StagedFiles(folder=folder, files=files, schema=nullable(pq.read_schema(files[0])))


def statistics_of(file: Path) -> str:
    """Return the statistics of a file for the table's log: the number of rows, and no bounds.

    If only some columns have bounds, readers assume that the others have no values. The files
    contain their own statistics.
    """
    return json.dumps({"numRecords": pq.read_metadata(file).num_rows})
