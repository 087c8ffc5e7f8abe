"""Each sink, source and shape has a line that is killed at random.

A line knows its input, its run and its expected rows. The judge of each line is a plain loop over
what was sent. A run is a function of this module, so that a process of its own can do it.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import pyarrow as pa
from deltalake import write_deltalake

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.settings import load_settings
from orchestration.sources import reading
from orchestration.sources.dropped_files import DroppedFiles
from orchestration.sources.reading import Source
from orchestration.sources.run import prepared, run_source, sender_id
from orchestration.sources.sql_rows import SqlRows
from orchestration.spark.session import open_session
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving.run import ArchiveContext, run_archive
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.to_database.replay import DatabaseReplayer
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from orchestration.warehouse.store import Warehouse
from tests.platform import accounts, grouped, killed_archiving, pipeline
from tests.platform.captured import CapturedTable, Records, found_records
from tests.platform.databases import Database
from tests.platform.dying_anywhere import Job
from tests.platform.killed_storing import TABLE, declared, follower
from tests.platform.pipeline import Notes, run_context
from tests.unit.orchestration.memory_log import MemoryLog

EVERYTHING = ReplayRequest(is_everything=True)
PORTION = 3
TABLES: dict[str, Callable[[], TopicTable]] = {
    "clean_orders": lambda: pipeline.orders_table(unique_by=()),
    "accounts": accounts.accounts_table,
    "by_kind": grouped.grouped_table,
}


class Line(Protocol):
    """Something that is fed in rounds, run, and held to what it was fed."""

    def feed(self, number: int) -> None:
        """Send what a round brings."""

    def job(self, *, limit: int, is_replayed: bool) -> Job:
        """Return a run over all waiting records, ``limit`` of them at a time.

        Afterwards everything is replayed where that is possible.
        """

    def look(self) -> None:
        """Look as a reader does at any moment: what is there may be old, and never wrong."""

    def judge(self) -> None:
        """Compare what is there with all that was sent."""


# Tables of the lake


def follow(
    *, remote: str, log: MemoryLog, lake: Path, name: str, limit: int, is_replayed: bool
) -> None:
    """Be a run of a table of the lake."""
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    context = run_context(log, lake, session, records_per_run=limit)
    table = TABLES[name]()
    while (result := run_topic_table(table, context)).version is not None:
        pass
    assert not result.failures
    if is_replayed:
        for result in run_replay(table, context, EVERYTHING):
            assert not result.failures


class LakeLine:
    """A table of the lake that follows a topic."""

    def __init__(self, remote: str, directory: Path, table: str, topic: str) -> None:
        self._remote, self._table = remote, table
        self.lake = directory / "lake"
        self.log = MemoryLog()
        self.log.add_topic(topic, 2)

    def job(self, *, limit: int, is_replayed: bool) -> Job:
        return partial(
            follow,
            remote=self._remote,
            log=self.log,
            lake=self.lake,
            name=self._table,
            limit=limit,
            is_replayed=is_replayed,
        )

    def letters(self) -> Counter[tuple[int, int]]:
        """Return the places of the dead letters that count."""
        letters = DeadLetters(Lake(self.lake))
        found = letters.committed().to_table(columns=["_partition", "_offset"]).to_pylist()
        return Counter((row["_partition"], row["_offset"]) for row in found)


class AppendedLine(LakeLine):
    """Orders: every row, and every order that is rejected."""

    def __init__(self, remote: str, directory: Path) -> None:
        super().__init__(remote, directory, "clean_orders", "orders")

    def feed(self, number: int) -> None:
        feed_orders(self.log, number)

    def look(self) -> None:
        held = pipeline.rows_of(self.lake)
        assert len(set(held)) == len(held)

    def judge(self) -> None:
        assert pipeline.rows_of(self.lake) == orders_of(self.log)
        assert self.letters() == Counter(
            places_of(self.log, "orders") - {one[:2] for one in orders_of(self.log)}
        )


class LatestLine(LakeLine):
    """Accounts: the newest row of each."""

    def __init__(self, remote: str, directory: Path) -> None:
        super().__init__(remote, directory, "accounts", "accounts")

    def feed(self, number: int) -> None:
        accounts.append_round(self.log, number)

    def look(self) -> None:
        accounts.held_accounts(self.lake)

    def judge(self) -> None:
        assert accounts.held_accounts(self.lake) == accounts.accounts_of(self.log)
        assert self.letters() == rejected_accounts(self.log)


class AggregateLine(LakeLine):
    """Orders by their kind: counts and totals."""

    def __init__(self, remote: str, directory: Path) -> None:
        super().__init__(remote, directory, "by_kind", "orders")

    def feed(self, number: int) -> None:
        grouped.append_orders(self.log, number)

    def look(self) -> None:
        grouped.held_groups(self.lake)

    def judge(self) -> None:
        groups, rejected = grouped.groups_of(self.log)
        assert grouped.held_groups(self.lake) == groups
        assert self.letters().total() == len(self.letters()) == rejected


def feed_orders(log: MemoryLog, number: int) -> None:
    """Append orders of which some are rejected and some are there twice."""
    for position in range(12):
        value = (
            b"nonsense"
            if position == 5
            else pipeline.order(f"{number}-{position % 9}", position - 1)
        )
        log.topics["orders"].partitions[position % 2].append(value)
        log.topics["orders"].partitions[position % 2].skip(position % 3)


def orders_of(log: MemoryLog) -> list[tuple[int, int, str]]:
    """Return the rows that a plain loop makes of the orders: partition, offset and id."""
    found = []
    for number, partition in enumerate(log.topics["orders"].partitions):
        for offset, (_, _, _, value) in partition.records.items():
            if value is not None and value != b"nonsense" and json.loads(value)["amount"] > 0:
                found.append((number, offset, json.loads(value)["id"]))
    return sorted(found)


def places_of(log: MemoryLog, topic: str) -> set[tuple[int, int]]:
    """Return partition and offset of every record."""
    return {
        (number, offset)
        for number, one in enumerate(log.topics[topic].partitions)
        for offset in one.records
    }


def rejected_accounts(log: MemoryLog) -> Counter[tuple[int, int]]:
    """Return the places of the accounts that the rule rejects, or that are none."""
    return Counter(
        (number, offset)
        for number, partition in enumerate(log.topics["accounts"].partitions)
        for offset, (_, _, _, value) in partition.records.items()
        if value is not None and (value == b"nonsense" or json.loads(value)["balance"] < 0)
    )


# Tables of databases


def store(
    *,
    remote: str,
    log: MemoryLog,
    place: Database,
    lake: Path,
    is_keyed: bool,
    limit: int,
    is_replayed: bool,
) -> None:
    """Be a run of a table of a database."""
    session = open_session(load_settings({"TIDELOG_SPARK_REMOTE": remote}))
    table = follower(TABLE, is_keyed=is_keyed)
    with place.store(TABLE, table.latest_by) as opened:
        work = Storing(declared=declared(place, table), store=opened)
        context = run_context(log, lake, session, records_per_run=limit)
        while (result := work.run(table, context)).version is not None:
            pass
        assert not result.failures
        if is_replayed:
            replayer = DatabaseReplayer(work, context)
            assert not any(one.failures for one in replayer.run(replayer.plan(EVERYTHING)))


class DatabaseLine(LakeLine):
    """A table of a database: the newest row of each account, or every order."""

    def __init__(self, remote: str, directory: Path, place: Database, *, is_keyed: bool) -> None:
        super().__init__(remote, directory, TABLE, "accounts" if is_keyed else "orders")
        self._place, self._is_keyed = place, is_keyed

    def feed(self, number: int) -> None:
        (accounts.append_round if self._is_keyed else feed_orders)(self.log, number)

    def job(self, *, limit: int, is_replayed: bool) -> Job:
        return partial(
            store,
            remote=self._remote,
            log=self.log,
            place=self._place,
            lake=self.lake,
            is_keyed=self._is_keyed,
            limit=limit,
            is_replayed=is_replayed,
        )

    def look(self) -> None:
        columns = ("id",) if self._is_keyed else ("_partition", "_offset")
        held = self._place.rows(TABLE, *columns)
        assert len(set(held)) == len(held)

    def judge(self) -> None:
        if self._is_keyed:
            assert self._place.rows(TABLE, "id", "balance") == sorted(
                accounts.accounts_of(self.log).items()
            )
            assert self.letters() == rejected_accounts(self.log)
        else:
            assert self._place.rows(TABLE, "_partition", "_offset", "id") == orders_of(self.log)
            assert self.letters() == Counter(
                places_of(self.log, "orders") - {one[:2] for one in orders_of(self.log)}
            )


# An archive


def keep(log: MemoryLog, lake: Path) -> None:
    """Be a run of an archive."""
    notes = Notes()
    context = ArchiveContext(
        log=log,
        lake=Lake(lake),
        note=notes.note,
        pin=lambda ranges: notes.pin("archive", ranges),
        run_id="run",
        commit_attempts=3,
    )
    run_archive(killed_archiving.SPEC, context)


class ArchiveLine:
    """Every record as it was, in chunks of ten."""

    def __init__(self, directory: Path) -> None:
        self.lake = Lake(directory / "lake")
        self.log = MemoryLog()
        self.log.add_topic("orders", 2)

    def feed(self, number: int) -> None:
        for partition, count in zip(
            self.log.topics["orders"].partitions, (23, 4 + number % 9), strict=True
        ):
            for position in range(count):
                partition.append(b"%d-%d" % (number, position), key=b"k")
                partition.skip(position % 2)

    def job(self, *, limit: int, is_replayed: bool) -> Job:
        del limit, is_replayed
        return partial(keep, self.log, self.lake.root)

    def look(self) -> None:
        assert not self._held() - self._sent()

    def judge(self) -> None:
        assert self._held() == self._sent()
        self.lake.vacuum("orders_archive", retention_hours=0)
        folder = self.lake.existing("orders_archive").folder
        assert sorted(folder.glob("_partition=*/*")) == sorted(
            self.lake.existing("orders_archive").files
        ), "a file is left of a dead run"

    def _sent(self) -> Counter[tuple[int, int, bytes]]:
        partitions = enumerate(self.log.topics["orders"].partitions)
        return Counter(
            (number, offset, one[3] or b"")
            for number, part in partitions
            for offset, one in part.records.items()
        )

    def _held(self) -> Counter[tuple[int, int, bytes]]:
        snapshot = self.lake.snapshot("orders_archive")
        rows = (
            []
            if snapshot is None
            else snapshot.dataset()
            .to_table(columns=["_partition", "_offset", "_value"])
            .to_pylist()
        )
        return Counter((row["_partition"], row["_offset"], row["_value"]) for row in rows)


# Sources


def capture(bootstrap: str, source: Source, target: str) -> None:
    """Be a run of a source."""
    mock.patch.object(reading, "PORTION_RECORDS", PORTION).start()
    identity = sender_id(target, None)
    with connect(bootstrap) as log:
        topic = prepared(
            log, TopicSpec(name=target, partitions=2, configs={"retention.ms": "-1"}), print
        )
        with log.open_sender(identity) as sender:
            run_source(
                source,
                identity,
                topic,
                log,
                sender,
                run_id="run",
                now=datetime.now(UTC),
                note=print,
            )


class SourceLine:
    """A source sends each change once to a topic of a real broker."""

    def __init__(self, bootstrap: str, source: Source, target: str) -> None:
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self.sent: Records = Counter()

    def job(self, *, limit: int, is_replayed: bool) -> Job:
        del limit, is_replayed
        return partial(capture, self._bootstrap, self._source, self._target)

    def look(self) -> None:
        """A transaction of the dead may be open, so that readers wait."""

    def judge(self) -> None:
        assert found_records(self._bootstrap, self._target) == self.sent


class TableLine(SourceLine):
    """A table whose changes are captured."""

    def __init__(self, bootstrap: str, place: Database, *, is_compared: bool) -> None:
        self._table, self._is_compared = CapturedTable(place), is_compared
        cursor, compare_every_s = (None, 0) if is_compared else ("changed", None)
        source = SqlRows(
            url=place.address,
            table="people",
            key=("id",),
            cursor=cursor,
            compare_every_s=compare_every_s,
        )
        super().__init__(bootstrap, source, "compared" if is_compared else "changed")

    def feed(self, number: int) -> None:
        if number and self._is_compared:
            # Of a row that changed twice between two looks nobody knows the first change.
            self.sent.update([self._table.remove(10 * number - 5)])
        self.sent.update(self._table.put(10 * number + position, "new") for position in range(7))
        if number:
            self.sent.update(
                self._table.put(10 * number - 10 + position, "old") for position in range(3)
            )


class FilesLine(SourceLine):
    """Files that are dropped into a folder."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._folder = directory / "inbox"
        self._folder.mkdir()
        self._files = 0
        super().__init__(
            bootstrap, DroppedFiles(folder=self._folder, key="id", settle_s=0), "dropped"
        )

    def feed(self, number: int) -> None:
        lines = [json.dumps({"id": f"{number}-{position}"}).encode() for position in range(7)]
        draft = self._folder / ".draft"
        draft.write_bytes(b"\n".join(lines))
        draft.rename(self._folder / f"orders-{number}.jsonl")
        self._files += 1
        self.sent.update((json.loads(line)["id"].encode(), line) for line in lines)

    def judge(self) -> None:
        super().judge()
        assert [path.name for path in self._folder.iterdir()] == ["done"]
        assert len(list((self._folder / "done").iterdir())) == self._files


