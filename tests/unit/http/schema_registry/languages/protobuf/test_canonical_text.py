"""The text that is stored: Confluent's printing of what Wire's parser reads."""

from base64 import b64encode

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.protobuf import PROTOBUF, file_descriptors
from tests.unit.http.schema_registry.languages.protobuf.compiler import compiled

ORDERS = """
// Orders of a shop.
syntax = "proto3";
package acme . shop;
option java_package = "com." "acme";
import public "google/protobuf/timestamp.proto"; import 'google/protobuf/any.proto';
enum State { option deprecated = true; NEW = 0; /* paid */ PAID = 0x1 [deprecated = true]; }
message Order {
  enum Kind { B2B = 0; }
  oneof who { string name = 8; int64 number = 9 [jstype = JS_STRING]; }
  message Line { reserved 5, 7 to 9, 20 to max; reserved "price"; int32 count = 1; }
  repeated Line lines = 2; map < string , Line > by_name = 3;
  optional .acme.shop.State state = 4 [deprecated = true, json_name = "st\\"ate"];
  option deprecated = false;
  reserved 100;
}
message Empty {}
service Orders { option deprecated = true;
  rpc Get(Order) returns (stream Order) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Put (stream Order) returns (Empty); }
"""
ORDERS_CANONICAL = """syntax = "proto3";
package acme.shop;

import "google/protobuf/any.proto";
import public "google/protobuf/timestamp.proto";

option java_package = "com.acme";

message Order {
  reserved 100;

  option deprecated = false;

  repeated Line lines = 2;
  map<string, Line> by_name = 3;
  optional .acme.shop.State state = 4 [
    deprecated = true,
    json_name = "st\\"ate"
  ];

  oneof who {
    string name = 8;
    int64 number = 9 [jstype = JS_STRING];
  }

  message Line {
    reserved 5, 7 to 9, 20 to max;
    reserved "price";
  |
    int32 count = 1;
  }
  enum Kind {
    B2B = 0;
  }
}
message Empty {}
enum State {
  option deprecated = true;
  NEW = 0;
  PAID = 1 [deprecated = true];
}

service Orders {
  option deprecated = true;

  rpc Get (Order) returns (stream Order) {
    option idempotency_level = NO_SIDE_EFFECTS;
  };
  rpc Put (stream Order) returns (Empty);
}
""".replace("|", "")  # a nested type has its indentation in empty lines, too


def canonical(text: str, *dependencies: NamedSchema) -> str:
    """Return the canonical text of a text."""
    return PROTOBUF.parse(text, dependencies).canonical


def test_statements_are_in_order_and_comments_are_dropped() -> None:
    """A file prints imports, options, messages, enums and services. Messages print by kind, too."""
    assert canonical(ORDERS) == ORDERS_CANONICAL
    assert canonical(ORDERS_CANONICAL) == ORDERS_CANONICAL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("message A {}", "\nmessage A {}\n"),
        ('syntax = "proto2";', 'syntax = "proto2";\n'),
        ('edition = "2023"; package a;', 'edition = "2023";\npackage a;\n'),
        (
            "enum A { reserved -5 to -1, 7; X = 0; }",
            "\nenum A {\n  reserved -5 to -1, 7;\n  X = 0;\n}\n",
        ),
        ("enum A { X = 0; reserved 5 to max; }", "\nenum A {\n  reserved 5 to max;\n  X = 0;\n}\n"),
        (
            "message A { extensions 5, 10 to max; optional int32 a = 010; }",
            "\nmessage A {\n  optional int32 a = 8;\n\n  extensions 5, 10 to max;\n}\n",
        ),
        (
            "message A { extensions 1; } extend A { optional int32 x = 1; }",
            "\nmessage A {\n  extensions 1;\n}\n\nextend A {\n  optional int32 x = 1;\n}\n",
        ),
        (
            r"""message A { optional string s = 1 [default = 'it\'s "\x41\101\n\?'];}""",
            '\nmessage A {\n  optional string s = 1 [default = "it\\\'s \\"AA\\n?"];\n}\n',
        ),
        (
            "message A { optional double d = 1 [default = - 1.50e3, deprecated = true]; }",
            "\nmessage A {\n  optional double d = 1 [\n    deprecated = true,\n    default = -1.50e3\n  ];\n}\n",
        ),
        (
            "message A { optional group G = 1 { optional int32 x = 1; } }",
            "\nmessage A {\n  optional group G = 1 {\n    optional int32 x = 1;\n  }\n}\n",
        ),
        (
            'edition = "2023"; message A { reserved b, c; int32 a = 1 [features.field_presence = IMPLICIT]; }',
            'edition = "2023";\n\nmessage A {\n  reserved b, c;\n\n  int32 a = 1 [features.field_presence = IMPLICIT];\n}\n',
        ),
        (
            'import weak "google/protobuf/any.proto"; import "google/protobuf/api.proto";',
            '\nimport weak "google/protobuf/any.proto";\nimport "google/protobuf/api.proto";\n',
        ),
        (
            'message A { optional bytes b = 1 [default = "\\xff\\0a"]; }',
            '\nmessage A {\n  optional bytes b = 1 [default = "\\377\\000a"];\n}\n',
        ),
    ],
)
def test_small_files_print_as_expected(text: str, expected: str) -> None:
    """Empty parts leave no lines, and numbers and strings are printed anew."""
    assert canonical(text) == expected
    assert canonical(expected) == expected


