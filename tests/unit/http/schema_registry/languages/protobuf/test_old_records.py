"""Schemas of a topic that a laxer registry has accepted: they are read, and used with care."""

import pytest

from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.protobuf import (
    PROTOBUF,
    ProtobufSchema,
    file_descriptors,
)

LAX = [
    """syntax = "proto3";

import "google/api/annotations.proto";

message A {
  int32 a = 1;
}
""",
    """syntax = "proto3";

message A {
  Missing a = 1;
}
""",
    """syntax = "proto3";

message A {
  google.protobuf.Timestamp at = 1;
}
""",
    """syntax = "proto3";

message A {
  int32 a = 1;
  int32 a = 1;
}
""",
    """syntax = "proto3";

message A {
  option (unknown.option) = {
    a: 1
  };

  int32 a = 1 [(unknown.part).of = "x"];
}
""",
    """syntax = "proto2";

message A {
  optional bytes b = 1 [default = abc];
}
""",
    """syntax = "proto3";

message A {
  option (unknown.list) = [
    1,
    2
  ];
}
""",
    """syntax = "proto3";

enum E {
  B = 2;
  A = 1;
}
""",
]
"""Texts that break a rule, as Confluent's registry prints them."""


def old(text: str) -> ProtobufSchema:
    """Return a schema of an old record."""
    return PROTOBUF.parse(text, is_new=False)


@pytest.mark.parametrize("text", LAX, ids=range(len(LAX)))
def test_an_old_record_is_read_though_it_breaks_a_rule(text: str) -> None:
    """A text that may not be registered today is still read, printed and compared."""
    with pytest.raises(InvalidSchemaError):
        PROTOBUF.parse(text)
    schema = old(text)
    assert schema.canonical == text
    assert schema.normalized()
    assert schema.formatted("serialized")
    assert schema.differences(schema) == []


@pytest.mark.parametrize("text", LAX, ids=range(len(LAX)))
def test_the_descriptors_of_an_invalid_record_are_refused(text: str) -> None:
    """A pool gets valid descriptors only, because its C code trusts them."""
    with pytest.raises(InvalidSchemaError):
        file_descriptors(old(text))


def test_an_invalid_dependency_is_found_before_a_pool_gets_it() -> None:
    """A dependency was checked when it was registered, perhaps by another registry."""
    lax = NamedSchema(name="lax.proto", text="enum E { }")
    schema = PROTOBUF.parse('import "lax.proto"; message A { }', [lax])
    with pytest.raises(InvalidSchemaError, match=r"^lax\.proto: line 1.* has no value"):
        file_descriptors(schema)


def test_a_new_schema_can_be_compared_with_an_old_record() -> None:
    """Unknown types are compared by the names that the text has for them."""
    record = old('syntax = "proto3"; message A { Missing a = 1; Gone b = 2; }')
    new = PROTOBUF.parse(
        'syntax = "proto3"; message A { Missing a = 1; int32 b = 2; } message Missing { }'
    )
    assert [each.kind for each in new.differences(record)] == ["FIELD_KIND_CHANGED"]


def test_a_broken_text_is_no_old_record() -> None:
    """A text without a syntax tree cannot be read at all."""
    with pytest.raises(InvalidSchemaError, match="line 1, column 11: expected"):
        old("message A ;")
