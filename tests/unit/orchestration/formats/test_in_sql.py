"""Topics whose values are in a format of their own, in questions of SQL."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from orchestration.formats import AvroSchema, avro_schema
from orchestration.lake.tables import Lake
from orchestration.warehouse.store import Warehouse
from orchestration.warehouse.topics_in_sql import TopicRelations
from tests.unit.orchestration.memory_log import MemoryLog

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "place",
            "type": [
                "null",
                {"type": "record", "name": "P", "fields": [{"name": "city", "type": "string"}]},
            ],
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
FIRST = b"\x02\x02\x64\x02\x02\x08Wien\x02\x02a\x00"
SECOND = b"\x04\x02\x65\x04\x00\x00"


@pytest.fixture
def schema(tmp_path: Path) -> AvroSchema:
    (tmp_path / "orders.avsc").write_text(json.dumps(AVRO))
    return avro_schema(tmp_path / "orders.avsc")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id, price, tags FROM topics.orders WHERE id > 0 ORDER BY id", [(1, Decimal("1.00"), ["a"]), (2, Decimal("1.01"), [])]),
        ("SELECT place.city FROM topics.orders WHERE _offset = 0", [("Wien",)]),
        ("SELECT max(seen) FROM topics.orders", [(datetime(1970, 1, 1, 0, 0, 0, 2000, tzinfo=UTC),)]),
        ("SELECT _offset, id FROM topics.orders WHERE id IS NULL", [(2, None)]),
        ("SELECT count(*) FROM topics.orders", [(3,)]),
        ("SELECT a.id, b.id AS other FROM topics.orders a JOIN topics.orders b ON a.id + 1 = b.id", [(1, 2)]),
        ("SELECT * EXCLUDE (_timestamp, _headers, _value, seen, place, tags) FROM topics.orders LIMIT 1", [(0, 0, "k", FIRST, 1, Decimal(1))]),
        ("SELECT o.id, n.id AS other FROM topics.orders o, topics.numbers n WHERE o.id = 1", [(1, 7)]),
    ],
)  # fmt: skip
def test_fields_are_columns_and_those_of_a_damaged_value_are_null(
    tmp_path: Path, schema: AvroSchema, sql: str, rows: list[tuple[object, ...]]
) -> None:
    log = MemoryLog()
    for value in (FIRST, SECOND, SECOND[:-1]):
        log.topics.get("orders") or log.add_topic("orders")
        log.topics["orders"].partitions[0].append(value, key=b"k")
    log.add_topic("numbers").partitions[0].append(b"\x0e")
    (tmp_path / "numbers.avsc").write_text(json.dumps({**AVRO, "fields": AVRO["fields"][:1]}))
    formats = {"orders": schema, "numbers": avro_schema(tmp_path / "numbers.avsc")}
    relations = TopicRelations(
        log, {name: one.fields for name, one in formats.items()}, formats=formats
    )
    found = Warehouse(tmp_path / "warehouse", Lake(tmp_path / "lake")).query(sql, relations)
    assert [tuple(row.values()) for row in found.to_pylist()] == rows
