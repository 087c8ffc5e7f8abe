"""The keys of records without value delete rows.

Keys are text, JSON with and without Connect's envelope, Avro and Protobuf.
"""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from orchestration.formats import avro_schema, protobuf_schema
from orchestration.formats.keys import read_keys
from orchestration.topics.spec import TopicSpec, topic_asset, topic_specs
from orchestration.values.ddl import parse_ddl

ID = pa.schema([("id", pa.int64())])
TEXT = pa.schema([("id", pa.string())])
PAIR = pa.schema([("region", pa.string()), ("id", pa.int32())])
AVRO = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": ["null", "string"]}],
}
PROTO = 'syntax = "proto3"; message Key { int64 id = 1; string region = 2; }'


def enveloped(payload: str, fields: str = "[]") -> bytes:
    """A key as Connect's JSON converter writes it with schemas."""
    return f'{{"schema": {{"type": "struct", "fields": {fields}, "optional": false}}, "payload": {payload}}}'.encode()


def told(key: bytes, columns: pa.Schema, declared: Any = None) -> Any:
    """The values that a key names, or why it names none."""
    ((values, reason),) = read_keys(pa.array([key], pa.binary()), columns, declared)
    return reason if values is None else [one.as_py() for one in values]


@pytest.mark.parametrize(
    ("key", "columns", "named"),
    [
        (b"2", ID, [2]),
        (b'{"id": 2}', ID, [2]),
        (b'{"id": 2, "other": "x"}', ID, [2]),
        (enveloped('{"id": 2}', '[{"type": "int64", "field": "id"}]'), ID, [2]),
        (enveloped("2"), ID, [2]),
        (b"two", ID, "the key is not BIGINT"),
        (b'{"id": "2"}', ID, "in the key field id is not BIGINT"),
        (b'{"id": null}', ID, "in the key field id is required and null"),
        (b'{"no": 2}', ID, "the key is not BIGINT"),
        (b'{"id": 2, "id": 3}', ID, "in the key field id is given more than once"),
        (b"a", TEXT, ["a"]),
        (b'"a"', TEXT, ['"a"']),
        (b'{"id": "a"}', TEXT, ["a"]),
        (enveloped('{"id": "a"}'), TEXT, ["a"]),
        (b'{"no": "a"}', TEXT, ['{"no": "a"}']),
        (b'{"id": "a"', TEXT, ['{"id": "a"']),
        (b"\xff", TEXT, "the key is not STRING"),
        (b'{"region": "eu", "id": 7}', PAIR, ["eu", 7]),
        (enveloped('{"region": "eu", "id": 7}'), PAIR, ["eu", 7]),
        (
            b'{"region": "eu"}',
            PAIR,
            "the key is neither a JSON object with region, id nor an array of them, and no key_schema is declared",
        ),
        (b'["eu", 7]', PAIR, ["eu", 7]),
        (b'["eu"]', PAIR, "the key has 1 values, and not those of region, id"),
        (b'["eu"]', TEXT, ['["eu"]']),
        (
            b"eu",
            PAIR,
            "the key is neither a JSON object with region, id nor an array of them, and no key_schema is declared",
        ),
        (b'{"id": 2}', pa.schema([("_key", pa.string())]), ['{"id": 2}']),
        (b'{"id": 2}', pa.schema([("id", pa.binary())]), [b'{"id": 2}']),
        (b'{"id": "2026-01-31"}', pa.schema([("id", pa.date32())]), [date(2026, 1, 31)]),
        (
            b'{"id": 1769860800}',
            pa.schema([("id", pa.timestamp("us", "UTC"))]),
            [datetime(2026, 1, 31, 12, tzinfo=UTC)],
        ),
        (b'{"id": "7.50"}', pa.schema([("id", pa.decimal128(12, 2))]), [Decimal("7.50")]),
    ],
)
def test_a_key_of_which_nothing_is_declared(key: bytes, columns: pa.Schema, named: Any) -> None:
    """Debezium's tombstones have JSON keys: each of them was a dead letter."""
    assert told(key, columns) == named


