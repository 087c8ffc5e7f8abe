"""Topics in SQL: what is read of the log for a question, and that the answer does not depend on it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from orchestration.lake.tables import Lake, replace_all
from orchestration.retained.topic_reads import Bounds
from orchestration.values.ddl import parse_ddl
from orchestration.values.rule import PLAIN, RULE
from orchestration.warehouse.store import Warehouse, WarehouseError
from orchestration.warehouse.topics_in_sql import TopicRelations, bounds_of, topic_names
from tests.unit.orchestration.memory_log import MemoryLog

SQL_TYPES = {
    "BOOLEAN": "BOOLEAN",
    "INT": "INTEGER",
    "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "STRING": "VARCHAR",
    "DECIMAL(12,2)": "DECIMAL(12,2)",
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "DATE": "DATE",
    "BINARY": "BLOB",
    "ARRAY<INT>": "INTEGER[]",
    "MAP<STRING,INT>": "MAP(VARCHAR, INTEGER)",
    "STRUCT<n: INT>": "STRUCT(n INTEGER)",
}
START_MS = 1_767_225_600_000
SCHEMA = parse_ddl("id BIGINT NOT NULL, amount DOUBLE, seen TIMESTAMP, tags ARRAY<STRING>")


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    for number, partition in enumerate(made.add_topic("orders", 2).partitions):
        for position in range(100):
            value = {
                "id": 100 * number + position,
                "amount": position / 2,
                "seen": "2026-01-01T00:00:00Z",
                "tags": ["a"],
            }
            partition.append(
                json.dumps(value).encode(),
                key=b"k%d" % position,
                timestamp_ms=START_MS + 1_000 * position,
            )
    made.add_topic("we.ird-name").partitions[0].append(
        b"\xff not text", key=None, headers=[("trace", b"1"), ("trace", None)]
    )
    return made


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    lake = Lake(tmp_path / "lake")
    rows = pa.table({"id": pa.array([3, 150], pa.int64()), "name": ["three", "many"]})
    replace_all(lake.create("names", rows.schema), rows, {}, {})
    return Warehouse(tmp_path / "warehouse", lake)


def answer(warehouse: Warehouse, log: MemoryLog, sql: str) -> list[tuple[object, ...]]:
    log.reads.clear()
    relations = TopicRelations(log, {"orders": SCHEMA})
    return [tuple(row.values()) for row in warehouse.query(sql, relations).to_pylist()]


@pytest.mark.parametrize(
    ("where", "count", "reads"),
    [
        ("TRUE", 200, [(0, 0, 100), (1, 0, 100)]),
        ("_offset >= 90 AND _partition = 1", 10, [(1, 90, 100)]),
        ("_offset BETWEEN 10 AND 12", 6, [(0, 10, 13), (1, 10, 13)]),
        ("_offset IN (5, 7)", 4, [(0, 5, 8), (1, 5, 8)]),
        ("_partition = 0 AND _offset = 3 OR _partition = 0 AND _offset = 5", 2, [(0, 3, 6)]),
        ("_offset > 97 OR amount = 1", 6, [(0, 0, 100), (1, 0, 100)]),
        ("_timestamp >= TIMESTAMPTZ '2026-01-01 00:01:30Z'", 20, [(0, 90, 100), (1, 90, 100)]),
        ("_timestamp < TIMESTAMPTZ '2026-01-01 00:00:02Z'", 4, [(0, 0, 100), (1, 0, 100)]),
        ("_timestamp > TIMESTAMPTZ '2027-01-01'", 0, []),
        ("_value = 'x AND _offset > 90 AND y'", 0, [(0, 0, 100), (1, 0, 100)]),
        ("_offset > 500", 0, []),
        ("_offset % 2 = 0 AND _offset < 4", 4, [(0, 0, 4), (1, 0, 4)]),
        ("NOT (_offset < 95)", 10, [(0, 95, 100), (1, 95, 100)]),
    ],
)  # fmt: skip
def test_only_what_the_question_can_concern_is_read(
    warehouse: Warehouse, log: MemoryLog, where: str, count: int, reads: list[tuple[int, int, int]]
) -> None:
    assert answer(warehouse, log, f"SELECT count(*) FROM topics.orders WHERE {where}") == [(count,)]
    assert [read[1:] for read in log.reads] == reads


@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
def test_a_late_record_behind_a_later_one_is_found_by_its_time(
    warehouse: Warehouse, log: MemoryLog, stamps: str
) -> None:
    """The next leader's clock may be behind where the log stamps records itself.

    Producers may have stamped records before.
    """
    log.topics["orders"].configs["message.timestamp.type"] = stamps
    log.topics["orders"].partitions[0].append(b"{}", timestamp_ms=START_MS)
    assert answer(
        warehouse,
        log,
        "SELECT count(*) FROM topics.orders WHERE _timestamp < TIMESTAMPTZ '2026-01-01 00:00:01Z'",
    ) == [(3,)]


@pytest.mark.parametrize("stamp_ms", [1_001, 537_961_980_527, 2_180_343_647_272])
def test_a_time_is_the_same_to_the_millisecond(stamp_ms: int) -> None:
    """Seconds as floating point numbers lose one of some milliseconds."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp_ms)
    assert bounds_of(f"\"0:timestamp\" = TIMESTAMPTZ '{moment.isoformat()}'") == Bounds(
        from_ms=stamp_ms, to_ms=stamp_ms + 1
    )


