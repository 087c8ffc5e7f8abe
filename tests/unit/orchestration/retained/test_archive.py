"""A topic's archive is complete, in few files, and exact beside rivals.

It stands over a log in memory and a real lake, and is one with the log in SQL.
"""

import json
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import CommitConflictError, Lake
from orchestration.offsets.known_gaps import holes_in
from orchestration.offsets.planning import ProgressError
from orchestration.retained.archive_files import ARCHIVE_SCHEMA
from orchestration.retained.archive_reading import archived_topic, files_of
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.archiving import Archive
from orchestration.transforms.archiving import run as archive_run
from orchestration.transforms.archiving.run import (
    ArchiveContext,
    ArchiveReport,
    run_archive,
    swept_at,
)
from orchestration.transforms.errors import NotReadyError
from orchestration.values.ddl import parse_ddl
from orchestration.warehouse.store import Warehouse, WarehouseError
from orchestration.warehouse.topics_in_sql import IncompleteAnswerWarning, TopicRelations
from tests.unit.orchestration.memory_log import MemoryLog, MemoryReader

START_MS = 1_767_225_600_000
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SPEC = TopicSpec(name="orders", partitions=2, archive=Archive(chunk_records=40, within_s=60))
SCHEMA = parse_ddl("id BIGINT, amount DOUBLE")


class World:
    """A log, a lake, and what runs said."""

    def __init__(self, directory: Path) -> None:
        self.log = MemoryLog()
        self.lake = Lake(directory / "lake")
        self.warehouse = Warehouse(directory / "warehouse", self.lake)
        self.notes: list[str] = []
        self.pinned: list[str] = []
        self.now = NOW

    def append(self, count: int, partition: int = 0, size: int = 0) -> None:
        topic = self.log.topics.get("orders") or self.log.add_topic("orders", 2)
        for _ in range(count):
            number = topic.partitions[partition].log_end_offset
            value = json.dumps({"id": number, "amount": number / 2, "pad": "x" * size}).encode()
            topic.partitions[partition].append(
                value, key=b"k%d" % number, timestamp_ms=START_MS + 1_000 * number
            )

    def archive(self, spec: TopicSpec = SPEC, **changes: Any) -> ArchiveReport:
        context: dict[str, Any] = {
            "log": self.log,
            "lake": self.lake,
            "note": self.notes.append,
            "pin": lambda ranges: self.pinned.append(str(ranges)),
            "run_id": "run-1",
            "commit_attempts": 3,
            "now": lambda: self.now,
        }
        return run_archive(spec, ArchiveContext(**{**context, **changes}))

    def rows(self) -> list[tuple[int, int]]:
        found = (
            self.lake.existing("orders_archive")
            .dataset()
            .to_table(columns=["_partition", "_offset"])
            .to_pylist()
        )
        return sorted((row["_partition"], row["_offset"]) for row in found)

    def ask(self, sql: str, *, is_log_there: bool = True) -> list[tuple[Any, ...]]:
        self.log.reads.clear()
        relations = TopicRelations(
            self.log if is_log_there else None, {"orders": SCHEMA}, self.lake
        )
        return [tuple(row.values()) for row in self.warehouse.query(sql, relations).to_pylist()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def everything(world: World) -> list[tuple[int, int]]:
    """Return all records that were ever appended, as far as the log knows."""
    return sorted(
        (number, offset)
        for number, one in enumerate(world.log.topics["orders"].partitions)
        for offset in one.records
    )


def test_a_sweep_archives_all_that_waits_and_keeps_records_as_they_were(world: World) -> None:
    world.append(100)
    world.append(5, partition=1)
    odd = world.log.topics["orders"].partitions[1]
    odd.append(None, key=None, timestamp_ms=START_MS)
    odd.append(b"\xff\x00", key=b"\xfe", timestamp_ms=START_MS + 1)
    report = world.archive()
    assert (report.records, report.files, report.backlog) == (107, 4, 0)
    assert world.pinned == ["0:[0,40) 1:[0,7)", "0:[40,80)", "0:[80,100)"]
    assert world.rows() == everything(world)
    table = world.lake.existing("orders_archive").dataset().to_table()
    last = [row for row in table.to_pylist() if row["_partition"] == 1][-2:]
    assert [(row["_key"], row["_value"]) for row in last] == [(None, None), (b"\xfe", b"\xff\x00")]
    assert set(table["_topic_id"].to_pylist()) == {"id-of-orders"}
    assert last[1]["_timestamp"] == datetime(2026, 1, 1, microsecond=1_000, tzinfo=UTC)
    assert swept_at(world.lake.existing("orders_archive")) == int(NOW.timestamp())
    assert world.archive().version is None


def test_without_a_sweep_only_full_chunks_go(world: World) -> None:
    world.append(85)
    world.append(39, partition=1)
    report = world.archive(is_sweep=False)
    assert (report.records, report.backlog, report.next_offsets) == (80, 44, {0: 80})
    assert swept_at(world.lake.existing("orders_archive")) is None


def test_a_chunk_ends_where_it_is_large_and_offsets_without_records_move_the_end(
    world: World,
) -> None:
    world.append(30, size=1_000)
    world.log.topics["orders"].partitions[0].skip(3)
    world.log.topics["orders"].partitions[1].skip(7)
    with mock.patch.object(type(world.log), "range_reader", _in_tens):
        report = world.archive(file_bytes=9_000)
    assert report.files == 3
    assert report.next_offsets == {0: 33, 1: 7}
    assert world.rows() == everything(world)


def test_a_batch_that_cannot_be_read_is_a_hole_and_what_is_behind_is_archived(world: World) -> None:
    """An archive stopped at it for ever, until retention removed what it had not read."""
    world.append(3)
    first, second = world.log.topics["orders"].partitions
    first.append_unreadable(4, b"broken")
    world.append(2)
    first.append_unreadable(1, b"broken")
    second.append_unreadable(2, b"broken")
    report = world.archive()
    assert report.next_offsets == {0: 10, 1: 2}
    assert report.backlog == 0
    archived = world.lake.existing("orders_archive")
    rows = (
        archived.dataset()
        .to_table(columns=["_partition", "_offset"])
        .sort_by("_offset")
        .to_pylist()
    )
    assert [(row["_partition"], row["_offset"]) for row in rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 7),
        (0, 8),
    ]
    holes = holes_in("id-of-orders", 0, archived.transaction_version)
    assert [(one.start, one.end) for one in holes] == [(3, 7), (9, 10)]
    assert any(
        "orders-0: the batch at offsets 3 to 6 cannot be read: " in note for note in world.notes
    )
    world.append(1)
    world.append(1, partition=1)
    assert world.archive().records == 2


