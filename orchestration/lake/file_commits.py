"""Commits that replace rows of a Delta table by writing the files with such rows anew.

delta-rs can merge, but writes texts as Arrow's views. Readers that filter through pyarrow, as
DuckDB does, cannot compare views with a text. delta-rs cannot replace chosen files either. So this
module writes the commit itself, by Delta's protocol. A commit is one JSON file with the next
version's number, which exists whole or not at all. The first writer of a version wins. Other
writers get a conflict. A writer through delta-rs also gets a conflict if both commits carry the
same application transaction. A lake is a local folder.

Decides which files are written anew, and their entries in the log. Knows no broker, no Spark, and
not the meaning of a row.
Invariants: rows that stay are written as they were, or in a wider type. Tables have no partitions
and no deletion vectors. A killed commit leaves files that no version names, and the table's vacuum
removes them.
"""

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from uuid import uuid4

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from orchestration.lake.quoting import quoted_name
from orchestration.lake.staging import statistics_of
from orchestration.lake.tables import (
    METADATA_PREFIX,
    CommitConflictError,
    TableSnapshot,
    after_commit,
    commit_properties,
    conflicts_translated,
)

TARGET_BYTES = 128 << 20
CHECKPOINT_EVERY = 100
"""The versions from one checkpoint of the log to the next, as many as delta-rs makes by default."""
Places = dict[str, npt.NDArray[np.int64]]


def replace_rows(
    snapshot: TableSnapshot,
    gone: pa.Table,
    rows: pa.Table,
    transactions: Mapping[str, int],
    notes: Mapping[str, str],
) -> TableSnapshot:
    """Replace the rows whose key columns are among ``gone`` by ``rows``, in one commit.

    ``rows`` has all columns of the table.

    :raises CommitConflictError: another writer committed the next version, with any content.
    """
    folder = snapshot.folder
    sizes = _sizes(snapshot)
    touched = _touched(folder, sizes, gone)
    added = _write(
        folder, snapshot.arrow_schema, _kept(folder, touched, snapshot.arrow_schema), rows
    )
    now_ms = int(time.time() * 1000)
    actions = [
        {
            "commitInfo": {
                "timestamp": now_ms,
                "operation": "MERGE",
                "operationParameters": {},
                "engineInfo": "tidelog",
                **_prefixed(notes),
            }
        },
        *(
            {"txn": {"appId": name, "version": version, "lastUpdated": now_ms}}
            for name, version in sorted(transactions.items())
        ),
        *(_remove(name, sizes[name], now_ms) for name in touched),
        *(_add(folder / name, now_ms) for name in added),
    ]
    version = snapshot.version + 1
    write_version(
        folder / "_delta_log", version, "\n".join(map(json.dumps, actions)), snapshot.name
    )
    committed = DeltaTable(str(folder), version=version)
    if version % CHECKPOINT_EVERY == 0:
        committed.create_checkpoint()
    return TableSnapshot(name=snapshot.name, version=version, delta=committed)


def widen(
    snapshot: TableSnapshot,
    gone: pa.Table | None,
    rows: pa.Table,
    transactions: Mapping[str, int],
    notes: Mapping[str, str],
) -> TableSnapshot:
    """Write the table anew with the columns and types of ``rows``, and add ``rows``, in one commit.

    Rows whose key columns are among ``gone`` are left out. Delta's feature typeWidening would avoid
    writing the files anew, but neither delta-rs nor DuckDB supports it. Rows are read and written a
    row group at a time.

    :raises CommitConflictError: another writer committed the next version, with any content.
    """
    every = dict.fromkeys(_sizes(snapshot), np.array([], np.int64))
    found = {} if gone is None else _touched(snapshot.folder, every, gone)
    kept = _kept(snapshot.folder, every | found, rows.schema)
    batches = chain.from_iterable(table.to_batches() for table in chain(kept, [rows]))
    reader = pa.RecordBatchReader.from_batches(rows.schema, batches)
    properties = commit_properties(notes, transactions, max_retries=0)
    with conflicts_translated(snapshot.name):
        write_deltalake(
            snapshot.delta,
            reader,
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=properties,
        )
    return after_commit(snapshot)


