"""Verdicts on pairs of schemas, by the rules and names of Confluent's registry."""

import pytest

from log_service.http.schema_registry.languages.language import NamedSchema
from log_service.http.schema_registry.languages.protobuf import PROTOBUF

REMOVED = "MESSAGE_REMOVED"
KIND = "FIELD_KIND_CHANGED"
SCALAR = "FIELD_SCALAR_KIND_CHANGED"
NAMED = "FIELD_NAMED_TYPE_CHANGED"
LABEL = "FIELD_NUMERIC_LABEL_CHANGED"


def found(writer: str, reader: str, *, head: str = 'syntax = "proto3";') -> list[str]:
    """Return why a reader cannot read a writer, as kinds and paths."""
    old, new = (PROTOBUF.parse(f"{head} {text}") for text in (writer, reader))
    return [f"{each.kind} {each.path}" for each in new.differences(old)]


def body(*fields: str) -> str:
    """Return a message with fields."""
    return f"message M {{ {' '.join(fields)} }} message N {{ int32 x = 1; }} enum E {{ Z = 0; }}"


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        ("string a = 1;", "string a = 1; string b = 2;", []),
        ("string a = 1; string b = 2;", "string a = 1;", []),
        ("string a = 1;", "string b = 1;", []),
        ("string a = 1;", "string a = 2;", []),
        ("int32 a = 1;", "int64 a = 1;", []),
        ("int32 a = 1;", "bool a = 1;", []),
        ("int32 a = 1;", "E a = 1;", []),
        ("E a = 1;", "uint64 a = 1;", []),
        ("string a = 1;", "bytes a = 1;", []),
        ("sint32 a = 1;", "sint64 a = 1;", []),
        ("fixed32 a = 1;", "sfixed32 a = 1;", []),
        ("fixed64 a = 1;", "sfixed64 a = 1;", []),
        ("int32 a = 1;", "sint32 a = 1;", [f"{SCALAR} #/M/1"]),
        ("int32 a = 1;", "string a = 1;", [f"{SCALAR} #/M/1"]),
        ("float a = 1;", "double a = 1;", [f"{SCALAR} #/M/1"]),
        ("fixed32 a = 1;", "fixed64 a = 1;", [f"{SCALAR} #/M/1"]),
        ("fixed32 a = 1;", "float a = 1;", [f"{SCALAR} #/M/1"]),
        ("E a = 1;", "string a = 1;", [f"{SCALAR} #/M/1"]),
        ("int32 a = 1;", "N a = 1;", [f"{KIND} #/M/1"]),
        ("N a = 1;", "map<int32, N> a = 1;", [f"{KIND} #/M/1"]),
        ("repeated N a = 1;", "map<int32, N> a = 1;", [f"{KIND} #/M/1"]),
        ("N a = 1;", "M a = 1;", [f"{NAMED} #/M/1"]),
        ("N a = 1;", ".N a = 1;", []),
        ("N a = 1;", "repeated N a = 1;", []),
        ("map<int32, N> a = 1;", "map<int64, .N> a = 1;", []),
        ("map<int32, N> a = 1;", "map<string, N> a = 1;", [f"{SCALAR} #/M/1"]),
        ("map<int32, string> a = 1;", "map<int32, float> a = 1;", [f"{SCALAR} #/M/1"]),
        ("map<int32, N> a = 1;", "map<int32, M> a = 1;", [f"{NAMED} #/M/1"]),
        ("map<int32, N> a = 1;", "map<int32, int32> a = 1;", [f"{KIND} #/M/1"]),
        ("optional int32 a = 1;", "repeated int32 a = 1;", [f"{LABEL} #/M/1"]),
        ("repeated E a = 1;", "optional E a = 1;", [f"{LABEL} #/M/1"]),
        ("int32 a = 1;", "repeated int32 a = 1;", []),
        ("optional string a = 1;", "repeated string a = 1;", []),
        ("optional N a = 1;", "repeated N a = 1;", []),
        ("string a = 1;", "oneof o { string a = 1; int32 b = 2; }", []),
        (
            "string a = 1; string b = 2;",
            "oneof o { string a = 1; string b = 2; }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
        ),
        (
            "string a = 1; oneof o { string b = 2; }",
            "oneof o { string a = 1; string b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/o"],
        ),
        (
            "string a = 1; oneof o { string b = 2; }",
            "oneof p { string a = 1; string b = 2; }",
            ["FIELD_MOVED_TO_EXISTING_ONEOF #/M/p"],
        ),
        ("oneof o { int32 a = 1; }", "oneof o { int32 a = 1; int32 b = 2; }", []),
        (
            "oneof o { int32 a = 1; int32 b = 2; }",
            "oneof o { int32 a = 1; }",
            ["ONEOF_FIELD_REMOVED #/M/o/2"],
        ),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; } int32 b = 2;", []),
        ("oneof o { int32 a = 1; }", "int32 a = 1;", []),
        ("oneof o { int32 a = 1; }", "string a = 1;", [f"{SCALAR} #/M/1"]),
        ("oneof o { int32 a = 1; }", "oneof p { string a = 1; }", [f"{SCALAR} #/M/1"]),
        ("oneof o { int32 a = 1; }", "oneof o { string a = 1; }", [f"{SCALAR} #/M/o/1"]),
        ("optional int32 a = 1;", "int32 a = 1;", []),
        ("reserved 5;", "string a = 5;", []),
        ("message P { int32 a = 1; }", "message P { string a = 1; }", [f"{SCALAR} #/M/P/1"]),
        ("message P { }", "", [f"{REMOVED} #/M/P"]),
        ("enum P { Q = 0; }", "", []),
        ("", "message P { }", []),
        ("N a = 1;", "N a = 1; M b = 2;", []),
    ],
)
def test_changes_of_a_message(writer: str, reader: str, expected: list[str]) -> None:
    """A change of one message has the verdict of Confluent's registry."""
    assert found(body(writer), body(reader)) == expected


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        ("optional int32 a = 1;", "required int32 a = 1;", [f"{LABEL} #/M/1"]),
        ("", "required int32 a = 1;", ["REQUIRED_FIELD_ADDED #/M/1"]),
        ("required string a = 1;", "", ["REQUIRED_FIELD_REMOVED #/M/1"]),
        ("", "optional int32 a = 1;", []),
        ("optional group G = 1 { }", "", []),
        ("optional group G = 1 { }", "optional G a = 1; message G { }", [f"{KIND} #/M/1"]),
        (
            "optional group G = 1 { optional int32 x = 1; }",
            "optional group H = 1 { optional string x = 1; }",
            [f"{SCALAR} #/M/G/1", f"{NAMED} #/M/1"],
        ),
    ],
)
def test_changes_of_proto2(writer: str, reader: str, expected: list[str]) -> None:
    """Required fields may neither come nor go, and a group is no message."""
    old, new = (f"message M {{ {each} }}" for each in (writer, reader))
    assert found(old, new, head="") == expected


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        ("package a; message M {}", "package b; message M {}", ["PACKAGE_CHANGED #/"]),
        ("package a; message M { M m = 1; }", "package a; message M { .a.M m = 1; }", []),
        ("message A {} message B {}", "message B {} message A {}", []),
        ("message A {}", "message B {}", [f"{REMOVED} #/A"]),
        ("enum A { Z = 0; } message M {}", "message M {}", []),
        ("enum A { Z = 0; Y = 1; }", "enum A { Z = 0; X = 1; }", []),
        ("service S {} message M {}", "message M {}", []),
    ],
)
def test_changes_of_a_file(writer: str, reader: str, expected: list[str]) -> None:
    """Messages are compared by their names, wherever they stand in the file."""
    assert found(writer, reader) == expected