@pytest.mark.parametrize(
    ("key", "columns", "named"),
    [
        (b'{"id": 2, "region": "eu"}', ID, [2]),
        (b'{"id": 2, "region": "eu"}', PAIR, ["eu", 2]),
        (enveloped('{"id": 2, "region": "eu"}'), PAIR, ["eu", 2]),
        (b"2", ID, "the key is not a JSON object"),
        (b'[2, "eu"]', PAIR, ["eu", 2]),
        (b'[2, "eu"]', ID, [2]),
        (b"two", ID, "the key is not JSON"),
        (b"2", PAIR, "the key is not a JSON object"),
        (b'{"id": 5000000000, "region": "eu"}', PAIR, "the key's field id is not INT"),
        (b'{"id": 2}', pa.schema([("number", pa.int64())]), "the key has no field number"),
        (b'{"id": 2}', pa.schema([("_key", pa.string())]), ['{"id": 2}']),
    ],
)
def test_a_key_that_is_declared_as_json(key: bytes, columns: pa.Schema, named: Any) -> None:
    assert told(key, columns, parse_ddl("id BIGINT, region STRING")) == named


def test_a_bare_text_is_the_only_field_where_keys_are_declared() -> None:
    assert told(b'"a"', TEXT, parse_ddl("id STRING")) == ["a"]
    assert told(enveloped('"a"'), TEXT, parse_ddl("id STRING")) == ["a"]
    assert told(b'"2"', ID, parse_ddl("id BIGINT")) == "in the key field id is not BIGINT"
    assert told(b"2", ID, parse_ddl("id BIGINT")) == [2]
    assert told(b"a", TEXT, parse_ddl("id STRING")) == "the key is not JSON"


def test_fields_that_are_called_as_the_envelope_are_no_envelope() -> None:
    columns = pa.schema([("schema", pa.string()), ("payload", pa.string())])
    assert told(b'{"schema": "s", "payload": "p"}', columns) == ["s", "p"]
    assert told(
        b'{"schema": "s", "payload": "p"}', columns, parse_ddl("schema STRING, payload STRING")
    ) == ["s", "p"]


def test_keys_in_avro_and_protobuf(tmp_path: Path) -> None:
    (tmp_path / "key.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "key.proto").write_text(PROTO)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(AVRO), {"id": 2, "region": None})
    avro = avro_schema(tmp_path / "key.avsc", framing="confluent")
    framed = b"\0\0\0\0\7" + written.getvalue()
    assert told(framed, ID, avro) == [2]
    assert told(framed, PAIR, avro) == "the key's field region is null"
    assert (
        told(written.getvalue(), ID, avro)
        == "the key does not begin with a zero and a schema's id, as Confluent's framing has it"
    )
    protobuf = protobuf_schema(tmp_path / "key.proto", message="Key")
    assert told(b"\x08\x02\x12\x02eu", PAIR, protobuf) == ["eu", 2]
    assert (
        told(b"\x08\x02\x12", PAIR, protobuf)
        == "the key is not a Key: its bytes are damaged or end early"
    )


def test_a_declaration_keeps_the_schema_of_its_keys(tmp_path: Path) -> None:
    (tmp_path / "key.avsc").write_text(json.dumps(AVRO))
    for declared in ("id BIGINT", avro_schema(tmp_path / "key.avsc")):
        spec = TopicSpec(name="orders", schema="id BIGINT", key_schema=declared)
        assert topic_specs([topic_asset(spec)]) == (spec,)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (
            "id BIGIN",
            "the key_schema of topic orders cannot be read: field id: there is no type BIGIN",
        ),
        ("id VARIANT", "has a VARIANT"),
    ],
)
def test_a_schema_of_keys_that_makes_no_sense_is_refused(declared: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TopicSpec(name="orders", key_schema=declared)
