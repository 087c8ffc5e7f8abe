"""Random messages go there and back through Protobuf's own runtime.

Damaged bytes and impossible files are refused.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from orchestration.formats import (
    ProtobufSchema,
    SchemaFileError,
    descriptors,
    format_of,
    protobuf_schema,
)
from orchestration.formats.descriptors import find_message
from orchestration.values.type_names import type_name

PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
enum Kind { NONE = 0; WEB = 1; }
message Order {
  message Item { string name = 1; repeated float weights = 2; }
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10;
  float single = 11; double number = 12; bool is_open = 13; string text = 14; bytes octets = 15; Kind kind = 16;
  optional int32 maybe = 17;
  Item item = 18;
  repeated Item items = 19;
  repeated Kind kinds = 20;
  map<string, Item> by_name = 21;
  map<uint64, Kind> by_number = 22;
  google.protobuf.Timestamp at = 23;
  oneof paid { string card = 24; int64 cash = 25; }
}
message Wider { int32 i32 = 1; string later = 99; Kind kind = 16; }
"""
PROTO2 = """syntax = "proto2";
message Old { required int32 id = 1; optional string note = 2 [default = "none"]; optional Kind kind = 3; enum Kind { A = 1; } }
message Must { required Old.Kind kind = 1; }
message Shelf { message Box { required int32 id = 1; } map<string, int32> counts = 1; map<string, Box> boxes = 2; repeated Box loose = 3; }
"""


def whole(bits: int, *, is_signed: bool) -> st.SearchStrategy[int]:
    return (
        st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if is_signed
        else st.integers(0, 2**bits - 1)
    )


TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
SINGLES = st.floats(allow_nan=False, width=32)
ITEMS = st.fixed_dictionaries({"name": TEXTS, "weights": st.lists(SINGLES, max_size=2)})
KINDS = st.sampled_from(["NONE", "WEB", "7"])
UNSIGNED = whole(64, is_signed=False).map(Decimal)
ROWS = st.fixed_dictionaries(
    {
        **{name: whole(32, is_signed=True) for name in ("i32", "s32", "sf32")},
        **{name: whole(64, is_signed=True) for name in ("i64", "s64", "sf64")},
        **{name: whole(32, is_signed=False) for name in ("u32", "f32")},
        **dict.fromkeys(("u64", "f64"), UNSIGNED),
        "single": SINGLES,
        "number": st.floats(allow_nan=False),
        "is_open": st.booleans(),
        "text": TEXTS,
        "octets": st.binary(max_size=5),
        "kind": KINDS,
        "maybe": st.none() | whole(32, is_signed=True),
        "item": st.none() | ITEMS,
        "items": st.lists(ITEMS, max_size=2),
        "kinds": st.lists(KINDS, max_size=3),
        "by_name": st.dictionaries(TEXTS, ITEMS, max_size=3).map(lambda one: sorted(one.items())),
        "by_number": st.dictionaries(UNSIGNED, KINDS, max_size=3).map(
            lambda one: sorted(one.items())
        ),
        "at": st.none() | st.datetimes(timezones=st.just(UTC)),
        "paid": st.none()
        | st.tuples(st.just("card"), TEXTS)
        | st.tuples(st.just("cash"), whole(64, is_signed=True)),
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("schemas")
    (made / "orders.proto").write_text(PROTO)
    (made / "old.proto").write_text(PROTO2)
    return made


@pytest.fixture(scope="module")
def orders(folder: Path) -> ProtobufSchema:
    return protobuf_schema(folder / "orders.proto", message="shop.Order")


def message_of(schema: ProtobufSchema) -> Any:
    return GetMessageClass(find_message(schema.descriptors, schema.message))


def number_of(kind: str) -> int:
    return {"NONE": 0, "WEB": 1}.get(kind, 7)


def written(schema: ProtobufSchema, row: dict[str, Any]) -> bytes:
    found = {name: value for name, value in row.items() if value is not None and name != "paid"}
    found |= {name: int(found[name]) for name in ("u64", "f64")}
    found |= {
        "kind": number_of(row["kind"]),
        "kinds": [number_of(one) for one in row["kinds"]],
        "by_name": dict(row["by_name"]),
    }
    found["by_number"] = {int(key): number_of(one) for key, one in row["by_number"]}
    value: bytes = message_of(schema)(
        **found, **dict([row["paid"]] if row["paid"] else [])
    ).SerializeToString()
    return value


def read(schema: ProtobufSchema, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    table, faults = schema.read(pa.array(values, pa.binary()))
    return table.to_pylist(), faults.to_pylist()


@given(rows=st.lists(ROWS, min_size=1, max_size=3))
def test_messages_are_read_as_they_were_written(
    orders: ProtobufSchema, rows: list[dict[str, Any]]
) -> None:
    told = [
        {**row, "card": None, "cash": None, **dict([row["paid"]] if row["paid"] else [])}
        for row in rows
    ]
    for row in told:
        del row["paid"]
    assert read(orders, *(written(orders, row) for row in rows)) == (told, [None] * len(rows))


@given(row=ROWS, data=st.data())
def test_damaged_bytes_are_refused_where_protobuf_refuses_them_and_none_are_lost(
    orders: ProtobufSchema, row: dict[str, Any], data: st.DataObject
) -> None:
    value = bytearray(written(orders, row))
    for _ in range(data.draw(st.integers(1, 3))):
        if value:
            value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(value[: data.draw(st.integers(0, len(value)))])
    rows, (fault,) = read(orders, damaged)
    assert (fault is None) == bool(rows)
    try:
        message_of(orders).FromString(damaged)
    except DecodeError:
        assert fault == "the value is not a shop.Order: its bytes are damaged or end early"
    else:
        assert fault is None or fault.startswith("field at ")


def test_what_is_not_in_a_value_has_its_default_or_is_null(orders: ProtobufSchema) -> None:
    (row,), faults = read(orders, b"")
    assert faults == [None]
    assert [row[name] for name in ("i32", "u64", "text", "kind", "items")] == [
        0,
        Decimal(0),
        "",
        "NONE",
        [],
    ]
    assert [row[name] for name in ("maybe", "item", "at", "card", "cash")] == [None] * 5
    assert [one.name for one in orders.fields if one.nullable] == [
        "maybe",
        "item",
        "at",
        "card",
        "cash",
    ]


def test_unknown_fields_are_ignored(orders: ProtobufSchema, folder: Path) -> None:
    wider = protobuf_schema(folder / "orders.proto", message="shop.Wider")
    value = message_of(wider)(i32=3, later="x", kind=1).SerializeToString()
    (row,), faults = read(orders, value)
    assert (row["i32"], row["kind"], faults) == (3, "WEB", [None])


def test_a_time_that_no_table_has_is_a_fault(orders: ProtobufSchema) -> None:
    values = [
        message_of(orders)(at={"seconds": seconds, "nanos": nanos}).SerializeToString()
        for seconds, nanos in ((2**40, 0), (0, -1))
    ]
    assert read(orders, *values, None) == (
        [],
        [
            "field at is not a time of the years 1 to 9999",
            "field at has -1 nanoseconds, which no second has",
            "the value is null",
        ],
    )


def test_required_fields_defaults_and_closed_enums_of_proto2(folder: Path) -> None:
    schema = protobuf_schema(folder / "old.proto", message="Old")
    assert [one.nullable for one in schema.fields] == [False, True, True]
    assert read(schema, b"\x08\x05", b"\x08\x05\x18\x02", b"", b"\x08\x05\x12\x01\xff") == (
        [{"id": 5, "note": None, "kind": None}] * 2,
        [None, None, "the value lacks required fields: id", "field note is not UTF-8 text"],
    )
    must = protobuf_schema(folder / "old.proto", message="Must")
    assert read(must, b"\x08\x01", b"\x08\x02") == (
        [{"kind": "A"}],
        [None, "the value lacks required fields: kind"],
    )


def entry(field: int, key: bytes, value: bytes) -> bytes:
    """Return an entry of a map whose value is ``value`` with its tag."""
    held = b"\x0a" + bytes([len(key)]) + key + value
    return bytes([field << 3 | 2, len(held)]) + held


def test_a_key_of_a_map_that_is_not_utf_8_is_a_fault_beside_one_that_is(folder: Path) -> None:
    schema = protobuf_schema(folder / "old.proto", message="Shelf")
    good, bad = entry(1, b"a", b"\x10\x01"), entry(1, b"\xff", b"\x10\x02")
    assert read(schema, good + bad, bad, good) == (
        [{"counts": [("a", 1)], "boxes": [], "loose": []}],
        [*["field counts is not UTF-8 text"] * 2, None],
    )


def test_a_reason_names_three_of_the_required_fields_that_are_missing_and_the_count_of_the_others(
    folder: Path,
) -> None:
    schema, lacks = (
        protobuf_schema(folder / "old.proto", message="Shelf"),
        "the value lacks required fields:",
    )
    loose, long = b"\x1a\x00", entry(2, b"k" * 100, b"\x12\x00")
    assert read(schema, loose * 3, loose * 5_000, entry(2, b'"\n', b"\x12\x00"), long) == (
        [],
        [
            f"{lacks} loose[0].id, loose[1].id, loose[2].id",
            f"{lacks} loose[0].id, loose[1].id, loose[2].id and 4997 more",
            rf'{lacks} boxes["\"\n"].id',
            f'{lacks} boxes["{"k" * 40}"].id',
        ],
    )


def test_a_key_that_is_not_utf_8_before_a_required_field_that_is_missing_is_a_fault(
    folder: Path,
) -> None:
    schema = protobuf_schema(folder / "old.proto", message="Shelf")
    assert read(schema, entry(2, b"\xff", b"\x12\x00")) == ([], ["field boxes is not UTF-8 text"])


def test_confluents_framing_names_the_message(folder: Path) -> None:
    wider = protobuf_schema(folder / "orders.proto", message="shop.Wider", framing="confluent")
    item = protobuf_schema(folder / "orders.proto", message="shop.Order.Item", framing="confluent")
    order = protobuf_schema(folder / "orders.proto", message="shop.Order", framing="confluent")
    head, told = (
        b"\0\0\0\0\7",
        "the value does not tell its message's place in its file, as Confluent's framing has it",
    )
    rows, faults = read(
        wider,
        head + b"\x02\x02\x08\x05",
        head + b"\x00\x08\x05",
        head + b"\x02",
        head + b"\xff" * 9,
        b"\x08\x05",
    )
    assert rows == [{"i32": 5, "later": "", "kind": "NONE"}]
    assert faults[:4] == [None, "the value is message [0] of its file, and not [1]", told, told]
    assert (
        faults[4]
        == "the value does not begin with a zero and a schema's id, as Confluent's framing has it"
    )
    assert read(item, head + b"\x04\x00\x00\x0a\x01x")[0] == [{"name": "x", "weights": []}]
    assert [
        row["i32"] for row in read(order, head + b"\x00\x08\x05", head + b"\x02\x00\x08\x05")[0]
    ] == [5, 5]


def compiled(folder: Path, *options: str) -> Path:
    arguments = [
        f"--proto_path={folder}",
        *options,
        f"--descriptor_set_out={folder / 'orders.desc'}",
        "orders.proto",
    ]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=True)
    return folder / "orders.desc"


@pytest.mark.parametrize("options", [["--include_imports"], []])
def test_a_set_of_descriptors_is_the_same_schema_and_needs_no_compiler(
    folder: Path, orders: ProtobufSchema, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    file = compiled(folder, *options)
    monkeypatch.setattr(descriptors, "find_spec", lambda _: None)
    schema = protobuf_schema(str(file), message="shop.Order")
    assert schema.fields == orders.fields
    assert format_of(schema.declared()) == schema
    value = message_of(orders)(i32=3, at=datetime(2026, 1, 1, tzinfo=UTC)).SerializeToString()
    assert read(schema, value) == read(orders, value)
    with pytest.raises(
        SchemaFileError,
        match=r"orders.proto has to be compiled: pip install 'tidelog\[proto\]', or make a set of",
    ):
        protobuf_schema(folder / "orders.proto", message="shop.Order")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message X { in id = 1; }", r'cannot be compiled: .*bad.proto:1:\d+: "in" is not defined'),
        (
            'import "gone.proto"; message X { int32 id = 1; }',
            "cannot be compiled: gone.proto: File not found",
        ),
        ("message Y { int32 id = 1; }", r"bad.proto has no message X: it has Y"),
        ("message Xy { int32 id = 1; }", r"bad.proto has no message X: did you mean Xy\?"),
        ("message X { }", "cannot be a topic's schema: the message X has no fields"),
        (
            "message X { repeated X more = 1; }",
            r"field more is of the type X that it is part of, and no depth is declared.*\(leave_out='more'\)",
        ),
        (
            "message X { int32 id = 1; int32 ID = 2; }",
            "topic's schema: the message X has the fields id and ID, which would be the same column",
        ),
    ],
)
def test_a_message_that_makes_no_table_is_refused_with_the_file_and_the_field(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "bad.proto").write_text(f'syntax = "proto3"; {text}')
    with pytest.raises(SchemaFileError, match=told) as refused:
        protobuf_schema(tmp_path / "bad.proto", message="X")
    assert str(tmp_path / "bad.proto") in str(refused.value)


TREE = """syntax = "proto3";
import "google/protobuf/struct.proto";
import "google/protobuf/empty.proto";
message Tree { int32 id = 1; Tree next = 2; repeated Tree more = 3; map<string, Tree> named = 4; }
message Event {
  message Created {}
  message Renamed { string name = 1; }
  int32 id = 1;
  oneof what { Created created = 2; Renamed renamed = 3; google.protobuf.Empty gone = 4; }
  google.protobuf.Struct extra = 5;
  repeated google.protobuf.Value any = 6;
  repeated Tree trees = 7;
  int32 ID = 8;
}
"""


def listed(schema: ProtobufSchema, value: bytes) -> tuple[list[Any], list[str | None]]:
    found, faults = read(schema, value)
    return [list(row.values()) for row in found], faults


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    (tmp_path / "tree.proto").write_text(TREE)
    return tmp_path / "tree.proto"


def test_a_message_is_within_itself_up_to_the_declared_depth(trees: Path) -> None:
    schema = protobuf_schema(trees, message="Tree", depth=1)
    inner = "STRUCT<id: INT>"
    assert [type_name(one.dataType) for one in schema.fields] == [
        "INT",
        inner,
        f"ARRAY<{inner}>",
        f"MAP<STRING,{inner}>",
    ]
    assert format_of(json.loads(json.dumps(schema.declared()))) == schema
    made = message_of(schema)
    fitting = made(id=1, next=made(id=2), more=[made(id=3)], named={"a": made(id=4)})
    assert listed(schema, fitting.SerializeToString()) == (
        [[1, {"id": 2}, [{"id": 3}], [("a", {"id": 4})]]],
        [None],
    )
    for deep, where in [
        (made(next=made(next=made())), "next.next"),
        (made(more=[made(more=[made()])]), "more[].more"),
        (made(named={"a": made(named={"b": made()})}), "named[].named"),
    ]:
        assert listed(schema, deep.SerializeToString()) == (
            [],
            [f"field {where} is nested deeper than the declared depth 1"],
        )


def test_one_field_that_cannot_be_read_is_left_out(trees: Path) -> None:
    with pytest.raises(
        SchemaFileError, match="the fields id and ID, which would be the same column"
    ):
        protobuf_schema(trees, message="Event", depth=1)
    schema = protobuf_schema(
        trees, message="Event", leave_out=("ID", "trees[].next", "trees[].more", "trees[].named")
    )
    assert schema.fields.names == ["id", "created", "renamed", "gone", "extra", "any", "trees"]
    assert format_of(json.loads(json.dumps(schema.declared()))) == schema
    made = message_of(schema)
    value = made(id=1, ID=2, trees=[{"id": 3, "next": {"id": 4}}]).SerializeToString()
    assert listed(schema, value) == ([[1, None, None, None, None, [], [{"id": 3}]]], [None])
    assert (
        protobuf_schema(trees, message="Event", leave_out=("trees", "ID")).fields.names[-1] == "any"
    )
    with pytest.raises(
        SchemaFileError,
        match=r"there is no field tree to leave out; what is within .* is written lines\[\].price",
    ):
        protobuf_schema(trees, message="Event", leave_out=("trees", "ID", "tree"))


def test_messages_without_fields_tell_that_they_are_set_and_any_json_is_its_text(
    trees: Path,
) -> None:
    schema = protobuf_schema(trees, message="Event", leave_out=("trees", "ID"))
    made = message_of(schema)
    assert [type_name(one.dataType) for one in schema.fields][1:] == [
        "BOOLEAN",
        "STRUCT<name: STRING>",
        "BOOLEAN",
        "STRING",
        "ARRAY<STRING>",
    ]
    assert listed(schema, made(created={}).SerializeToString())[0] == [
        [0, True, None, None, None, []]
    ]
    assert listed(schema, made(gone={}).SerializeToString())[0] == [[0, None, None, True, None, []]]
    value = made(
        extra={"b": [1, "x", None], "a": {"c": True}},
        any=[{"string_value": "t"}, {"number_value": 2.5}],
    )
    ((_, _, _, _, extra, several),), faults = listed(schema, value.SerializeToString())
    assert (json.loads(extra), several, faults) == (
        {"b": [1, "x", None], "a": {"c": True}},
        ['"t"', "2.5"],
        [None],
    )
    value = made(any=[{"number_value": float("nan")}])
    assert listed(schema, value.SerializeToString()) == (
        [],
        ["field any[] holds what JSON has no form for"],
    )


@pytest.mark.parametrize("field", ["repeated Kind kinds = 2", "map<string, Kind> kinds = 2"])
@pytest.mark.parametrize(
    "around", ["message X {{ {} }}", "message X {{ optional In kinds = 1; }} message In {{ {} }}"]
)
def test_several_values_of_a_closed_enum_are_refused_because_unknown_ones_would_be_lost(
    tmp_path: Path, around: str, field: str
) -> None:
    file = tmp_path / "closed.proto"
    file.write_text(f'syntax = "proto2"; enum Kind {{ A = 0; }} {around.format(field + ";")}')
    path = r"kinds\.kinds" if "In" in around else "kinds"
    with pytest.raises(
        SchemaFileError,
        match=rf"closed.proto cannot .*: field {path} holds several values of Kind, a closed enum .* int32",
    ):
        protobuf_schema(file, message="X")
    file.write_text(f'syntax = "proto2"; {around.format(field.replace("Kind", "int32") + ";")}')
    assert protobuf_schema(file, message="X").fields.names == ["kinds"]


def test_files_that_are_no_descriptors_are_told(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(SchemaFileError, match=r"missing.desc cannot be read: No such file"):
        protobuf_schema(tmp_path / "missing.desc", message="X")
    for content in (b"\xff\xff", b""):
        (tmp_path / "bad.desc").write_bytes(content)
        with pytest.raises(SchemaFileError, match=r"bad.desc is not a set of descriptors: "):
            protobuf_schema(tmp_path / "bad.desc", message="X")
    whole = FileDescriptorSet.FromString(
        protobuf_schema(folder / "orders.proto", message="shop.Order").descriptors
    )
    whole.file[-1].dependency.append("gone.proto")
    (tmp_path / "part.desc").write_bytes(whole.SerializeToString())
    with pytest.raises(
        SchemaFileError,
        match=r"part.desc is not whole: orders.proto cannot be read .*protoc --include_imports",
    ):
        protobuf_schema(tmp_path / "part.desc", message="shop.Order")
    with pytest.raises(ValueError, match="there is no framing 'kafka'"):
        protobuf_schema(tmp_path / "part.desc", message="X", framing="kafka")  # type: ignore[arg-type]
