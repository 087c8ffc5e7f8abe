"""The normal form: schemas of one meaning are one text."""

import pytest

from log_service.http.schema_registry.languages.language import NamedSchema
from log_service.http.schema_registry.languages.protobuf import PROTOBUF

LIBRARY = NamedSchema(
    name="lib.proto",
    text="""
    syntax = "proto3"; package lib; import "google/protobuf/descriptor.proto";
    message Rules { StringRules string = 1; repeated int32 levels = 2; Kind kind = 3; bool on = 4; }
    message StringRules { uint64 min_len = 1; uint64 max_len = 2; }
    enum Kind { SMALL = 0; BIG = 1; }
    extend google.protobuf.FieldOptions {
      Rules field = 50000; repeated string notes = 50001; float weight = 50002; int32 level = 50003;
    }
    """,
)


def normalized(text: str) -> str:
    """Return the normal form of a text that may use the library."""
    return PROTOBUF.parse(text, [LIBRARY]).normalized()


def test_fields_oneofs_values_and_imports_are_sorted() -> None:
    """Fields go by number, oneofs by their first number, enum values by number, imports by name."""
    text = """
    syntax = "proto3"; package a;
    import "lib.proto"; import "google/protobuf/any.proto";
    import public "google/protobuf/api.proto";
    message M {
      oneof second { int32 j = 9; int32 i = 8; }
      int32 c = 5; E b = 3; oneof first { N a = 2; }
      reserved "z", "y"; reserved 20 to 25, 11 to 11; reserved 12;
      message N {}
      map<string, N> m = 1;
    }
    enum E { Z = 0; Y = 5; X = 2; }
    service S { rpc B(M) returns (M.N); rpc A(stream M) returns (M); }
    """
    assert normalized(text) == (
        'syntax = "proto3";\npackage a;\n\n'
        'import "google/protobuf/any.proto";\nimport "lib.proto";\n'
        'import public "google/protobuf/api.proto";\n\n'
        "message M {\n"
        '  reserved 11;\n  reserved 12;\n  reserved 20 to 25;\n  reserved "y";\n  reserved "z";\n\n'
        "  map<string, .a.M.N> m = 1;\n  .a.E b = 3;\n  int32 c = 5;\n\n"
        "  oneof first {\n    .a.M.N a = 2;\n  }\n"
        "  oneof second {\n    int32 i = 8;\n    int32 j = 9;\n  }\n\n"
        "  message N {}\n}\n"
        "enum E {\n  Z = 0;\n  X = 2;\n  Y = 5;\n}\n\n"
        "service S {\n  rpc B (.a.M) returns (.a.M.N);\n  rpc A (stream .a.M) returns (.a.M);\n}\n"
    )


