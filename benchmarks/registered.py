"""Measures how many values of Avro become rows each second with a schema registry.

The peer is the declared path: a schema from a file, with the prefix skipped. Values are read in one
process, as a run reads a batch. A registry in this process answers once for each schema. Two
versions of the schema take turns in one of the figures, where the peer reads the first alone.
"""

import contextlib
import io
import json
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro
import pyarrow as pa

from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row, at_least
from orchestration.formats import ValueFormat, from_registry
from orchestration.formats.avro import AvroSchema
from orchestration.settings import named_in_environment

DECLARED = "declared Avro"
VALUE_COUNT, REPETITIONS = 100_000, 3
GOAL = 1.0
Schema = Mapping[str, Any]
FLAT: Schema = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "is_paid", "type": "boolean"},
    ],
}
NEWER: Schema = {
    **FLAT,
    "fields": [*FLAT["fields"], {"name": "channel", "type": ["null", "string"], "default": None}],
}
LINE = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
}
NESTED: Schema = {
    **FLAT,
    "fields": [*FLAT["fields"], {"name": "lines", "type": {"type": "array", "items": LINE}}],
}
SCHEMAS: Mapping[int, tuple[str, Schema]] = {
    1: ("flat", FLAT),
    2: ("newer", NEWER),
    3: ("nested", NESTED),
}
"""The subject and the schema of each id."""


class Answer(BaseHTTPRequestHandler):
    """Answers for the latest version of a subject, and for an id."""

    def do_GET(self) -> None:
        *_, kind, name = self.path.partition("?")[0].replace("/versions/latest", "").split("/")
        found = next(
            (number, subject, schema)
            for number, (subject, schema) in SCHEMAS.items()
            if name == (subject if kind == "subjects" else str(number))
        )
        number, subject, schema = found
        about = {"subject": subject, "version": 1, "id": number, "schema": json.dumps(schema)}
        body = json.dumps(about).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@contextlib.contextmanager
def answering() -> Iterator[str]:
    """Serve the schemas, and yield the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def value(number: int, schema_id: int, parsed: Any) -> bytes:
    row = {
        "id": number,
        "customer": f"customer-{number % 1_000}",
        "amount": number / 7,
        "note": None if number % 2 else "as agreed",
        "at": 1_700_000_000_000 + number,
        "is_paid": number % 3 == 0,
        "channel": "web",
        "lines": [{"sku": "a", "count": 1}, {"sku": "b", "count": number % 7}],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, row)
    return struct.pack(">BI", 0, schema_id) + out.getvalue()


def values(count: int, *ids: int) -> pa.Array:
    """Return values whose schemas take turns."""
    parsed = {one: fastavro.parse_schema(dict(SCHEMAS[one][1])) for one in ids}
    turns = (ids[number % len(ids)] for number in range(count))
    return pa.array([value(n, one, parsed[one]) for n, one in enumerate(turns)], pa.binary())


def rate(read_by: ValueFormat, batch: pa.Array) -> float:
    """Return rows per second of CPU, the median of some readings."""
    rates: list[float] = []
    for _ in range(REPETITIONS):
        started = time.process_time()
        rows, _ = read_by.read(batch)
        rates.append(rows.num_rows / (time.process_time() - started))
    return sorted(rates)[len(rates) // 2]


def measure(read_by: Mapping[str, tuple[ValueFormat, pa.Array]]) -> list[Row]:
    return [
        Row(
            figure=f"Avro values to rows: {name}",
            unit="rows/s of CPU",
            rounds=(rate(*one),),
            goal=at_least(GOAL),
        )
        for name, one in read_by.items()
    ]


@contextlib.contextmanager
def registered(bench: Bench) -> Iterator[Sides]:
    """Make the values once, and ask the registry for their schemas before the first round."""
    count = bench.count(VALUE_COUNT, at_least=1_000)
    flat, mixed, nested = values(count, 1), values(count, 1, 2), values(count, 3)
    names = "six fields", "six fields, two versions in turns", "six fields and an array of records"
    declared = [AvroSchema(text=json.dumps(one), framing="confluent") for one in (FLAT, NESTED)]
    theirs = (declared[0], flat), (declared[0], flat), (declared[1], nested)
    with (
        answering() as url,
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as data,
        named_in_environment("TIDELOG_SCHEMA_REGISTRY_URL", url),
        named_in_environment("TIDELOG_DATA", data),
    ):
        one, two, three = (from_registry(SCHEMAS[number][0]) for number in (1, 2, 3))
        ours = (one, flat), (two, mixed), (three, nested)
        turns = {
            OURS: partial(measure, dict(zip(names, ours, strict=True))),
            DECLARED: partial(measure, dict(zip(names, theirs, strict=True))),
        }
        for turn in turns.values():
            turn()
        yield Sides(measures=turns, peer=DECLARED)
