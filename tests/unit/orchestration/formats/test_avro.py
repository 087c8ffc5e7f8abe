"""Random records of random Avro schemas go there and back, with fastavro as the oracle.

Damaged bytes and impossible schemas are refused.
"""

import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.formats import AvroSchema, SchemaFileError, avro_schema, format_of
from orchestration.values.type_names import type_name

INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
FLOATS = st.floats(allow_nan=False, width=32)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - bounds of it have none
LOGICAL: dict[tuple[str, str], tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    ("bytes", "decimal"): ({"precision": 12, "scale": 3}, st.decimals(-(10**8), 10**8, places=3)),
    ("int", "date"): ({}, st.dates()),
    ("long", "timestamp-millis"): (
        {},
        TIMES.map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000)),
    ),
    ("long", "timestamp-micros"): ({}, TIMES),
    ("long", "local-timestamp-micros"): ({}, TIMES.map(lambda one: one.replace(tzinfo=None))),
    ("string", "uuid"): ({}, st.uuids()),
}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": FLOATS,
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=5),
    "string": TEXTS,
}
Drawn = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def schemas(draw: st.DrawFn, names: Callable[[], str], depth: int = 2) -> Drawn:  # noqa: PLR0911 - one for each kind
    """Draw a type and what its values are drawn from."""
    kinds = [
        "scalar",
        "logical",
        "enum",
        "fixed",
        *(["array", "map", "record", "optional"] if depth else []),
    ]
    kind = draw(st.sampled_from(kinds))
    if kind == "scalar":
        name = draw(st.sampled_from(sorted(SCALARS)))
        return name, SCALARS[name]
    if kind == "logical":
        made_of, logical = draw(st.sampled_from(sorted(LOGICAL)))
        more, values = LOGICAL[made_of, logical]
        return {"type": made_of, "logicalType": logical, **more}, values
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True))
        return {"type": "enum", "name": names(), "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        return {"type": "fixed", "name": names(), "size": 3}, st.binary(min_size=3, max_size=3)
    if kind == "record":
        return draw(records(names, depth - 1))
    inner, values = draw(schemas(names, depth - 1))
    if kind == "optional":
        if inner == "null" or isinstance(inner, list):
            return ["null"], st.none()
        return draw(st.permutations(["null", inner])), st.none() | values
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(TEXTS, values, max_size=3)
    if inner == "null" or (isinstance(inner, dict) and inner["type"] == "record"):
        inner, values = "int", INTS  # items may not be without bytes
    return {"type": "array", "items": inner}, st.lists(values, max_size=3)


@st.composite
def records(draw: st.DrawFn, names: Callable[[], str], depth: int) -> Drawn:
    drawn = [draw(schemas(names, depth)) for _ in range(draw(st.integers(1, 3)))]
    fields = [{"name": f"f{number}", "type": kind} for number, (kind, _) in enumerate(drawn)]
    values = st.fixed_dictionaries({f"f{number}": one for number, (_, one) in enumerate(drawn)})
    return {"type": "record", "name": names(), "fields": fields}, values


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    """Draw a schema and some of its records."""
    count = iter(range(10_000))
    schema, values = draw(records(lambda: f"n{next(count)}", 2))
    return schema, draw(st.lists(values, min_size=1, max_size=3))


def written(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def told(schema: Any, value: Any) -> Any:
    """Return a value of fastavro's as a table tells it: uuids as texts, maps as lists of pairs."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, list):
        return None if value is None else told(next(one for one in kind if one != "null"), value)
    if value is None or isinstance(kind, dict):
        return None if value is None else told(kind, value)
    if isinstance(value, UUID):
        return str(value)
    if kind == "record":
        return {one["name"]: told(one["type"], value[one["name"]]) for one in schema["fields"]}
    if kind == "map":
        return [(key, told(schema["values"], one)) for key, one in value.items()]
    return [told(schema["items"], one) for one in value] if kind == "array" else value


def schema_of(declared: Any, **more: Any) -> AvroSchema:
    return AvroSchema(text=json.dumps(declared), **more)


def read(schema: AvroSchema, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    table, faults = schema.read(pa.array(values, pa.binary()))
    return table.to_pylist(), faults.to_pylist()


@given(cases())
def test_records_are_read_as_fastavro_reads_them(case: tuple[Any, list[Any]]) -> None:
    declared, drawn = case
    values = [written(declared, one) for one in drawn]
    parsed = fastavro.parse_schema(declared)
    judged = [
        told(declared, fastavro.schemaless_reader(io.BytesIO(one), parsed, None)) for one in values
    ]
    schema = schema_of(declared)
    assert read(schema, *values) == (judged, [None] * len(values))
    assert [one.name for one in schema.fields if not one.nullable] == [
        one["name"]
        for one in declared["fields"]
        if one["type"] != "null" and not (isinstance(one["type"], list) and "null" in one["type"])
    ]


@given(cases(), st.data())
def test_damaged_bytes_are_refused_or_read_as_fastavro_reads_them(
    case: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    declared, (drawn, *_) = case
    value = bytearray(written(declared, drawn))
    for _ in range(data.draw(st.integers(1, 3))):
        if value:
            value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    rows, (fault,) = read(schema_of(declared), bytes(value))
    assert (fault is None) == bool(rows)
    if not rows:
        return
    stream = io.BytesIO(bytes(value))
    judged = fastavro.schemaless_reader(stream, fastavro.parse_schema(declared), None)
    zone = ("datetime.timezone.utc", "zoneinfo.ZoneInfo(key='UTC')")
    # As texts, because a NaN is not equal to itself; in small letters, because fastavro writes a
    # UUID so
    assert repr(rows[0]).lower() == repr(told(declared, judged)).replace(*zone).lower()
    assert stream.tell() == len(value)


@given(cases(), st.data())
def test_a_value_that_ends_early_or_late_is_refused(
    case: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    declared, (drawn, *_) = case
    value = written(declared, drawn)
    rows, (late,) = read(schema_of(declared), value + b"\0")
    assert (rows, late) == ([], "the value goes on after its record, for 1 bytes")
    if value:
        rows, (early,) = read(
            schema_of(declared), value[: data.draw(st.integers(0, len(value) - 1))]
        )
        assert rows == []
        assert early is not None


def one_field(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind, **more}]}


def record_of(null_count: int, *kinds: Any) -> dict[str, Any]:
    """Return a record of very many fields that take no bytes, and fields of ``kinds``."""
    nulls = [{"name": f"n{number}", "type": "null"} for number in range(null_count)]
    others = [{"name": f"a{number}", "type": kind} for number, kind in enumerate(kinds)]
    return {"type": "record", "name": "Empty", "fields": [*nulls, *others]}


def doubled(depth: int) -> dict[str, Any]:
    """Return records that each have the one before twice."""
    kind: Any = "int"
    for number in range(1, depth):
        name = f"R{number - 1}"
        both = [{"name": "a", "type": kind}, {"name": "b", "type": kind if number == 1 else name}]
        kind = {"type": "record", "name": f"R{number}", "fields": both}
    return dict(kind)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("int", None, "the value is null"),
        ("int", b"", "the value ends within field a"),
        ("string", b"\x08abc", "the value ends within field a"),
        ("string", b"\x01abc", "the value ends within field a"),
        ("string", b"\x04\xff\xff", "field a is not UTF-8 text"),
        ("double", b"1234", "the value ends within field a"),
        ("boolean", b"\x02", "field a is not BOOLEAN"),
        ("int", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "field a is not INT"),
        ("long", b"\xff" * 9 + b"\x7f", "field a has a number of more than 64 bits"),
        ("long", b"\xff" * 30 + b"\x01", "field a has a number of more than 64 bits"),
        (["null", "int"], b"\x04\x02", "field a is of type 2 of its union, which there is not"),
        (["null", "int"], b"\x01\x02", "field a is of type -1 of its union, which there is not"),
        (["int"], b"\x01\x02", "field a is of type -1 of its union, which there is not"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "field a is symbol -1 of its enum, which there is not"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02", "the value ends within field a"),
        ({"type": "map", "values": "null"}, b"\x04\x02k\x02k\x00", "field a gives a key more than once"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}, b"\x02\x64", "field a is not DECIMAL(2,1)"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f", "field a is not a day of the years 1 to 9999"),
        ({"type": "long", "logicalType": "timestamp-micros"}, b"\xfe" + b"\xff" * 8 + b"\x01", "field a is not a time of the years 1 to 9999"),
        ({"type": "string", "logicalType": "uuid"}, b"\x02x", "field a is not a UUID"),
        ({"type": "record", "name": "I", "fields": [{"name": "b", "type": "boolean"}]}, b"\x07", "field a.b is not BOOLEAN"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_by_its_field(
    kind: Any, value: bytes | None, reason: str
) -> None:
    assert read(schema_of(one_field(kind)), value) == ([], [reason])


def test_arrays_in_blocks_with_sizes_are_read() -> None:
    assert read(
        schema_of(one_field({"type": "array", "items": "int"})), b"\x03\x04\x02\x04\x02\x06\x00"
    ) == ([{"a": [1, 2, 3]}], [None])


def test_confluents_framing_is_skipped_whatever_its_id() -> None:
    schema = schema_of(one_field("int"), framing="confluent")
    rows, faults = read(
        schema, b"\0\0\0\0\7\x02", b"\0\xff\xff\xff\xff\x04", b"\1\0\0\0\7\x02", b"\0\0\0", b"\x02"
    )
    assert [row["a"] for row in rows] == [1, 2]
    assert faults == [
        None,
        None,
        *["the value does not begin with a zero and a schema's id, as Confluent's framing has it"]
        * 3,
    ]


def test_names_are_found_in_their_namespace_and_docs_become_comments() -> None:
    place = {
        "type": "record",
        "name": "Place",
        "fields": [{"name": "x", "type": "int", "doc": "metres"}],
    }
    declared = {
        "type": "record",
        "name": "R",
        "namespace": "shop",
        "fields": [
            {"name": "a", "type": place, "doc": "from"},
            {"name": "b", "type": ["null", "Place"]},
            {"name": "c", "type": "shop.Place"},
        ],
    }
    fields = schema_of(declared).fields
    assert fields.simpleString() == "struct<a:struct<x:int>,b:struct<x:int>,c:struct<x:int>>"
    assert fields["a"].metadata == {"comment": "from"}
    assert [one.nullable for one in fields] == [False, True, False]


MEMBERS = [
    "null",
    "string",
    {"type": "long", "logicalType": "timestamp-millis"},
    {
        "type": "record",
        "name": "shop.Card",
        "fields": [{"name": "number", "type": ["null", "int", "string"]}],
    },
    {"type": "array", "items": ["int", "string"]},
]


def test_a_union_of_several_types_is_a_struct_of_its_members() -> None:
    """A topic of which one field is such a union could not be declared at all."""
    schema = schema_of(one_field(MEMBERS))
    of_array = "ARRAY<STRUCT<int: INT, string: STRING>>"
    members = f"STRUCT<string: STRING, long: TIMESTAMP, Card: STRUCT<number: STRUCT<int: INT, string: STRING>>, array: {of_array}>"
    assert [(type_name(one.dataType), one.nullable) for one in schema.fields] == [(members, True)]
    nothing = {"string": None, "long": None, "Card": None, "array": None}
    at = datetime(2026, 1, 31, tzinfo=UTC)
    for value, expected in [
        (None, None),
        ("x", {**nothing, "string": "x"}),
        (at, {**nothing, "long": at}),
        ({"number": 5}, {**nothing, "Card": {"number": {"int": 5, "string": None}}}),
        ({"number": None}, {**nothing, "Card": {"number": None}}),
        (
            [1, "b"],
            {**nothing, "array": [{"int": 1, "string": None}, {"int": None, "string": "b"}]},
        ),
    ]:
        assert read(schema, written(one_field(MEMBERS), {"a": value})) == (
            [{"a": expected}],
            [None],
        )
    assert read(schema, b"\x0a\x00") == (
        [],
        ["field a is of type 5 of its union, which there is not"],
    )
    assert read(schema, b"\x01\x00") == (
        [],
        ["field a is of type -1 of its union, which there is not"],
    )
    assert read(schema, b"\x06\x06") == (
        [],
        ["field a.Card.number is of type 3 of its union, which there is not"],
    )
    assert not schema_of(one_field(["int", "string"])).fields["a"].nullable


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("{", "it is not JSON: "),
        ('"int"', "the schema is an int: only the fields of a record can become columns"),
        (one_field(["int", ["null", "string"]]), "field a is a union within a union"),
        (one_field(["null", "int", "null"]), "field a is a union that has null more than once"),
        (
            one_field(["int", "string", "int"]),
            "field a, a union, has the fields int and int, which would be the same column",
        ),
        (
            one_field(["int", "strng"]),
            "field a.strng: there is no type strng; did you mean string?",
        ),
        (one_field([]), "field a is a union of nothing"),
        (one_field("strng"), "field a: there is no type strng; did you mean string?"),
        (
            one_field(["null", "R"]),
            "field a is of the type R that it is part of, and no depth is declared",
        ),
        (
            one_field({"type": "array", "items": "null"}),
            "field a is an array of what takes no bytes",
        ),
        (
            one_field({"type": "array", "items": record_of(101, "int")}),
            "the record Empty has 101 fields that take no bytes: a byte may become at most 100",
        ),
        (record_of(201, "int", "int"), "the record Empty has 201 fields that take no bytes"),
        (doubled(14), "the record R13 has 16,383 types, with those within them, of at most 10,000"),
        (one_field({"type": "array"}), "field a: an array needs items"),
        (one_field({"type": "enum", "name": "E", "symbols": []}), "field a: an enum needs symbols"),
        (one_field({"type": "fixed", "name": "F"}), "field a: a fixed needs a size"),
        (
            one_field({"type": "bytes", "logicalType": "decimal", "precision": 39}),
            "field a: a decimal has a precision of 1 to 38 digits",
        ),
        (
            one_field({"type": "enum", "name": "R", "symbols": ["A"]}),
            "field a: the name R is taken",
        ),
        (one_field({"type": "record", "name": "I", "fields": []}), "the record I has no fields"),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "field a has no type"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a-b", "type": "int"}]},
            "field a-b: 'a-b' is not a name",
        ),
        (
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}],
            },
            "the record R has the fields a and A, which would be the same column",
        ),
        ({"type": "record", "fields": []}, "the schema: a record needs a name"),
    ],
)
def test_a_schema_that_makes_no_table_is_refused_with_the_file_and_the_field(
    tmp_path: Path, declared: Any, told: str
) -> None:
    file = tmp_path / "orders.avsc"
    file.write_text(declared if isinstance(declared, str) else json.dumps(declared))
    with pytest.raises(SchemaFileError) as refused:
        avro_schema(file)
    assert f"the schema file {file} is not an Avro schema of a topic: {told}" in str(refused.value)


def test_a_file_that_is_not_there_and_a_framing_that_there_is_not_are_told(tmp_path: Path) -> None:
    with pytest.raises(
        SchemaFileError, match=r"the schema file .*missing.avsc cannot be read: No such file"
    ):
        avro_schema(tmp_path / "missing.avsc")
    with pytest.raises(
        ValueError, match="there is no framing 'kafka': it is one of plain, confluent"
    ):
        avro_schema(tmp_path / "missing.avsc", framing="kafka")  # type: ignore[arg-type]


def evolving(folder: Path, *added: Any) -> tuple[Path, Path]:
    before = one_field("int")
    old, new = folder / "v1.avsc", folder / "v2.avsc"
    old.write_text(json.dumps(before))
    new.write_text(json.dumps({**before, "fields": [*before["fields"], *added]}))
    return old, new


def test_older_records_have_the_defaults_of_fields_that_were_added_at_the_end(
    tmp_path: Path,
) -> None:
    added = (
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "d", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "default": "Y"},
    )
    old, new = evolving(tmp_path, *added)
    schema = avro_schema(new, older=[old])
    assert format_of(schema.declared()) == schema
    rows, faults = read(schema, b"\x0a", b"\x0a\x02\x02x\x02\x00\x00", b"\x0a\x00", b"")
    assert rows == [
        {"a": 5, "b": None, "c": date(1970, 1, 2), "d": [], "e": "Y"},
        {"a": 5, "b": "x", "c": date(1970, 1, 2), "d": [], "e": "X"},
    ]
    assert faults == [None, None, "the value ends within field c", "the value ends within field a"]
    assert read(avro_schema(new), b"\x0a")[1] == ["the value ends within field b"]


def test_a_change_that_bytes_do_not_tell_is_refused(tmp_path: Path) -> None:
    old, new = evolving(tmp_path, {"name": "b", "type": "int"})
    with pytest.raises(
        SchemaFileError,
        match=r"v2.avsc cannot be read together with older ones: field b needs a default",
    ):
        avro_schema(new, older=[old])
    with pytest.raises(
        SchemaFileError,
        match=r"the older schema .*v2.avsc is not the beginning of .*v1.avsc: only fields that were added",
    ):
        avro_schema(old, older=[new])
    _, new = evolving(tmp_path, {"name": "b", "type": "int", "default": 2**31})
    with pytest.raises(
        SchemaFileError, match="field b: 2147483648 is not a default that is read for int"
    ):
        avro_schema(new, older=[old])
    _, new = evolving(
        tmp_path, {"name": "b", "type": {"type": "string", "logicalType": "uuid"}, "default": "x"}
    )
    with pytest.raises(
        SchemaFileError,
        match=r"a default in the schema file .* does not fit: field b is not a UUID",
    ):
        avro_schema(new, older=[old])


def test_what_a_table_has_for_each_type() -> None:
    kinds = [
        "null",
        "float",
        {"type": "fixed", "name": "F", "size": 2},
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        {
            "type": "fixed",
            "name": "D",
            "size": 4,
            "logicalType": "decimal",
            "precision": 9,
            "scale": 2,
        },
        {"type": "long", "logicalType": "local-timestamp-millis"},
        {"type": "int", "logicalType": "time-millis"},
        {"type": "string", "logicalType": "date"},
    ]
    declared = {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)],
    }
    schema = schema_of(declared)
    found = [one.dataType.simpleString() for one in schema.fields]
    assert found == [
        "string",
        "float",
        "binary",
        "string",
        "decimal(9,2)",
        "timestamp_ntz",
        "int",
        "string",
    ]
    value = b"".join(
        [b"\0\0\x80\x3f", b"ab", bytes(range(16)), b"\xff\xff\xff\xff", b"\x02", b"\x04", b"\x02x"]
    )
    (row,), _ = read(schema, value)
    assert list(row.values()) == [
        None,
        1.0,
        b"ab",
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
        Decimal("-0.01"),
        datetime(1970, 1, 1) + timedelta(milliseconds=1),  # noqa: DTZ001 - it has no zone
        2,
        "x",
    ]


NODE: dict[str, Any] = {
    "type": "record",
    "name": "Node",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "next", "type": ["null", "Node"], "default": None},
        {"name": "more", "type": {"type": "array", "items": "Node"}},
        {"name": "last", "type": "string"},
    ],
}


def node(number: int, *, next_one: Any = None, more: Any = ()) -> dict[str, Any]:
    return {"id": number, "kind": "B", "next": next_one, "more": list(more), "last": f"l{number}"}


def chosen_schema(tmp_path: Path, **choice: Any) -> AvroSchema:
    file = tmp_path / "node.avsc"
    file.write_text(json.dumps(NODE))
    return avro_schema(file, **choice)


def rows_and_faults(schema: AvroSchema, *values: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    parsed = fastavro.parse_schema(NODE)
    written = []
    for value in values:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, value)
        written.append(buffer.getvalue())
    table, faults = schema.read(pa.array(written, pa.binary()))
    return table.to_pylist(), faults.to_pylist()


def test_fields_that_are_left_out_are_passed_however_deep_they_are(tmp_path: Path) -> None:
    """A record within itself kept all other fields of its topic away."""
    schema = chosen_schema(tmp_path, leave_out=("next", "more"))
    assert schema.fields.names == ["id", "kind", "last"]
    deep = node(
        1,
        next_one=node(2, next_one=node(3), more=[node(4), node(5, more=[node(6)])]),
        more=[node(7)],
    )
    rows, faults = rows_and_faults(schema, deep, node(8))
    assert faults == [None, None]
    assert rows == [{"id": 1, "kind": "B", "last": "l1"}, {"id": 8, "kind": "B", "last": "l8"}]
    assert format_of(json.loads(json.dumps(schema.declared()))) == schema


def test_a_record_is_within_itself_as_often_as_declared(tmp_path: Path) -> None:
    with pytest.raises(SchemaFileError, match="there is no field other to leave out"):
        chosen_schema(tmp_path, leave_out="other", depth=1)
    schema = chosen_schema(tmp_path, depth=1)
    inside = "struct<id:int,kind:string,last:string>"
    assert [schema.fields[name].dataType.simpleString() for name in ("next", "more")] == [
        inside,
        f"array<{inside}>",
    ]
    fits = node(1, next_one=node(2), more=[node(3), node(4)])
    rows, faults = rows_and_faults(
        schema,
        fits,
        node(1, next_one=node(2, next_one=node(3))),
        node(1, more=[node(2, more=[node(3)])]),
    )
    inner = [{"id": number, "kind": "B", "last": f"l{number}"} for number in (2, 3, 4)]
    assert rows == [{"id": 1, "kind": "B", "next": inner[0], "more": inner[1:], "last": "l1"}]
    assert faults == [
        None,
        "field next.next is nested deeper than the declared depth",
        "field more[].more[] is nested deeper than the declared depth",
    ]


def test_a_record_within_itself_says_what_to_declare(tmp_path: Path) -> None:
    with pytest.raises(
        SchemaFileError,
        match=r"field next is of the type Node that it is part of, .*\(depth=3\), .*leave_out='next'",
    ):
        chosen_schema(tmp_path)


def test_a_field_of_a_record_that_is_named_twice_is_left_out_at_one_place(tmp_path: Path) -> None:
    point = {
        "type": "record",
        "name": "Point",
        "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}],
    }
    declared = {
        "type": "record",
        "name": "Line",
        "fields": [
            {"name": "start", "type": point},
            {"name": "ends", "type": {"type": "array", "items": "Point"}},
        ],
    }
    file = tmp_path / "line.avsc"
    file.write_text(json.dumps(declared))
    schema = avro_schema(file, leave_out="ends[].y")
    buffer = io.BytesIO()
    value = {"start": {"x": 1, "y": 2}, "ends": [{"x": 3, "y": 4}]}
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(declared), value)
    table, faults = schema.read(pa.array([buffer.getvalue()]))
    assert faults.to_pylist() == [None]
    assert table.to_pylist() == [{"start": {"x": 1, "y": 2}, "ends": [{"x": 3}]}]