OPTIONS = """
syntax = "proto3";
import "google/protobuf/descriptor.proto";
message T { int32 i = 1; repeated string s = 2; T t = 3; repeated T ts = 4; }
extend google.protobuf.FileOptions { T t = 50000; repeated string names = 50001; }
extend google.protobuf.MessageOptions { T mt = 50000; }
option (t).i = 0x10; option (.t).t.s = "a"; option (names) = 'x' "y";
message A { option (mt) = { i: 1 t < s: ["a", 'b'] s: "c" > ts { i: 2 }; ts {}, }; }
"""
A_WITH_OPTIONS = """message A {
  option (mt) = {
    i: 1,
    t: {
      s: [
        "a",
        "b",
        "c"
      ]
    },
    ts: [
      {
        i: 2
      },
      {
      }
    ]
  };
}
"""


def test_custom_options_keep_their_form() -> None:
    """Names and numbers of options are as they were written. Values of one key are a list."""
    printed = canonical(OPTIONS)
    assert 'option (t).i = 0x10;\noption (.t).t.s = "a";\noption (names) = "xy";\n' in printed
    assert A_WITH_OPTIONS in printed
    assert canonical(printed) == printed


def test_extensions_can_be_ignored() -> None:
    """The form ``ignore_extensions`` has no extensions, and only Confluent's custom options."""
    text = """
    syntax = "proto2"; import "confluent/meta.proto"; import "google/protobuf/descriptor.proto";
    extend google.protobuf.FieldOptions { optional int32 mine = 50000; }
    message A {
      extensions 100;
      extend A { optional int32 x = 100; }
      optional int32 a = 1 [(mine) = 1, (confluent.field_meta).tags = "PII", deprecated = true];
    }
    """
    assert PROTOBUF.parse(text).formatted("ignore_extensions") == (
        'syntax = "proto2";\n\nimport "confluent/meta.proto";\n'
        'import "google/protobuf/descriptor.proto";\n\n'
        "message A {\n  optional int32 a = 1 [\n"
        '    (confluent.field_meta).tags = "PII",\n    deprecated = true\n  ];\n}\n'
    )


def test_other_forms_are_the_canonical_text() -> None:
    """A form that Protobuf does not have returns the canonical text."""
    schema = PROTOBUF.parse("message A {}")
    assert {schema.formatted(form) for form in ("", "resolved", "unknown")} == {schema.canonical}


def serialized(proto: FileDescriptorProto) -> str:
    """Return a descriptor as clients register it."""
    return b64encode(proto.SerializeToString()).decode()