def library(text: str, package: str = "lib", name: str = "lib.proto") -> NamedSchema:
    """Return a file that others import."""
    return NamedSchema(name=name, text=f'syntax = "proto3"; package {package}; {text}')


def with_library(old: NamedSchema, new: NamedSchema) -> list[str]:
    """Return the differences of two schemas that use another file each."""
    writer, reader = (
        PROTOBUF.parse(
            f'syntax = "proto3"; import "{each.name}"; message M {{ {package}.T t = 1; }}', [each]
        )
        for each, package in ((old, package_of(old)), (new, package_of(new)))
    )
    return [f"{each.kind} {each.path}" for each in reader.differences(writer)]


def package_of(schema: NamedSchema) -> str:
    """Return the package of a file."""
    return schema.text.partition("package ")[2].partition(";")[0]


def test_a_type_of_another_file_is_compared_where_it_is_used() -> None:
    """A broken type of an import is told with its own path, and then the field that has it."""
    old = library("message T { int32 a = 1; }")
    new = library("message T { string a = 1; }")
    assert with_library(old, new) == [f"{SCALAR} #/T/1", f"{NAMED} #/M/1"]
    assert with_library(old, old) == []


def test_a_type_may_move_to_another_package() -> None:
    """Types of one name in packages of two names are compared by their fields."""
    old = library("message T { int32 a = 1; }")
    assert with_library(old, library("message T { int32 a = 1; }", "other", "b.proto")) == []
    new = library("message T { string a = 1; }", "other", "b.proto")
    assert with_library(old, new) == [f"{SCALAR} #/T/1", f"{NAMED} #/M/1"]


def test_types_that_use_each_other_are_compared_once() -> None:
    """A difference deep in a circle of types is told once, and every field on the way to it."""
    text = "message T {{ U one = 1; U two = 2; }} message U {{ T t = 1; {} x = 2; }}"
    old, new = (library(text.format(each)) for each in ("int32", "string"))
    assert sorted(with_library(old, new)) == sorted(
        [
            f"{SCALAR} #/U/2",
            f"{NAMED} #/U/1",
            f"{NAMED} #/T/1",
            f"{NAMED} #/T/2",
            f"{NAMED} #/M/1",
        ]
    )


def test_a_wide_lattice_of_types_costs_little() -> None:
    """Two fields of each of many types lead to no doubling of the work."""
    count = 300
    inner = "".join(f"message T{n} {{ T{n + 1} a = 1; T{n + 1} b = 2; }} " for n in range(count))
    texts = [
        f"message T {{ T0 t = 1; }} {inner} message T{count} {{ {kind} x = 1; }}"
        for kind in ("int32", "string")
    ]
    old, new = map(library, texts)
    assert len(with_library(old, new)) == 2 * count + 3


@pytest.mark.parametrize(
    ("writer", "reader", "text"),
    [
        (
            "message M { int32 a = 1; }",
            "message M { string a = 1; }",
            '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at'
            " path '#/M/1' in the new schema does not match its kind in the old schema\"}",
        ),
        (
            "message M { }",
            "",
            '{errorType:"MESSAGE_REMOVED", description:"The new schema is missing a MESSAGE type at path \'#/M\' in the old schema"}',
        ),
    ],
)
def test_texts_are_those_of_confluent(writer: str, reader: str, text: str) -> None:
    """A verbose line is Confluent's, with the words new and old."""
    old, new = (PROTOBUF.parse(f'syntax = "proto3"; {each}') for each in (writer, reader))
    assert [each.text for each in new.differences(old)] == [text]
