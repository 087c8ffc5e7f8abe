"""Changes of a customer as Debezium's connector for PostgreSQL writes them, in JSON and in Avro."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

ROW_DDL = "id INT NOT NULL, name STRING, email STRING, balance DECIMAL(10,2), changed TIMESTAMP"
SOURCE = {
    "version": "3.6.1.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1769860800123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
ROW = {
    "id": 1004,
    "name": "Anne",
    "email": "annek@noanswer.org",
    "balance": "BNI=",
    "changed": 1769860800000000,
}
"""With decimal.handling.mode=precise and time.precision.mode=adaptive."""
SCHEMA = {"type": "struct", "optional": False, "name": "shop.public.customers.Envelope"}


def change(op: str, after: Mapping[str, Any] | None, before: Any = None) -> dict[str, Any]:
    """Return a change as an object."""
    times = {"ts_ms": 1769860800127, "ts_us": 1769860800127412, "ts_ns": 1769860800127412981}
    source = {**SOURCE, "snapshot": "true" if op == "r" else "false"}
    return {
        "before": before,
        "after": after,
        "source": source,
        "transaction": None,
        "op": op,
        **times,
    }


def in_json(*args: Any) -> bytes:
    return json.dumps(change(*args)).encode()


def with_schema(*args: Any) -> bytes:
    """Return a change as JsonConverter writes it by default."""
    return json.dumps({"schema": SCHEMA, "payload": change(*args)}).encode()


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "balance", "type": ["null", DECIMAL], "default": None},
    ],
}
SOURCE_FIELDS = [
    {"name": "connector", "type": "string"},
    {"name": "ts_ms", "type": "long"},
    {"name": "lsn", "type": ["null", "long"], "default": None},
]
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.customers",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": {"type": "record", "name": "Source", "fields": SOURCE_FIELDS}},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


def in_avro(
    op: str, after: Mapping[str, Any] | None, before: Any = None, schema: Any = AVRO
) -> bytes:
    source = {"connector": "postgresql", "ts_ms": 1, "lsn": 24023128}
    written = io.BytesIO()
    record = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 2}
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), record)
    return written.getvalue()