def test_a_descriptor_prints_with_full_names_and_entries_of_maps() -> None:
    """Base64 prints as at Confluent: full names, entries of maps, and JSON names if set."""
    proto = compiled({"a.proto": ORDERS}, "a.proto")["a.proto"]
    printed = canonical(serialized(proto))
    assert "  repeated .acme.shop.Order.Line lines = 2;\n" in printed
    assert "  repeated .acme.shop.Order.ByNameEntry by_name = 3;\n" in printed
    assert (
        "  message ByNameEntry {\n    option map_entry = true;\n  \n    string key = 1;\n    .acme.shop.Order.Line value = 2;\n  }\n"
    ) in printed
    assert canonical(printed) == printed
    assert file_descriptors(PROTOBUF.parse(printed))[-1].message_type[0].field == (
        file_descriptors(PROTOBUF.parse(canonical(printed)))[-1].message_type[0].field
    )


def test_a_descriptor_of_proto2_keeps_groups_extensions_and_defaults() -> None:
    """Groups stay groups, and defaults of bytes and floats are written as a text has them."""
    text = """
    message A {
      extensions 100 to 200 [verification = UNVERIFIED];
      optional bytes b = 1 [default = "\\377\\"'"]; optional float f = 2 [default = -inf];
      repeated group G = 3 { optional int32 x = 1; enum E { Q = 1; } optional E e = 2; }
      oneof o { group H = 4 { } string s = 5 [default = "é"]; }
    }
    extend A { optional group X = 100 { optional A a = 1; } }
    """
    schema = PROTOBUF.parse(serialized(compiled({"a.proto": text}, "a.proto")["a.proto"]))
    assert schema.canonical == (
        "\nmessage A {\n"
        '  optional bytes b = 1 [default = "\\377\\"\\\'"];\n'
        "  optional float f = 2 [default = -inf];\n\n"
        '  oneof o {\n    string s = 5 [default = "é"];\n  \n    group H = 4 {}\n  }\n\n'
        "  repeated group G = 3 {\n    optional int32 x = 1;\n"
        "    optional .A.G.E e = 2;\n  \n    enum E {\n      Q = 1;\n    }\n  }\n\n"
        "  extensions 100 to 200 [verification = UNVERIFIED];\n}\n\n"
        "extend .A {\n  optional group X = 100 {\n    optional .A a = 1;\n  }\n}\n"
    )
    assert PROTOBUF.parse(schema.formatted("serialized")).canonical == schema.canonical


def test_custom_options_of_a_descriptor_are_kept() -> None:
    """Options that an import defines are decoded with their names and types."""
    options = """
    syntax = "proto3"; package lib; import "google/protobuf/descriptor.proto";
    message Rule { string name = 1; repeated double limits = 2; map<string, bool> flags = 3; }
    extend google.protobuf.FieldOptions { Rule rule = 50000; repeated sint32 codes = 50001; }
    """
    text = """
    syntax = "proto3"; import "lib.proto";
    message A { int32 a = 1 [
      (lib.rule).name = "n", (lib.rule).limits = 0.1, (lib.rule).flags = { key: "k" value: true },
      (lib.codes) = -1, (lib.codes) = 2]; }
    """
    proto = compiled({"a.proto": text, "lib.proto": options}, "a.proto")["a.proto"]
    printed = canonical(serialized(proto), NamedSchema(name="lib.proto", text=options))
    assert printed.endswith(
        "message A {\n  int32 a = 1 [\n    (lib.rule) = {\n"
        '      name: "n",\n      limits: 0.1,\n'
        '      flags: {\n        key: "k",\n        value: true\n      }\n    },\n'
        "    (lib.codes) = -1,\n    (lib.codes) = 2\n  ];\n}\n"
    )


@pytest.mark.parametrize(
    "name", ["", "a b", "1a", "A { } message B", "é", "a.b", "A\n", "a;"], ids=repr
)
def test_a_descriptor_cannot_smuggle_text_into_a_name(name: str) -> None:
    """A name of a descriptor that no text could have is refused, because it would be printed."""
    proto = FileDescriptorProto(name="x", syntax="proto3")
    proto.message_type.add(name=name)
    with pytest.raises(InvalidSchemaError, match="is not a name"):
        PROTOBUF.parse(serialized(proto))


@pytest.mark.parametrize("text", ["QUJD", "A", "AAAA====", "QUJ", "////"])
def test_broken_base64_is_refused(text: str) -> None:
    """A text that can only be base64 must be a descriptor."""
    with pytest.raises(InvalidSchemaError, match=r"neither a \.proto file nor base64"):
        PROTOBUF.parse(text)
