"""Tables and folders become records of a log in memory.

A source may have nothing to do, or be refused.
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from orchestration.log_client.protocol import SenderFencedError
from orchestration.sources import reading
from orchestration.sources.dropped_files import DroppedFiles
from orchestration.sources.json_rows import json_key, json_value
from orchestration.sources.positions import POSITIONS, read_position
from orchestration.sources.reading import Source, SourceError
from orchestration.sources.run import prepared, run_source
from orchestration.sources.sql_rows import SqlRows, decoded, encoded
from orchestration.topics.spec import TopicSpec
from tests.unit.orchestration.memory_log import MemoryLog

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC = TopicSpec(name="t", configs={"cleanup.policy": "compact"})


class World:
    """A log, and runs of one source after another."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.notes: list[str] = []

    def run(self, source: Source, now: datetime = NOW) -> dict[str, int]:
        target = prepared(self.log, TOPIC, self.notes.append)
        with self.log.open_sender("s") as sender:
            return dict(
                run_source(
                    source,
                    "s",
                    target,
                    self.log,
                    sender,
                    run_id="r",
                    now=now,
                    note=self.notes.append,
                ).counts
            )

    def records(self, name: str = TOPIC.name) -> list[tuple[bytes | None, bytes | None]]:
        return [record[2:] for record in self.log.topics[name].partitions[0].records.values()]

    def new_values(self) -> list[Any]:
        """Return the values of the records since the last call."""
        found = [None if value is None else json.loads(value) for _, value in self.records()]
        new, self._seen = found[getattr(self, "_seen", 0) :], len(found)
        return new

    def is_wanting(self, source: Source, now: datetime = NOW) -> bool:
        target = prepared(self.log, TOPIC, self.notes.append)
        return source.is_wanting(read_position(self.log, "s", target).position, now)