@pytest.mark.parametrize("is_scanned_twice", [False, True])
def test_a_batch_that_cannot_be_read_is_left_out_of_an_answer_with_a_warning(
    world: World, is_scanned_twice: bool
) -> None:
    """Any question to the topic failed at it."""
    world.append(3)
    first, second = world.log.topics["orders"].partitions
    first.append_unreadable(4, b"broken")
    second.append_unreadable(2, b"broken")
    world.append(2)
    more = (
        " UNION ALL SELECT _partition, _offset FROM topics.orders WHERE _offset < 0"
        if is_scanned_twice
        else ""
    )
    with pytest.warns(IncompleteAnswerWarning) as told:
        found = world.ask(f"SELECT _partition, _offset FROM topics.orders{more} ORDER BY ALL")
    assert found == [(0, 0), (0, 1), (0, 2), (0, 7), (0, 8)]
    assert sorted(str(one.message) for one in told) == [
        "orders-0: the batch at offsets 3 to 6 cannot be read: CORRUPT_MESSAGE. The answer lacks its records",
        "orders-1: the batch at offsets 0 to 1 cannot be read: CORRUPT_MESSAGE. The answer lacks its records",
    ]


def test_records_without_timestamp_are_found(world: World) -> None:
    world.append(3)
    with mock.patch.object(type(world.log), "range_reader", _without_timestamps):
        world.archive()
    world.append(2)
    world.archive()
    stamps = world.lake.existing("orders_archive").dataset().to_table()["_timestamp"]
    assert stamps.null_count == 3
    query = world.warehouse.query
    assert query(
        "SELECT count(*) AS n FROM orders_archive WHERE _timestamp IS NULL"
    ).to_pylist() == [{"n": 3}]
    assert query(
        "SELECT count(*) AS n FROM orders_archive WHERE _timestamp > '2020-01-01'"
    ).to_pylist() == [{"n": 2}]
    assert world.ask("SELECT count(*) FROM topics.orders WHERE _timestamp IS NULL") == [(3,)]
    assert world.ask(
        "SELECT count(*) FROM topics.orders WHERE _timestamp > TIMESTAMPTZ '2020-01-01 00:00:00Z'"
    ) == [(2,)]


