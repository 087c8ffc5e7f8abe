"""Avro's schema resolution: written bytes as another schema has them, with fastavro as the judge."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from orchestration.formats.avro_resolving import UnresolvableError, resolving_reader
from orchestration.formats.avro_types import parse_avro
from orchestration.formats.columns import UnfitError

COLOURS = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


def field(kind: Any, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def encoded(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def resolved(
    written: dict[str, Any], declared: dict[str, Any], value: dict[str, Any]
) -> dict[str, Any]:
    read = resolving_reader(parse_avro(json.dumps(written)), parse_avro(json.dumps(declared)))
    return dict(
        zip([one["name"] for one in declared["fields"]], read(encoded(written, value)), strict=True)
    )


PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [field("int", "zip"), field("string", "city")],
}
NEWER_PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [
        field("string", "city"),
        field(["null", "string"], "land", default=None),
        field("long", "zip"),
    ],
}


@pytest.mark.parametrize(
    ("written", "declared", "value"),
    [
        ([field("int")], [field("long")], 5),
        ([field("int")], [field("double")], 5),
        ([field("long")], [field("float")], 5),
        ([field("float")], [field("double")], 0.5),
        ([field("string")], [field("bytes")], "ä"),
        ([field("bytes")], [field("string")], b"abc"),
        ([field("string")], [field(["null", "string"])], "x"),
        ([field(["null", "string"])], [field("string")], "x"),
        ([field(["null", "int"])], [field(["long", "null"])], None),
        ([field(["null", "int"])], [field(["long", "null"])], 7),
        (
            [field({"type": "array", "items": "int"})],
            [field({"type": "array", "items": ["null", "long"]})],
            [1, 2],
        ),
        ([field(PLACE)], [field(NEWER_PLACE)], {"zip": 1010, "city": "Wien"}),
        (
            [field({"type": "array", "items": PLACE})],
            [field({"type": "array", "items": NEWER_PLACE})],
            [{"zip": 1, "city": "x"}],
        ),
        ([field(COLOURS)], [field({**COLOURS, "symbols": ["GREEN", "BLUE", "RED"]})], "BLUE"),
        (
            [field(COLOURS)],
            [field({**COLOURS, "symbols": ["GREEN", "RED"], "default": "GREEN"})],
            "BLUE",
        ),
        (
            [field({"type": "fixed", "name": "F", "size": 2})],
            [field({"type": "fixed", "name": "F", "size": 2})],
            b"ab",
        ),
    ],
)
def test_values_are_those_that_the_judge_reads(
    written: list[Any], declared: list[Any], value: Any
) -> None:
    """Wider types, nulls, nested records, and symbols by name."""
    expected = fastavro.schemaless_reader(
        io.BytesIO(encoded(record(*written), {"a": value})),
        fastavro.parse_schema(record(*written)),
        fastavro.parse_schema(record(*declared)),
    )
    assert resolved(record(*written), record(*declared), {"a": value}) == expected


def test_fields_come_by_name_or_alias_and_the_others_have_their_defaults() -> None:
    """A written field that is not declared is passed."""
    written = record(field("string", "gone"), field("long", "id"), field("double", "price"))
    declared = record(
        field("double", "amount", aliases=["price"]),
        field("long", "id"),
        field("string", "channel", default="web"),
    )
    assert resolved(written, declared, {"gone": "x", "id": 4, "price": 1.5}) == {
        "amount": 1.5,
        "id": 4,
        "channel": "web",
    }


def test_a_map_is_pairs_whose_values_are_resolved() -> None:
    """Arrow takes maps as pairs."""
    written, declared = (
        field({"type": "map", "values": "int"}),
        field({"type": "map", "values": "double"}),
    )
    assert resolved(record(written), record(declared), {"a": {"x": 1}}) == {"a": [("x", 1.0)]}


def test_logical_types_keep_their_meaning() -> None:
    """Milliseconds are microseconds of the same time, and plain numbers get the declared meaning."""
    noon, us = datetime(2026, 1, 1, 12, tzinfo=UTC), 1767268800000000
    millis, micros = (
        {"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros")
    )
    assert resolved(record(field(millis)), record(field(micros)), {"a": noon}) == {"a": us}
    assert resolved(record(field("long")), record(field(millis)), {"a": us // 1000}) == {"a": us}
    small, large = (
        {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 2}
        for digits in (4, 9)
    )
    assert resolved(record(field(small)), record(field(large)), {"a": Decimal("1.50")}) == {
        "a": Decimal("1.50")
    }


def test_a_union_of_several_types_is_a_struct_of_them() -> None:
    """A written type takes the branch of its own kind first."""
    declared = record(field(["null", "double", "string"]))
    assert resolved(record(field("string")), declared, {"a": "x"}) == {
        "a": {"double": None, "string": "x"}
    }
    assert resolved(record(field(["int", "string"])), declared, {"a": 3}) == {
        "a": {"double": 3.0, "string": None}
    }
    assert resolved(record(field(["null", "string"])), declared, {"a": None}) == {"a": None}


@pytest.mark.parametrize(
    ("written", "declared", "text"),
    [
        (field("string"), field("long"), "field a is string, and not long as declared"),
        (field("long"), field("int"), "field a is long, and not int as declared"),
        (
            field("long", "b"),
            field("long"),
            "it has no field a, and the declared field has no default",
        ),
        (
            field({"type": "array", "items": "string"}),
            field({"type": "array", "items": "int"}),
            r"field a\[\] is string",
        ),
        (field(["null", "string"]), field(["null", "long"]), None),
        (field("null"), field("long"), "field a is null"),
    ],
)
def test_schemas_that_cannot_be_read_are_refused_with_the_field(
    written: Any, declared: Any, text: str | None
) -> None:
    """Before any byte is read. A union is refused only if no branch can be read."""
    pair = parse_avro(json.dumps(record(written))), parse_avro(json.dumps(record(declared)))
    if text is None:
        with pytest.raises(
            UnfitError, match="field a is string, and not a union of null and long as declared"
        ):
            resolving_reader(*pair)(encoded(record(written), {"a": "x"}))
        return
    with pytest.raises(UnresolvableError, match=text):
        resolving_reader(*pair)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x08ab", "ends within field a"),
        (b"\x02a\x00", "goes on after its record, for 1 bytes"),
        (b"", "ends within field a"),
    ],
)
def test_damaged_bytes_are_faults(data: bytes, text: str) -> None:
    """As with a single schema."""
    read = resolving_reader(
        parse_avro(json.dumps(record(field("string")))),
        parse_avro(json.dumps(record(field("bytes")))),
    )
    with pytest.raises(UnfitError, match=text):
        read(data)


def test_a_null_and_a_symbol_that_the_declared_type_lacks_are_faults_of_their_values() -> None:
    """Other values of the same schema are rows."""
    with pytest.raises(UnfitError, match="field a is null, and not string as declared"):
        resolved(record(field(["null", "string"])), record(field("string")), {"a": None})
    with pytest.raises(UnfitError, match="field a is BLUE, which the declared enum does not have"):
        resolved(
            record(field(COLOURS)), record(field({**COLOURS, "symbols": ["RED"]})), {"a": "BLUE"}
        )
