"""Changes in Debezium's envelope are rows, deletions, or dead letters with a reason."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestration.formats import avro_schema
from orchestration.formats.columns import ROW_DELETED, ValueFormat
from orchestration.formats.debezium import PLACEHOLDER, PLACEHOLDERS
from orchestration.lake.tables import Lake
from orchestration.sources import sql_source
from orchestration.topics.spec import TopicSpec, topic_asset, topic_specs
from orchestration.values.strict_json import NULL_VALUE
from orchestration.warehouse.store import Warehouse
from orchestration.warehouse.topics_in_sql import TopicRelations
from tests.unit.orchestration.formats import debezium_values as debezium
from tests.unit.orchestration.formats.debezium_values import ROW, in_avro, in_json, with_schema
from tests.unit.orchestration.memory_log import MemoryLog

Write = Callable[..., bytes]
SPEC = TopicSpec(
    name="shop.public.customers",
    schema=debezium.ROW_DDL,
    envelope="debezium",
    decimals="base64",
    epoch_unit="us",
)
ANNE = {
    "id": 1004,
    "name": "Anne",
    "email": "annek@noanswer.org",
    "balance": Decimal("12.34"),
    "changed": datetime(2026, 1, 31, 12, tzinfo=UTC),
}


def format_of(spec: TopicSpec) -> ValueFormat:
    found = spec.value_format
    assert found is not None
    return found


def read(*values: bytes | None, spec: TopicSpec = SPEC) -> tuple[list[Any], list[str | None]]:
    table, faults = format_of(spec).read(pa.array(values, pa.binary()))
    return table.to_pylist(), faults.to_pylist()


@pytest.fixture
def avro_spec(tmp_path: Path) -> TopicSpec:
    (tmp_path / "envelope.avsc").write_text(json.dumps(debezium.AVRO))
    schema = avro_schema(tmp_path / "envelope.avsc")
    return TopicSpec(name="customers", schema=schema, envelope="debezium")


@pytest.mark.parametrize("op", ["c", "u", "r"])
@pytest.mark.parametrize("write", [in_json, with_schema])
def test_an_insert_an_update_and_a_snapshot_leave_the_row_after_them(op: str, write: Write) -> None:
    assert read(write(op, ROW, ROW if op == "u" else None)) == ([ANNE], [None])


@pytest.mark.parametrize("write", [in_json, with_schema])
def test_a_delete_and_a_tombstone_leave_no_row(write: Write) -> None:
    nothing = json.dumps({"schema": None, "payload": None}).encode()
    values = [write("c", ROW), write("d", None, ROW), None, nothing, write("d", None)]
    assert read(*values) == ([ANNE], [None, ROW_DELETED, NULL_VALUE, NULL_VALUE, ROW_DELETED])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (in_json("t", None), r"a TRUNCATE \(op t\), which names no row.*skipped\.operations"),
        (in_json("m", None), r"a logical message \(op m\)"),
        (in_json("x", ROW), "field op is 'x', which is not a change"),
        (in_json("u", None), "field after is missing, and a change with op u needs it"),
        (b'{"op": "c", "after": [1]}', "field after is not a JSON object"),
        (b'{"op": 1, "after": {"id": 1}}', "field op is '1', which is not a change"),
        (b'{"op": ["c"], "after": {"id": 1}}', "field op is .*, which is not a change"),
        (json.dumps(ROW).encode(), "no field op.*flattened rows is declared without envelope"),
        (b'{"schema": {}, "payload": 5}', "the payload of the value is not a JSON object"),
        (b'{"op": "c", "op": "d", "after": {}}', "field op is given more than once"),
        (b'{"op": "c", "after": {}, "after": {}}', "field after is given more than once"),
        (b'{"op": "c"', "the value is not JSON"),
        (b"[]", "the value is not a JSON object"),
        (in_json("c", {}), "field id is required and missing"),
        (in_json("c", {**ROW, "id": "1004"}), "field id is not INT"),
        (in_json("c", {**ROW, "balance": "12.34"}), "field balance is not DECIMAL.*base64"),
        (b'{"op": "c", "after": {"id": 1, "id": 2}}', "field id is given more than once"),
    ],
)
def test_what_tells_no_row_has_a_reason(value: bytes, reason: str) -> None:
    rows, (fault,) = read(value)
    assert rows == []
    assert pa.compute.match_substring_regex(pa.array([fault]), reason).to_pylist() == [True]


@pytest.mark.parametrize("told", [*PLACEHOLDERS, [PLACEHOLDER]])
def test_a_placeholder_never_becomes_a_value(told: Any) -> None:
    """Sinks overwrite good values with it."""
    spec = TopicSpec(
        name="t", schema="id INT, big STRING, b BINARY, tags ARRAY<STRING>", envelope="debezium"
    )
    name = {PLACEHOLDERS[0]: "big", PLACEHOLDERS[1]: "b"}.get(str(told), "tags")
    rows, faults = read(in_json("u", {"id": 1, name: told}), in_json("u", {"id": 2}), spec=spec)
    assert [row["id"] for row in rows] == [2]
    assert f"field {name} has Debezium's placeholder" in str(faults[0])
    undeclared = in_json("u", {"id": 1, "other": PLACEHOLDER})
    assert read(undeclared, spec=spec)[1] == [None]


def test_a_placeholder_in_an_array_never_becomes_a_value_of_avro(tmp_path: Path) -> None:
    """JSON refused it, and Avro and Protobuf took it for a tag."""
    envelope = json.loads(json.dumps(debezium.AVRO))
    tags = {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]}
    envelope["fields"][0]["type"][1]["fields"].append(tags)
    (tmp_path / "envelope.avsc").write_text(json.dumps(envelope))
    schema = avro_schema(tmp_path / "envelope.avsc")
    spec = TopicSpec(name="customers", schema=schema, envelope="debezium")
    told: list[Any] = [[PLACEHOLDER], ["a", PLACEHOLDER], [], None]
    rows, faults = read(
        *(in_avro("u", {"id": 1, "tags": each}, schema=envelope) for each in told), spec=spec
    )
    assert [row["tags"] for row in rows] == told[1:]
    assert "field tags has Debezium's placeholder" in str(faults[0])


def test_the_envelope_may_be_a_record_in_avro(avro_spec: TopicSpec) -> None:
    row = {"id": 1004, "name": "Anne", "balance": Decimal("12.34")}
    values = [
        in_avro("c", row),
        in_avro("d", None, row),
        None,
        in_avro("r", {**row, "name": None}),
        in_avro("u", {**row, "name": PLACEHOLDER}),
        in_avro("t", None),
        in_avro("u", None),
        in_avro("u", row)[:-1],
        in_avro("u", {**row, "id": 5}),
    ]
    rows, faults = read(*values, spec=avro_spec)
    assert rows == [row, {**row, "name": None}, {**row, "id": 5}]
    told = dict(enumerate(faults))
    assert {number for number, fault in told.items() if fault is None} == {0, 3, 8}
    assert (told[1], told[2]) == (ROW_DELETED, NULL_VALUE)
    assert "field name has Debezium's placeholder" in str(told[4])
    assert "TRUNCATE" in str(told[5])
    assert "field after is missing" in str(told[6])
    assert avro_spec.fields is not None
    assert avro_spec.fields.names == ["id", "name", "balance"]
    assert read(spec=avro_spec) == ([], [])


def test_a_topic_of_changes_is_asked_for_its_rows_in_sql(tmp_path: Path) -> None:
    log = MemoryLog()
    partition = log.add_topic(SPEC.name).partitions[0]
    wrong = in_json("u", {**ROW, "balance": "x"})
    for value in (in_json("c", ROW), in_json("d", None, ROW), None, wrong):
        partition.append(value, key=b'{"id": 1004}')
    assert SPEC.fields is not None
    formats = {SPEC.name: format_of(SPEC)}
    relations = TopicRelations(log, {SPEC.name: SPEC.fields}, formats=formats)
    warehouse = Warehouse(tmp_path / "warehouse", Lake(tmp_path / "lake"))
    sql = f'SELECT _offset, id, balance FROM topics."{SPEC.name}" ORDER BY _offset'
    rows = [tuple(row.values()) for row in warehouse.query(sql, relations).to_pylist()]
    assert rows == [(0, 1004, Decimal("12.34")), (1, None, None), (2, None, None), (3, 1004, None)]


def test_a_declaration_with_an_envelope_comes_back_from_its_asset(avro_spec: TopicSpec) -> None:
    for spec in (SPEC, avro_spec):
        assert topic_specs([topic_asset(spec)]) == (spec,)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"envelope": "maxwell", "schema": "id INT"}, "envelope='maxwell': it is 'debezium'"),
        ({"envelope": "debezium"}, "envelope='debezium' and no schema"),
        ({"envelope": "debezium", "schema": "v VARIANT"}, "envelope='debezium'.* no VARIANT"),
    ],
)
def test_an_envelope_that_makes_no_sense_is_refused(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"topic t has {said}"):
        TopicSpec(name="t", **declared)


def test_a_schema_of_rows_is_no_schema_of_changes(tmp_path: Path) -> None:
    (tmp_path / "row.avsc").write_text(json.dumps(debezium.VALUE))
    with pytest.raises(
        ValueError, match="topic t is not that of Debezium's envelope: it has no field op"
    ):
        TopicSpec(name="t", schema=avro_schema(tmp_path / "row.avsc"), envelope="debezium")


def test_a_source_does_not_send_rows_into_a_topic_of_changes() -> None:
    with pytest.raises(
        ValueError, match=r"the source s sends rows, and the topic .* has envelope='debezium'"
    ):
        sql_source("s", topic=SPEC, table="customers", key="id")