def _stamped(*stamps_ms: int) -> Any:
    """A reader whose records have these timestamps."""

    def reader(log: MemoryLog, *, is_tolerant: bool = False) -> Any:
        read = MemoryReader(log.topics, log.reads, is_tolerant)

        def call(topic: str, wanted: Any, *, topic_id: str | None = None) -> Any:
            for batch in read(topic, wanted, topic_id=topic_id):
                place = batch.schema.get_field_index("timestamp")
                field = batch.schema.field(place)
                yield batch.set_column(
                    place, field, pa.array(stamps_ms, pa.int64()).cast(field.type)
                )

        return call

    return reader


def test_records_with_whatever_timestamp_are_archived_and_found(world: World) -> None:
    """A producer may stamp a record with microseconds or nanoseconds for milliseconds.

    It may stamp a number below all years, too.
    """
    stamps_ms = (START_MS, 10**15, -(10**15), 10**18, -30_000_000_000_000)
    world.append(5)
    with mock.patch.object(type(world.log), "range_reader", _stamped(*stamps_ms)):
        assert world.archive().records == 5
        assert world.archive().version is None
    (file,) = files_of(world.lake.existing("orders_archive"))
    assert file.times_ms is not None
    assert file.times_ms[0] <= -30_000_000_000_000 < START_MS < file.times_ms[1]
    assert world.ask(
        "SELECT _offset FROM topics.orders WHERE _timestamp = TIMESTAMPTZ '2026-01-01 00:00:00Z'"
    ) == [(0,)]
    assert world.ask(
        "SELECT _offset FROM topics.orders WHERE _timestamp > TIMESTAMPTZ '2030-01-01 00:00:00Z'"
    ) == [(1,)]
    assert world.ask("SELECT _offset FROM topics.orders WHERE _timestamp IS NULL") == [(3,)]


@pytest.mark.parametrize("stamp_ms", [1_001, 537_961_980_527, 2_180_343_647_272])
def test_a_file_tells_its_times_to_the_millisecond(world: World, stamp_ms: int) -> None:
    world.append(1)
    with mock.patch.object(type(world.log), "range_reader", _stamped(stamp_ms)):
        world.archive()
    (file,) = files_of(world.lake.existing("orders_archive"))
    assert file.times_ms == (stamp_ms, stamp_ms)


def test_records_of_a_topic_that_is_created_anew_while_it_is_read_are_archived_as_its_own(
    world: World,
) -> None:
    world.append(10)
    plain = type(world.log).range_reader
    seen: list[int] = []

    def anew(log: MemoryLog, *, is_tolerant: bool = False) -> Any:
        if not seen:
            seen.append(1)
            log.add_topic("orders", 2, topic_id="another")
            world.append(10)
        return plain(log, is_tolerant=is_tolerant)

    with mock.patch.object(type(world.log), "range_reader", anew):
        world.archive()
    rows = (
        world.lake.existing("orders_archive")
        .dataset()
        .to_table(columns=["_topic_id", "_offset"])
        .to_pylist()
    )
    assert sorted((row["_topic_id"], row["_offset"]) for row in rows) == [
        ("another", offset) for offset in range(10)
    ]
    assert "it was deleted and created anew" in world.notes[0]


def _without_timestamps(log: MemoryLog, *, is_tolerant: bool = False) -> Any:
    read = MemoryReader(log.topics, log.reads, is_tolerant)

    def call(topic: str, wanted: Any, *, topic_id: str | None = None) -> Any:
        for batch in read(topic, wanted, topic_id=topic_id):
            place = batch.schema.get_field_index("timestamp")
            yield batch.set_column(
                place,
                batch.schema.field(place),
                pa.nulls(batch.num_rows, batch.schema.field(place).type),
            )

    return call


def _in_tens(log: MemoryLog, *, is_tolerant: bool = False) -> Any:
    read = MemoryReader(log.topics, log.reads, is_tolerant)

    def call(topic: str, wanted: Any, *, topic_id: str | None = None) -> Any:
        for batch in read(topic, wanted, topic_id=topic_id):
            for at in range(0, batch.num_rows, 10):
                yield batch.slice(at, 10)

    return call


