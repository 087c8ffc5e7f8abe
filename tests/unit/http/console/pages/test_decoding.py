"""Keys and values become JSON, whatever their bytes are."""

import json
import random

import httpx
import pytest
import trio

from log_service.client import Schema, SchemaRegistryClient
from log_service.client.consumer.records import ConsumerRecord
from log_service.http.console.pages.records.decoding import Decoded, RecordDecoder, decode_plain
from log_service.http.console.pages.records.view import exported, record_view
from log_service.http.console.rendering import HERE, Pages

SCHEMAS = {
    1: Schema(text='{"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]}'),
    2: Schema(text="{}", schema_type="JSON"),
}


def respond(request: httpx.Request) -> httpx.Response:
    schema = SCHEMAS.get(int(request.url.path.rpartition("/")[2]))
    if schema is None:
        return httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})
    return httpx.Response(200, json=schema.as_json())


def decode(data: bytes | None, *, wanted: str = "auto", has_registry: bool = True) -> Decoded:
    async def run() -> Decoded:
        transport = httpx.MockTransport(respond)
        async with SchemaRegistryClient("http://registry", transport=transport) as registry:
            decoder = RecordDecoder(registry if has_registry else None)
            return await decoder.decode(data, topic="t", is_key=False, wanted=wanted)

    return trio.run(run)


@pytest.mark.parametrize(
    ("data", "wanted", "kind", "value"),
    [
        (None, "auto", "null", None),
        (b"", "auto", "string", ""),
        (b'{"a": 1}', "auto", "json", {"a": 1}),
        (b'{"a": 1}', "string", "string", '{"a": 1}'),
        (b'{"a": 1}', "binary", "binary", "eyJhIjogMX0="),
        (b"\xff\x00", "auto", "binary", "/wA="),
        (b"NaN", "auto", "string", "NaN"),
        (b"[" * 100_000, "auto", "string", "[" * 100_000),
        (b"9" * 10_000, "auto", "string", "9" * 10_000),
        ("ä".encode(), "auto", "string", "ä"),
    ],
)
def test_bytes_without_a_schema(data: bytes | None, wanted: str, kind: str, value: object) -> None:
    found = decode(data, wanted=wanted)
    assert (found.kind, found.value, found.error) == (kind, value, "")


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [
        (b"\0\0\0\0\x01\x04\xff\x00", "avro", {"a": "/wA="}),
        (b'\0\0\0\0\x02{"b": 2}', "json_schema", {"b": 2}),
    ],
)
def test_bytes_with_a_schema(data: bytes, kind: str, value: object) -> None:
    found = decode(data)
    assert (found.kind, found.value, found.error) == (kind, value, "")
    assert decode(data, has_registry=False).kind in {"binary", "string"}


def test_hostile_bytes_stay_bytes_and_say_why() -> None:
    """Prints its seed if it fails."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    pages = Pages({"records": HERE / "pages" / "records" / "templates"})
    for _ in range(100):
        data = bytes((0, 0, 0, 0, rng.randrange(5))) + rng.randbytes(rng.randrange(40))
        found = decode(data)
        record = ConsumerRecord("t", 0, 0, -1, "CreateTime", data, data, ((data.hex(), data),), 0)
        json.loads(exported(record, found, found))
        view = record_view(record, found, found)
        assert pages.render("records/rows.html", {"records": [view], "is_new": False}), seed


def test_a_lone_surrogate_is_shown() -> None:
    found = decode_plain(b'"\\ud800<b>"', "auto")
    record = ConsumerRecord("t", 0, 0, -1, "CreateTime", None, b"", (), 0)
    view = record_view(record, Decoded(kind="null", value=None), found)
    pages = Pages({"records": HERE / "pages" / "records" / "templates"})
    page = pages.render("records/rows.html", {"records": [view], "is_new": True})
    assert b"&lt;b&gt;" in page
    assert exported(record, found, found)