class Table:
    def __init__(self, directory: Path, columns: str) -> None:
        self.url = f"sqlite:///{directory / 'source.db'}"
        self.engine = sa.create_engine(self.url)
        self.execute(f"CREATE TABLE people ({columns})")

    def execute(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def people(tmp_path: Path) -> Iterator[Table]:
    table = Table(tmp_path, "id INTEGER PRIMARY KEY, name TEXT, changed INTEGER")
    yield table
    table.engine.dispose()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "inbox"
    made.mkdir()
    return made


def test_rows_beyond_the_cursor_are_sent_in_its_order_and_rows_with_the_same_cursor_too(
    world: World, people: Table
) -> None:
    source = SqlRows(url=people.url, table="people", key=("id",), cursor="changed")
    people.execute("INSERT INTO people VALUES (2, 'b', 5), (1, 'a', 7), (9, 'z', NULL)")
    assert world.is_wanting(source)
    assert world.run(source) == {"records": 2, "transactions": 1}
    assert [value["id"] for value in world.new_values()] == [2, 1]
    assert not world.is_wanting(source)
    assert world.run(source) == {}
    people.execute("INSERT INTO people VALUES (3, 'c', 7), (0, 'y', 7)")
    assert world.is_wanting(source)
    world.run(source)
    assert world.new_values() == [{"id": 3, "name": "c", "changed": 7}]


def test_a_comparison_finds_what_is_new_changed_and_gone_and_sends_nothing_twice(
    world: World, people: Table
) -> None:
    source = SqlRows(url=people.url, table="people", key=("id",), compare_every_s=60)
    people.execute("INSERT INTO people VALUES (1, 'a', 1), (2, 'b', 1), (3, NULL, 1)")
    assert world.run(source)["records"] == 3
    people.execute("UPDATE people SET name = 'x' WHERE id = 2")
    people.execute("DELETE FROM people WHERE id = 1")
    assert not world.is_wanting(source)
    assert world.run(source) == {}
    later = NOW + timedelta(seconds=60)
    assert world.is_wanting(source, later)
    assert world.run(source, later) == {
        "records": 2,
        "transactions": 2,
        "deleted": 1,
        "comparisons": 1,
    }
    assert world.records()[3:] == [(b"2", b'{"id":2,"name":"x","changed":1}'), (b"1", None)]
    assert world.run(source, later + timedelta(seconds=60)) == {
        "records": 0,
        "transactions": 1,
        "comparisons": 1,
    }


def test_cursor_and_comparison_together_send_each_change_once(world: World, people: Table) -> None:
    source = SqlRows(
        url=people.url, table="people", key=("id",), cursor="changed", compare_every_s=60
    )
    people.execute("INSERT INTO people VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', NULL)")
    assert world.run(source)["records"] == 3
    people.execute("INSERT INTO people VALUES (4, 'd', 4), (5, 'late', 1)")
    assert world.run(source)["records"] == 1
    world.new_values()
    people.execute("DELETE FROM people WHERE id = 1")
    world.run(source, NOW + timedelta(seconds=60))
    assert world.new_values() == [{"id": 5, "name": "late", "changed": 1}, None]
    people.execute("INSERT INTO people VALUES (6, 'e', 6)")
    world.run(source, NOW + timedelta(seconds=61))
    assert [value["id"] for value in world.new_values()] == [6]


def test_portions_and_pages_lose_nothing(
    world: World, people: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PORTION_RECORDS", 3)
    monkeypatch.setattr("orchestration.sources.sql_rows.ROWS_AT_ONCE", 2)
    people.execute(
        "INSERT INTO people VALUES "
        + ", ".join(f"({number}, 'n', {number // 4})" for number in range(11))
    )
    by_cursor = SqlRows(url=people.url, table="people", key=("id",), cursor="changed")
    assert world.run(by_cursor) == {"records": 11, "transactions": 4}
    assert [value["id"] for value in world.new_values()] == list(range(11))
    people.execute("DELETE FROM people WHERE id % 2 = 0")
    assert (
        world.run(SqlRows(url=people.url, table="people", key=("id",), compare_every_s=0))[
            "deleted"
        ]
        == 6
    )


def test_young_rows_wait_and_are_not_taken_for_gone(world: World, tmp_path: Path) -> None:
    table = Table(tmp_path, "a TEXT, b INTEGER, at DATETIME, note TEXT, PRIMARY KEY (a, b)")
    source = SqlRows(
        url=table.url,
        table="people",
        key=("a", "b"),
        cursor="at",
        columns=("note",),
        delay_s=10,
        compare_every_s=0,
    )
    table.execute(
        "INSERT INTO people VALUES ('x', 1, '2025-12-31 23:59:00', 'old'), ('x', 2, '2025-12-31 23:59:55', 'young')"
    )
    assert world.run(source)["records"] == 1
    assert world.records() == [
        (b'["x",1]', b'{"note":"old","a":"x","b":1,"at":"2025-12-31T23:59:00Z"}')
    ]
    assert world.run(source, NOW + timedelta(seconds=10))["records"] == 1
    table.engine.dispose()


def test_an_older_run_sends_nothing_more(world: World, people: Table) -> None:
    people.execute("INSERT INTO people VALUES (1, 'a', 1)")
    source = SqlRows(url=people.url, table="people", key=("id",), cursor="changed")
    prepared(world.log, TOPIC, world.notes.append)
    with world.log.open_sender("s") as older:
        world.run(source)
        with pytest.raises(SenderFencedError):
            older.send_all([])


def test_a_topic_that_was_created_anew_gets_everything(world: World, people: Table) -> None:
    people.execute("INSERT INTO people VALUES (1, 'a', 1)")
    source = SqlRows(url=people.url, table="people", key=("id",), cursor="changed")
    world.run(source)
    world.log.add_topic("t", topic_id="another").configs.update(TOPIC.configs)
    assert world.run(source)["records"] == 1
    assert "gets everything anew" in world.notes[-1]
    assert len(world.records(POSITIONS.name)) == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"table": "nobody"}, "has no table nobody"),
        (
            {"cursor": "nothing"},
            "the table people has no columns nothing; it has id, name, changed",
        ),
        ({"url": "nonsense"}, "the database's URL cannot be used"),
        ({"url": "postgresql+psycopg://u:secret@/none?host=/nowhere"}, "failed"),
        ({"key": ("name",)}, "has no name: name columns as key that each row has"),
    ],
)
def test_what_cannot_be_read_says_why(
    world: World, people: Table, changes: dict[str, Any], told: str
) -> None:
    people.execute("INSERT INTO people VALUES (1, NULL, 1)")
    source = SqlRows(
        **{"url": people.url, "table": "people", "key": ("id",), "cursor": "changed", **changes}
    )
    with pytest.raises(SourceError, match=told) as error:
        world.run(source)
    assert "secret" not in str(error.value)


