"""Keys and values become JSON, whatever their bytes are."""

import json
import random
from collections.abc import Iterator
from decimal import Decimal

import httpx
import msgpack
import pytest
import trio

from log_service.client import Schema, SchemaRegistryClient
from log_service.client.consumer.records import ConsumerRecord
from log_service.http.console.pages.records.view import (
    MAX_SHOWN_CHARACTERS,
    exported,
    record_view,
)
from log_service.http.console.rendering import HERE, Pages
from log_service.http.record_formats.decoding import (
    LONG_BYTES,
    MAX_CONTAINERS,
    MAX_PARSED_BYTES,
    MAX_PAYLOAD_BYTES,
    Decoded,
    RecordDecoder,
    decode_plain,
    plain_json,
)
from log_service.http.record_formats.json_text import (
    FOLDED_CHARACTERS,
    contains_folded,
    json_text,
)

SCHEMAS = {
    1: Schema(text='{"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]}'),
    2: Schema(text="{}", schema_type="JSON"),
    3: Schema(text='{"pattern": "^(a|a)*$"}', schema_type="JSON"),
    4: Schema(
        text=json.dumps(
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "R",
                    "fields": [{"name": "f" * 2_000, "type": "boolean"}],
                },
            }
        )
    ),
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


@pytest.mark.parametrize(
    ("packed", "value"),
    [
        (b"\x82\xa2id\x07\xa4tags\x92\xa1a\xc0", {"id": 7, "tags": ["a", None]}),
        (b"\x81\x01\xc4\x02\xff\x00", {"1": "/wA="}),
        (b"\xd6\xff\x00\x00\x00\x00", "1970-01-01 00:00:00+00:00"),
        (b"\xcb\x7f\xf8\0\0\0\0\0\0", "NaN"),
    ],
)
def test_message_pack_becomes_json(packed: bytes, value: object) -> None:
    found = decode(packed, wanted="msgpack")
    assert (found.kind, found.value, found.error) == ("msgpack", value, "")
    assert decode(packed).kind in {"binary", "string"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x82\xa2id",
        b"\xc1",
        b"\x81\x90\x01",
        b"\x91" * 5_000,
        b"\xdd\xff\xff\xff\xff",
        b"\x01\x02",
    ],
)
def test_bytes_that_are_not_message_pack_stay_bytes_and_say_why(data: bytes) -> None:
    found = decode(data, wanted="msgpack")
    assert found.kind == "binary"
    assert "not MessagePack" in found.error


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (b"\xdd\x00\x0f\xff\x00" + b"\x90" * 0xFFF00, "more than"),
        (b"\xdd\x00\x0f\xff\x00" + b"\x80" * 0xFFF00, "more than"),
        (b"\xdd\x00\x0f\xff\x00" + b"\x01" * 0xFFF00, "longer than"),
        (b"\xdd\x00\x0f\xff\x00" * 500 + b"\x01" * 1_000_000, "deeper than"),
        (b"\xdd\x00\x0f\xff\x00" * 90 + b"\x01", "OutOfData"),
        (b"\x01\x02", "follow"),
    ],
)
def test_message_pack_is_read_in_steps_within_bounds(
    monkeypatch: pytest.MonkeyPatch, packed: bytes, why: str
) -> None:
    """The library at once held the interpreter for a second, and took the sizes that it read."""
    monkeypatch.delattr(msgpack, "unpackb")
    found = decode_plain(packed, "msgpack")
    assert found.kind == "binary"
    assert why in found.error