def test_fields_of_a_declared_schema_are_columns_and_misfits_are_null(
    warehouse: Warehouse, log: MemoryLog
) -> None:
    log.topics["orders"].partitions[0].append(
        b'{"id": "seven", "amount": 1}', timestamp_ms=START_MS
    )
    log.topics["orders"].partitions[0].append(b"nonsense", timestamp_ms=START_MS)
    sql = "SELECT id, amount, seen, tags, _key, _value FROM topics.orders WHERE _partition = 0 AND _offset IN (3, 100, 101) ORDER BY _offset"
    first, second, third = answer(warehouse, log, sql)
    assert first[:3] == (3, 1.5, datetime(2026, 1, 1, tzinfo=UTC))
    assert first[3:5] == (["a"], "k3")
    assert second == (None, 1.0, None, None, None, '{"id": "seven", "amount": 1}')
    assert third == (None, None, None, None, None, "nonsense")


@pytest.mark.parametrize("kind", RULE)
def test_each_form_of_the_rule_is_its_value_or_null(
    warehouse: Warehouse, log: MemoryLog, kind: str
) -> None:
    forms = [form for form in RULE[kind] if form.reading == PLAIN]
    partition = log.add_topic("forms").partitions[0]
    for form in forms:
        partition.append(f'{{"a": {form.json}, "v": {{"deep": [1]}}}}'.encode())
    relations = TopicRelations(log, {"forms": parse_ddl(f"a {kind}, v VARIANT")})
    found = warehouse.query(
        "SELECT a, v, typeof(a) AS kind FROM topics.forms ORDER BY _offset", relations
    )
    assert found["a"].to_pylist() == [form.value for form in forms]
    documents = [None if r"\ud800" in form.json else '{"deep":[1]}' for form in forms]
    assert found["v"].to_pylist() == documents
    assert set(found["kind"].to_pylist()) == {SQL_TYPES[kind]}


def test_what_is_wrong_beside_a_field_does_not_take_it_away(
    warehouse: Warehouse, log: MemoryLog
) -> None:
    partition = log.add_topic("beside").partitions[0]
    for value in (
        rb'{"a": 1, "undeclared": "\ud800"}',
        b'{"a": 1, "a": 2, "b": 3}',
        b'{"undeclared": 1, "undeclared": 2, "a": 5}',
        b"[1]",
    ):
        partition.append(value)
    relations = TopicRelations(log, {"beside": parse_ddl("a INT NOT NULL, b INT NOT NULL")})
    found = warehouse.query(
        "SELECT a, b FROM topics.beside ORDER BY _offset", relations
    ).to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, None), (None, 3), (5, None), (None, None)]


def test_topics_and_tables_are_joined_and_a_topic_may_be_named_twice(
    warehouse: Warehouse, log: MemoryLog
) -> None:
    sql = "SELECT name FROM topics.orders JOIN names USING (id) ORDER BY name"
    assert answer(warehouse, log, sql) == [("many",), ("three",)]
    twice = "SELECT count(*) FROM topics.orders a JOIN topics.orders b USING (_offset) WHERE a._partition = 0 AND b._partition = 1"
    assert answer(warehouse, log, twice) == [(100,)]
    cte = "WITH o AS (SELECT * FROM topics.orders) SELECT (SELECT max(id) FROM o), (SELECT min(id) FROM o), (SELECT count(*) FROM o)"
    assert answer(warehouse, log, cte) == [(199, 0, 200)]


def test_any_topic_can_be_asked_by_its_name_in_quotes(warehouse: Warehouse, log: MemoryLog) -> None:
    sql = 'SELECT _value, _bytes, _key, _headers FROM topics."we.ird-name"'
    assert answer(warehouse, log, sql) == [
        (
            "\ufffd not text",
            b"\xff not text",
            None,
            [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}],
        )
    ]
    with pytest.raises(WarehouseError, match="nowhere"):
        answer(warehouse, log, "SELECT * FROM topics.nowhere")


def test_names_are_found_wherever_they_stand() -> None:
    assert topic_names("""SELECT * FROM Topics.a, topics . "b-c" WHERE x = 'topics' """) == {
        "a",
        "b-c",
    }
    assert topic_names("SELECT * FROM mytopics.a") == set()


def test_filters_that_are_not_understood_bound_nothing() -> None:
    for text in (
        '("0:offset" <> 5)',
        "nonsense",
        '("0:value" = \'("0:offset" > 5)\')',
        '("0:partition" > 5)',
        "(a AND b",
    ):
        assert bounds_of(text) == Bounds()
    assert bounds_of(
        '((("0:offset" > 5) AND (\'a AND b\' = "0:key")) AND ("0:partition" = 1))'
    ) == Bounds(partitions=frozenset([1]), start=6)