def test_what_is_above_the_last_stable_offset_waits(world: World) -> None:
    world.append(10)
    world.log.topics["orders"].partitions[0].last_stable_offset = 6
    assert world.archive().next_offsets == {0: 6}
    world.log.topics["orders"].partitions[0].last_stable_offset = None
    assert world.archive().records == 4


def test_a_rival_that_commits_first_leaves_neither_doubles_nor_files(world: World) -> None:
    world.append(10)
    world.archive()
    world.append(10)
    commit = archive_run.commit_chunks
    calls: list[int] = []

    def late(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            World.archive(world)
        commit(*arguments)

    with mock.patch.object(archive_run, "commit_chunks", late):
        report = world.archive()
    assert report.version is None
    assert world.rows() == everything(world)
    assert "at the same time" in world.notes[-1]
    folder = world.lake.existing("orders_archive").folder
    assert sorted(
        file for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts
    ) == sorted(world.lake.existing("orders_archive").files)
    world.append(1)
    with (
        mock.patch.object(archive_run, "commit_chunks", side_effect=CommitConflictError("always")),
        pytest.raises(CommitConflictError),
    ):
        world.archive()


def test_retention_that_overtook_the_archive_and_a_recreated_topic_are_told(world: World) -> None:
    world.append(10)
    world.archive()
    world.append(10)
    world.log.delete_records("orders", {0: 15})
    with pytest.raises(ProgressError, match=r"the offsets \[10, 15\) were removed"):
        world.archive()
    with pytest.warns(
        IncompleteAnswerWarning,
        match=r"removed from the log, or could not be read, before they were archived: offsets 0:\[10,15\)",
    ):
        assert world.ask("SELECT count(*) FROM topics.orders") == [(15,)]
    assert world.archive(is_loss_accepted=True).records == 5
    world.log.add_topic("orders", 2, topic_id="another")
    world.append(3)
    assert world.archive().records == 3
    assert "was recreated" in world.notes[-1]
    assert world.ask("SELECT count(*), max(_offset) FROM topics.orders") == [(3, 2)]
    assert world.warehouse.query("SELECT count(*) AS n FROM orders_archive").to_pylist() == [
        {"n": 18}
    ]


def test_no_topic_and_a_table_of_that_name_are_sentences(world: World) -> None:
    with pytest.raises(NotReadyError, match="there is no topic orders: materialize topics/orders"):
        world.archive()
    world.append(1)
    world.lake.create("orders_archive", ARCHIVE_SCHEMA)
    with pytest.raises(
        SchemaConflictError,
        match="a table orders_archive that is not the archive of the topic orders",
    ):
        world.archive()


def test_files_that_are_no_longer_kept_go_and_the_log_fills_in_what_it_has(world: World) -> None:
    spec = TopicSpec(name="orders", archive=Archive(chunk_records=40, within_s=60, kept_days=0.5))
    world.append(100)
    world.now = datetime.fromtimestamp(START_MS / 1000, UTC) + timedelta(days=0.5, seconds=50)
    report = world.archive(spec)
    assert (report.files, report.files_expired) == (3, 1)
    world.append(1)
    assert world.archive(spec).files_expired == 0
    assert world.rows() == [(0, offset) for offset in range(40, 101)]
    assert world.ask("SELECT count(*), count(DISTINCT _offset) FROM topics.orders") == [(101, 101)]
    assert [read[2:] for read in world.log.reads] == [(0, 40)]
    world.now += timedelta(days=2)
    assert world.archive(spec).files_expired == 3
    assert world.archive(spec).version is None
    assert world.lake.existing("orders_archive").row_count == 0
    assert world.ask("SELECT count(*), count(DISTINCT _offset) FROM topics.orders") == [(101, 101)]


@pytest.fixture
def half(world: World) -> World:
    """Return a topic of which 80 of 120 records per partition are archived.

    The log begins at 60, and no record is in one file with all others.
    """
    for partition in (0, 1):
        world.append(80, partition)
    world.archive()
    for partition in (0, 1):
        world.append(40, partition)
    world.log.delete_records("orders", {0: 60, 1: 60})
    return world


@pytest.mark.parametrize(
    ("where", "count", "files", "reads"),
    [
        ("TRUE", 240, 4, [(0, 80, 120), (1, 80, 120)]),
        ("_offset < 40", 80, 2, []),
        ("_offset BETWEEN 70 AND 89 AND _partition = 1", 20, 1, [(1, 80, 90)]),
        ("_offset >= 100", 40, 0, [(0, 100, 120), (1, 100, 120)]),
        ("_timestamp >= TIMESTAMPTZ '2026-01-01 00:01:10Z'", 100, 2, [(0, 80, 120), (1, 80, 120)]),
        ("_timestamp < TIMESTAMPTZ '2026-01-01 00:00:30Z'", 60, 2, [(0, 80, 120), (1, 80, 120)]),
        ("_timestamp >= TIMESTAMPTZ '2026-01-01 00:01:50Z'", 20, 0, [(0, 110, 120), (1, 110, 120)]),
        ("_key = 'k79'", 2, 4, [(0, 80, 120), (1, 80, 120)]),
        ("id = 100 AND _value LIKE '%100%'", 2, 4, [(0, 80, 120), (1, 80, 120)]),
        ("amount > 59 AND _partition = 0", 1, 2, [(0, 80, 120)]),
    ],
)  # fmt: skip
def test_archive_and_log_are_one_and_only_what_is_needed_is_read(
    half: World, where: str, count: int, files: int, reads: list[tuple[int, int, int]]
) -> None:
    opened: list[str] = []
    dataset = pads.dataset

    def counted(source: object, *arguments: Any, **more: Any) -> Any:
        opened.append(str(source))
        return dataset(source, *arguments, **more)

    with mock.patch.object(pads, "dataset", counted):
        assert half.ask(f"SELECT count(*) FROM topics.orders WHERE {where}") == [(count,)]
    assert len([path for path in opened if "_partition=" in path]) == files
    assert [read[1:] for read in half.log.reads] == reads


def test_all_columns_are_the_same_from_the_archive_and_from_the_log(half: World) -> None:
    sql = "SELECT _partition, _offset, _timestamp, _key, _value, _bytes, id, amount FROM topics.orders WHERE _offset IN (79, 80) ORDER BY ALL"
    from_both = half.ask(sql)
    assert [row[:2] for row in from_both] == [(0, 79), (0, 80), (1, 79), (1, 80)]
    for _, offset, moment, key, value, raw, identity, amount in from_both:
        assert moment == datetime.fromtimestamp(START_MS / 1000 + offset, UTC)
        assert (key, value.encode(), identity, amount) == (f"k{offset}", raw, offset, offset / 2)


@pytest.mark.parametrize(
    "columns",
    [
        "_value",
        "_bytes",
        "_headers",
        "_key, _timestamp",
        "length(_value), upper(_key)",
        "amount",
        "*",
        "o._offset, o.id",
    ],
)
def test_columns_that_a_question_names_are_there_whatever_it_does_with_them(
    half: World, columns: str
) -> None:
    with_columns = half.ask(
        f"SELECT {columns} FROM topics.orders AS o ORDER BY _partition, _offset"
    )
    half.warehouse.lake.path("orders_archive").rename(half.warehouse.lake.root / "elsewhere")
    for number, one in enumerate(half.log.topics["orders"].partitions):
        assert len(one.records) == 60, number
    from_log = half.ask(f"SELECT {columns} FROM topics.orders AS o ORDER BY _partition, _offset")
    assert [row for number, row in enumerate(with_columns) if number % 120 >= 60] == from_log


def test_a_topic_with_an_archive_may_be_named_twice_and_beside_tables(half: World) -> None:
    twice = "SELECT count(*) FROM topics.orders a JOIN topics.orders b USING (_offset) WHERE a._partition = 0 AND b._partition = 1"
    assert half.ask(twice) == [(120,)]
    sql = "SELECT (SELECT count(*) FROM topics.orders), (SELECT count(*) FROM orders_archive), (SELECT max(id) FROM topics.orders)"
    assert half.ask(sql) == [(240, 160, 119)]


def test_a_limit_does_not_read_a_whole_topic(half: World) -> None:
    half.append(30_000)
    half.log.topics["orders"].partitions[1].last_stable_offset = 90
    assert len(half.ask("SELECT _offset FROM topics.orders WHERE _offset >= 80 LIMIT 3")) == 3
    assert half.log.reads == [("orders", 0, 80, 30_120)]


def test_the_archive_can_be_asked_without_a_log_and_where_the_topic_is_gone(half: World) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert half.ask("SELECT count(*), max(id) FROM topics.orders", is_log_there=False) == [
            (160, 79)
        ]
    del half.log.topics["orders"]
    with pytest.warns(IncompleteAnswerWarning, match="there is no topic orders any more"):
        assert half.ask("SELECT count(*) FROM topics.orders WHERE _partition = 1") == [(80,)]


def test_retention_that_follows_the_archive_while_a_question_is_asked_makes_no_gap(
    half: World,
) -> None:
    look = half.log.partition_offsets
    seen: list[str] = []

    def look_and_lose(topic: str) -> Any:
        found = look(topic)
        if not seen:
            seen.append(topic)
            half.archive()
            half.log.delete_records("orders", {0: 120, 1: 120})
        return found

    with mock.patch.object(half.log, "partition_offsets", look_and_lose), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert half.ask("SELECT count(*), count(DISTINCT _offset) FROM topics.orders") == [
            (240, 120)
        ]


def test_a_question_about_no_topic_is_told_so(half: World) -> None:
    with pytest.raises(WarehouseError, match=r"nowhere(.|\n)*marts: none; no topics: nowhere\)"):
        half.ask("SELECT * FROM topics.orders JOIN topics.nowhere USING (_offset)")
    with pytest.raises(WarehouseError, match=r"; no archived topics: nowhere\)"):
        half.ask("SELECT * FROM topics.nowhere", is_log_there=False)
    with pytest.raises(
        WarehouseError, match=r"LINE 2: SELECT nofield FROM topics\.orders\n {15}\^"
    ):
        half.ask("SELECT nofield FROM topics.orders")


def test_merging_files_changes_nothing_that_is_read(half: World) -> None:
    before = half.ask("SELECT _partition, _offset, _value FROM topics.orders ORDER BY ALL")
    half.lake.compact("orders_archive")
    snapshot = half.lake.existing("orders_archive")
    assert len(snapshot.files) == 2
    assert half.ask("SELECT _partition, _offset, _value FROM topics.orders ORDER BY ALL") == before
    ranges = archived_topic(snapshot, "id-of-orders").ranges([0, 1])
    assert {number: (one.start, one.end) for number, one in ranges.items()} == {
        0: (0, 80),
        1: (0, 80),
    }
    assert half.archive().records == 80
    assert half.rows() == [(number, offset) for number in (0, 1) for offset in range(120)]


def test_headers_are_archived_as_they_were(half: World) -> None:
    place = (
        half.log.topics["orders"]
        .partitions[0]
        .append(b"{}", headers=[("trace", b"1"), ("none", None), ("trace", b"2")])
    )
    wanted = [
        {"key": "trace", "value": b"1"},
        {"key": "none", "value": None},
        {"key": "trace", "value": b"2"},
    ]
    half.archive()
    told = half.warehouse.query(
        f"SELECT _headers FROM orders_archive WHERE _partition = 0 AND _offset = {place}"
    ).to_pylist()
    assert told == [{"_headers": wanted}]


def test_an_archive_is_a_table_like_others(half: World) -> None:
    query = half.warehouse.query
    assert query(
        "SELECT count(*) AS n FROM orders_archive WHERE _key = 'k7'::BLOB"
    ).to_pylist() == [{"n": 2}]
    assert query(
        "SELECT count(*) AS n FROM orders_archive WHERE _value IS NULL OR len(_headers) = 0"
    ).to_pylist() == [{"n": 160}]
    assert query(
        "SELECT count(*) AS n FROM orders_archive WHERE _leader_epoch = 0 AND _partition = 1"
    ).to_pylist() == [{"n": 80}]
    assert query(
        "SELECT count(*) AS n FROM orders_archive WHERE decode(_value) LIKE '%\"id\": 7,%'"
    ).to_pylist() == [{"n": 2}]
    (first, *_) = sorted(
        files_of(half.lake.existing("orders_archive")),
        key=lambda one: (one.partition, one.offsets or (0, 0)),
    )
    assert (first.partition, first.topic_ids, first.offsets) == (
        0,
        ("id-of-orders", "id-of-orders"),
        (0, 39),
    )
    assert first.times_ms == (START_MS, START_MS + 39_000)


def test_a_failed_commit_that_is_no_conflict_leaves_the_lake_as_it_was(world: World) -> None:
    world.append(5)
    world.archive()
    world.append(5)
    with (
        mock.patch.object(archive_run, "commit_chunks", side_effect=OSError("disk")),
        pytest.raises(OSError, match="disk"),
    ):
        world.archive()
    assert world.rows() == [(0, offset) for offset in range(5)]
    assert world.archive().records == 5
    assert world.rows() == everything(world)