def test_random_message_pack_is_read_as_the_library_reads_it() -> None:
    """Prints its seed if it fails."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)

    def value(depth: int) -> object:
        kind = rng.randrange(7 if depth else 5)
        if kind == 5:
            return [value(depth - 1) for _ in range(rng.randrange(40))]
        if kind == 6:
            return {str(n): value(depth - 1) for n in range(rng.randrange(40))}
        return (None, rng.randrange(-(2**63), 2**64), rng.random(), "x" * rng.randrange(300), True)[
            kind
        ]

    for _ in range(30):
        made = value(3)
        assert decode_plain(msgpack.packb(made), "msgpack").value == made, seed


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


def test_a_schema_whose_pattern_takes_for_ever_holds_up_nobody() -> None:
    """``re`` needs years for this text, and lets no other thread run meanwhile."""
    data = b'\0\0\0\0\x03"' + b"a" * 60 + b'!"'
    found = decode(data)
    assert (found.kind, found.value, found.error) == ("json_schema", "a" * 60 + "!", "")


def test_names_of_a_schema_count_where_bytes_are_few() -> None:
    """Each byte of the payload is a record with a name of 2,000 characters."""
    found = decode(b"\0\0\0\0\x04" + b"\xd0\x0f" + b"\x01" * 1_000 + b"\0")
    assert (found.kind, found.schema_id) == ("binary", 4)
    assert "longer than" in found.error


@pytest.mark.parametrize(("depth", "kind"), [(100, "json"), (102, "string"), (900, "string")])
def test_deep_values_stay_text(depth: int, kind: str) -> None:
    """The page writes values by recursion, and failed for some that the parser takes."""
    data = b"[" * depth + b"]" * depth
    found = decode(data)
    assert found.kind == kind
    record = ConsumerRecord("t", 0, 0, -1, "CreateTime", None, data, (), 0)
    assert record_view(record, Decoded(kind="null", value=None), found).value.text


@pytest.mark.parametrize(("count", "kind"), [(19_998, "json"), (20_000, "string")])
def test_a_value_of_very_many_parts_stays_text(count: int, kind: str) -> None:
    """The garbage collector held up everybody for a tenth of a second and more."""
    data = b"[" + b"[]," * count + b"{}]"
    assert decode(data).kind == kind
    value: list[object] = [[] for _ in range(count + 1)]
    if kind == "json":
        assert plain_json(value)[0] == value
    else:
        with pytest.raises(ValueError, match="more than 20000"):
            plain_json(value)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\0\0\0\0\x01" + b"\0" * MAX_PAYLOAD_BYTES, "longer than"),
        (b"\0\0\0\0\x02" + b"1" * (MAX_PARSED_BYTES + 1), "longer than"),
        (b"\0\0\0\0\x02[" + b"[]," * MAX_CONTAINERS + b"1]", "more than"),
        (b"\0\0\0\0\x02" + b"[" * 200 + b"]" * 200, "deeper than"),
    ],
    ids=["avro", "json", "parts", "depth"],
)
def test_bounds_hold_for_bytes_with_a_schema(data: bytes, error: str) -> None:
    found = decode(data)
    assert found.kind in {"binary", "string"}
    assert error in found.error


def test_times_decimals_and_numbers_as_names_become_json() -> None:
    value = {"d": Decimal("1.5"), "b": b"\xff", "l": (1, None, True, 2.5), "m": {3: "x"}}
    found, size = plain_json(value)
    assert found == {"d": "1.5", "b": "/w==", "l": [1, None, True, 2.5], "m": {"3": "x"}}
    assert size > len("dblm3x")


def test_a_view_of_a_long_value_writes_its_start_alone() -> None:
    """Writing all of a value to cut it then held up everybody for seconds."""

    class Endless(list[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(10**18))

    found = Decoded(kind="json", value=Endless([1]), size=LONG_BYTES + 1)
    record = ConsumerRecord("t", 0, 0, -1, "CreateTime", None, b"", (), 0)
    view = record_view(record, Decoded(kind="null", value=None), found).value
    assert view.is_cut
    assert (len(view.text), view.preview[-1]) == (MAX_SHOWN_CHARACTERS, "…")


def test_long_text_of_json_is_as_short_text() -> None:
    value = {"a": ["ä", 1, None, {"b": 2.5}]}
    assert json_text(value, is_long=True) == json_text(value, is_long=False)


@pytest.mark.parametrize("place", [0, FOLDED_CHARACTERS - 2, FOLDED_CHARACTERS, 999_990])
def test_text_is_found_anywhere_without_regard_to_case(place: int) -> None:
    text = "ß" * place + "NEEdle" + "x" * (1_000_000 - place - 6)
    assert contains_folded(text, "neeDLE")
    assert not contains_folded(text, "needles")
    assert contains_folded("", "")