def _sizes(snapshot: TableSnapshot) -> dict[str, int]:
    actions = pa.table(snapshot.delta.get_add_actions(flatten=True))
    return dict(zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True))


def _touched(folder: Path, names: Collection[str], gone: pa.Table) -> Places:
    """Return, by file, the row numbers of the rows to remove, in order."""
    if not names or not gone.num_rows:
        return {}
    files = [str(folder / name) for name in names]
    same = " AND ".join(
        f"held.{quoted_name(key)} = gone.{quoted_name(key)}" for key in gone.column_names
    )
    with duckdb.connect() as connection:
        connection.register("gone", gone)
        query = f"""
            SELECT parse_filename(_file) AS name, file_row_number AS number
            FROM read_parquet($files, filename = '_file', file_row_number = true, union_by_name = true) AS held
            SEMI JOIN gone ON {same} ORDER BY name, number
            """  # noqa: S608 - names are quoted
        found = connection.execute(query, {"files": files}).fetchnumpy()
    places = np.asarray(found["number"], np.int64)
    held, starts = np.unique(np.asarray(found["name"], dtype=str), return_index=True)
    return dict(zip(map(str, held), np.split(places, starts[1:]), strict=True))


def _kept(folder: Path, touched: Places, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the remaining rows of the touched files, a row group at a time."""
    for name, places in touched.items():
        with pq.ParquetFile(folder / name) as file:
            first = 0
            for number in range(file.num_row_groups):
                group = file.read_row_group(number)
                mask = np.ones(group.num_rows, np.bool_)
                mask[places[(places >= first) & (places < first + group.num_rows)] - first] = False
                first += group.num_rows
                yield _with_columns(group.filter(pa.array(mask)), schema)


def _with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``rows`` of an older file with the columns that the table has now."""
    columns = [
        (
            rows[field.name].cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(rows.num_rows, field.type)
        )
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _write(folder: Path, schema: pa.Schema, kept: Iterator[pa.Table], rows: pa.Table) -> list[str]:
    """Write the kept and the new rows into files of a good size, and return their names."""
    names: list[str] = []
    writer: pq.ParquetWriter | None = None
    written = 0
    try:
        for table in chain(kept, [rows]):
            if not table.num_rows:
                continue
            if writer is None or written > TARGET_BYTES:
                if writer is not None:
                    writer.close()
                names.append(f"part-{uuid4().hex}.parquet")
                writer, written = pq.ParquetWriter(folder / names[-1], schema), 0
            writer.write_table(table)
            written += table.nbytes
    finally:
        if writer is not None:
            writer.close()
    return names


def _remove(name: str, size: int, now_ms: int) -> dict[str, object]:
    described = {
        "deletionTimestamp": now_ms,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": size,
    }
    return {"remove": {"path": name, **described}}


def _add(file: Path, now_ms: int) -> dict[str, object]:
    described = {
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": now_ms,
        "dataChange": True,
    }
    return {"add": {"path": file.name, **described, "stats": statistics_of(file)}}


def _prefixed(notes: Mapping[str, str]) -> dict[str, str]:
    return {f"{METADATA_PREFIX}{key}": value for key, value in notes.items()}


def write_version(log: Path, version: int, text: str, name: str) -> None:
    """Create the file of a version in one step, unless another writer has created it.

    :raises CommitConflictError: another writer has created it.
    """
    draft = log / f"_commit_{uuid4()}.json.tmp"
    try:
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, log / f"{version:020}.json")
    except FileExistsError as error:
        raise CommitConflictError(
            f"another writer committed to the table {name} at the same time"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