def test_a_position_behind_somebody_s_open_transaction_is_waited_for(
    world: World, people: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of committed records stop at the first open transaction.

    The position behind it is committed all the same.
    """
    source = SqlRows(url=people.url, table="people", key=("id",), cursor="changed")
    people.execute("INSERT INTO people VALUES (1, 'a', 1)")
    world.run(source)
    positions = world.log.topics[POSITIONS.name].partitions[0]
    positions.last_stable_offset = 0
    assert (
        read_position(
            world.log, "s", prepared(world.log, TOPIC, world.notes.append), is_final=False
        ).position
        is None
    )
    monkeypatch.setattr(reading, "sleep", lambda _: setattr(positions, "last_stable_offset", None))
    positions.last_stable_offset = 0
    assert world.run(source) == {}
    assert len(world.records()) == 1
    positions.last_stable_offset = 0
    monkeypatch.setattr(reading, "sleep", lambda _: None)
    monkeypatch.setattr(reading, "monotonic", iter(range(0, 1_000, 100)).__next__)
    with pytest.raises(
        SourceError,
        match=r"a transaction in the topic tidelog\.positions is open for more than 120 s",
    ):
        world.run(source)


def test_a_comparison_is_refused_where_the_topic_forgets(world: World, people: Table) -> None:
    world.log.add_topic("t").configs.update({"cleanup.policy": "delete", "retention.ms": "1000"})
    with pytest.raises(SourceError, match=r"give it cleanup\.policy=compact, or retention\.ms=-1"):
        world.run(SqlRows(url=people.url, table="people", key=("id",), compare_every_s=0))


def test_lines_rows_and_whole_files_become_records_oldest_first(world: World, folder: Path) -> None:
    (folder / "b.jsonl").write_bytes(b'{"id": 1}\r\n\n{"id": "x"}\nno json')
    (folder / "a.csv").write_text("id,name\n7,ä\n8,\n9,x,more\n", encoding="utf-8")
    pq.write_table(
        pa.table({"id": [5], "at": [NOW], "price": [Decimal("1.50")]}), folder / "c.parquet"
    )
    for second, name in enumerate(("b.jsonl", "a.csv", "c.parquet")):
        moment = NOW.timestamp() - 100 + second
        os.utime(folder / name, (moment, moment))
    assert world.run(DroppedFiles(folder=folder, key="id")) == {
        "records": 7,
        "transactions": 6,
        "files": 3,
    }
    assert world.records() == [
        (b"1", b'{"id": 1}'),
        (b"x", b'{"id": "x"}'),
        (None, b"no json"),
        (b"7", '{"id":"7","name":"ä"}'.encode()),
        (b"8", b'{"id":"8","name":""}'),
        (b"9", b'{"id":"9","name":"x","_extra":["more"]}'),
        (b"5", b'{"id":5,"at":"2026-01-01T00:00:00Z","price":"1.50"}'),
    ]
    assert sorted(path.name for path in (folder / "done").iterdir()) == [
        "a.csv",
        "b.jsonl",
        "c.parquet",
    ]
    assert world.run(DroppedFiles(folder=folder)) == {}


def test_files_that_cannot_be_read_are_put_aside_with_the_reason_and_others_go_on(
    world: World, folder: Path
) -> None:
    (folder / "a.csv").write_bytes(b"id\n1\n\xff\n")
    (folder / "b.parquet").write_bytes(b"nonsense")
    (folder / "c.txt").write_bytes(b"x" * 1_000_001)
    (folder / "d.txt").write_bytes(b"fine")
    assert world.run(DroppedFiles(folder=folder, settle_s=0), datetime.now(UTC))["records"] == 1
    reasons = {path.name: path.read_text() for path in (folder / "rejected").glob("*.reason.txt")}
    assert reasons["a.csv.reason.txt"].startswith("it is not UTF-8")
    assert reasons["c.txt.reason.txt"].startswith("its record 0 has 10000")
    assert len(reasons) == 3
    assert len(world.notes) == 5


def test_files_that_are_still_written_are_left_alone(world: World, folder: Path) -> None:
    for name in (".hidden", "a.part", "young"):
        (folder / name).write_text("x")
    source = DroppedFiles(folder=folder)
    assert not world.is_wanting(source, datetime.now(UTC))
    assert world.is_wanting(source, datetime.now(UTC) + timedelta(seconds=3))
    assert [path.name for path in source.ready(datetime.now(UTC) + timedelta(seconds=3))] == [
        "young"
    ]


def test_a_file_that_is_changed_in_the_middle_fails_the_run(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PORTION_RECORDS", 2)
    (folder / "a").write_text("1\n2\n3\n4\n5\n")
    source = DroppedFiles(folder=folder, settle_s=0)
    target = prepared(world.log, TOPIC, world.notes.append)
    situation = reading.Situation(log=world.log, target=target, now=datetime.now(UTC))
    portions = source.portions(None, situation, world.notes.append)
    position = next(portions).position
    (folder / "a").write_text("1\n2\nother\n")
    with pytest.raises(SourceError, match="was changed while it was read"):
        next(portions)
    with pytest.raises(
        SourceError, match="was changed or replaced after 2 of its records were sent"
    ):
        next(source.portions(position, situation, world.notes.append))


def test_values_are_written_as_topics_with_a_schema_read_them() -> None:
    row = {
        "d": Decimal("1E+2"),
        "t": datetime(2026, 1, 1, 2, tzinfo=UTC),
        "n": datetime(2026, 1, 1),  # noqa: DTZ001
        "day": date(2026, 1, 2),
        "b": b"\x00",
    }
    assert json.loads(json_value({**row, "f": float("nan"), "l": [1, {"x": b"a"}]})) == {
        "d": "100",
        "t": "2026-01-01T02:00:00Z",
        "n": "2026-01-01T00:00:00Z",
        "day": "2026-01-02",
        "b": "AA==",
        "f": None,
        "l": [1, {"x": "YQ=="}],
    }
    assert [json_key([one]) for one in (1, "ä", b"\xff", True)] == [
        b"1",
        "ä".encode(),
        b"\xff",
        b"true",
    ]
    assert json_key([1, "a"]) == b'[1,"a"]'


@pytest.mark.parametrize(
    "value",
    [1, 1.5, "x", True, b"\x00", Decimal("1.50"), date(2026, 1, 1), NOW, NOW.replace(tzinfo=None)],
)
def test_places_are_remembered_as_they_were(value: object) -> None:
    assert decoded(json.loads(json.dumps(encoded(value)))) == value