# Marts

BY_KIND = "SELECT kind, count(*) AS sales, sum(amount)::BIGINT AS amount FROM sales GROUP BY kind"
LARGEST = "SELECT max(amount) AS amount FROM by_kind"
Mart = list[tuple[Any, ...]]


def build(directory: Path) -> None:
    """Be a run of two marts, of which one is built of the other."""
    warehouse = Warehouse(directory / "warehouse", Lake(directory / "lake"))
    warehouse.build("by_kind", BY_KIND)
    warehouse.build("largest", LARGEST)


class MartLine:
    """A mart over a table of the lake, and a mart over that mart."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._warehouse = Warehouse(directory / "warehouse", Lake(directory / "lake"))
        self._totals: dict[str, tuple[int, int]] = {}
        self._states: dict[str, list[Mart]] = {"by_kind": [], "largest": []}

    def feed(self, number: int) -> None:
        sales = [("abc"[position % 3], 100 * number + position) for position in range(200)]
        table = pa.table(
            {"kind": [kind for kind, _ in sales], "amount": [amount for _, amount in sales]}
        )
        write_deltalake(self._warehouse.lake.path("sales"), table, mode="append")
        for kind, amount in sales:
            count, total = self._totals.get(kind, (0, 0))
            self._totals[kind] = (count + 1, total + amount)
        self._states["by_kind"].append(sorted((kind, *one) for kind, one in self._totals.items()))
        self._states["largest"].append([(max(total for _, total in self._totals.values()),)])

    def job(self, *, limit: int, is_replayed: bool) -> Job:
        del limit, is_replayed
        return partial(build, self._directory)

    def look(self) -> None:
        for name, states in self._states.items():
            assert self._found(name) in states[-2:], f"{name} is neither the old nor the new one"

    def judge(self) -> None:
        for name, states in self._states.items():
            assert self._found(name) == states[-1]
        for left in self._warehouse.directory.glob(".*"):
            os.utime(left, (0, 0))
        build(self._directory)
        assert sorted(path.name for path in self._warehouse.directory.iterdir()) == [
            "by_kind.duckdb",
            "largest.duckdb",
        ]

    def _found(self, name: str) -> Mart:
        return sorted(
            tuple(row.values())
            for row in self._warehouse.query(f'SELECT * FROM "{name}"').to_pylist()
        )