def test_extensions_of_one_message_are_together() -> None:
    """Extensions go by the full name of what they extend, and the line of proto2 is left out."""
    text = """
    syntax = "proto2"; package a;
    message X { extensions 20 to 30, 10; }
    message Y { extensions 1; extend X { optional int32 q = 10; } }
    extend X { optional int32 b = 22; } extend a.Y { optional Y c = 1; }
    extend .a.X { optional int32 a = 21; }
    """
    assert normalized(text) == (
        "package a;\n\n"
        "message X {\n  extensions 10;\n  extensions 20 to 30;\n}\n"
        "message Y {\n  extensions 1;\n\n  extend .a.X {\n    optional int32 q = 10;\n  }\n}\n\n"
        "extend .a.X {\n  optional int32 a = 21;\n  optional int32 b = 22;\n}\n"
        "extend .a.Y {\n  optional .a.Y c = 1;\n}\n"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("deprecated = true, ctype = CORD", "[ ctype = CORD, deprecated = true ]"),
        ('json_name = "x", deprecated = true', '[ deprecated = true, json_name = "x" ]'),
        ('json_name = "f"', ""),
        ("(field).on = true", "[(lib.field) = { on: true }]"),
        ("(.lib.field) = {on: t}", "[(lib.field) = { on: true }]"),
        ("(field).on = false", "[(lib.field) = { }]"),
        ("(lib.field) = {kind: 1}", "[(lib.field) = { kind: BIG }]"),
        ("(field) = {levels: [7]}", "[(lib.field) = { levels: 7 }]"),
        ("(field) = {levels: []}", "[(lib.field) = { }]"),
        (
            "(field).levels = 0x10, (field).levels = 2",
            "[(lib.field) = { levels: [ 16, 2 ] }]",
        ),
        (
            "(field).string.max_len = 3, (lib.field).string.min_len = 1",
            "[(lib.field) = { string: { max_len: 3, min_len: 1 } }]",
        ),
        ('(notes) = "b", (notes) = "a"', '[ (lib.notes) = "b", (lib.notes) = "a" ]'),
        ("(weight) = 0.1", "[(lib.weight) = 0.1]"),
        ("(weight) = 1.50", "[(lib.weight) = 1.5]"),
        ("(weight) = 1e2", "[(lib.weight) = 100]"),
        ("(weight) = -inf", "[(lib.weight) = -inf]"),
        ("(level) = -0x0A", "[(lib.level) = -10]"),
    ],
)
def test_options_have_one_form(options: str, expected: str) -> None:
    """Options go by name, parts are merged, and numbers, words and lists have one form."""
    text = f'package lib; import "lib.proto"; message M {{ optional string f = 1 [{options}]; }}'
    printed = normalized(text)
    inner = printed.partition("f = 1")[2].rpartition(";")[0]
    assert " ".join(inner.split()) == expected
    assert normalized(printed) == printed


def test_numbers_keep_all_of_their_digits() -> None:
    """A default is written in decimal, with the digits that its type can tell apart."""
    text = """
    message M {
      optional double d = 1 [default = 0.123456789012345678];
      optional float f = 2 [default = 16777217];
      optional int64 i = 3 [default = 0x7fffffffffffffff]; optional uint32 u = 4 [default = 017];
      optional double small = 5 [default = 1e-10]; optional bool b = 6 [default = true];
    }
    """
    found = [line.partition("default = ")[2].strip("];") for line in normalized(text).splitlines()]
    assert list(filter(None, found)) == [
        "0.12345678901234568",
        "16777216",
        "9223372036854775807",
        "15",
        "1e-10",
        "true",
    ]


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; enum E { Z = 0; B = 2; A = -1; }',
        'syntax = "proto2"; enum E { Z = 0; B = 2; A = -1; }',
    ],
)
def test_the_first_value_of_an_enum_stays_the_first(text: str) -> None:
    """The first value is the default, and zero in proto3, so sorting leaves it in its place."""
    assert "{\n  Z = 0;\n  A = -1;\n  B = 2;\n}" in normalized(text)
    assert PROTOBUF.parse(normalized(text)).normalized() == normalized(text)


def test_groups_of_a_oneof_are_kept() -> None:
    """A oneof that has groups alone keeps them."""
    text = "message M { oneof o { group G = 2 { } group F = 1 { } } optional group H = 3 { } }"
    assert normalized(text) == (
        "\nmessage M {\n  oneof o {\n    group F = 1 {}\n    group G = 2 {}\n  }\n\n  optional group H = 3 {}\n}\n"
    )


def test_features_have_one_form() -> None:
    """Features of an edition are options of their own, however they are written."""
    whole = "features = { enum_type: CLOSED field_presence: IMPLICIT }"
    parts = "features.field_presence = IMPLICIT; option features.enum_type = CLOSED"
    texts = {normalized(f'edition = "2023"; option {each};') for each in (whole, parts)}
    assert texts == {
        'edition = "2023";\n\noption features.enum_type = CLOSED;\noption features.field_presence = IMPLICIT;\n'
    }
