"""A Protobuf message may be read as another one where their fields agree."""

from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool

from orchestration.formats.avro_resolving import UnresolvableError
from orchestration.formats.protobuf_resolving import validate_resolvable

Field: Any = FieldDescriptorProto


def message(*fields: Any, name: str = "Order") -> Any:
    """Return the descriptor of a message with these fields, beside a message Line of the same."""
    file = FileDescriptorProto(name="a.proto", package="shop", syntax="proto2")
    file.message_type.append(DescriptorProto(name=name, field=fields))
    file.message_type.append(DescriptorProto(name="Line", field=[one(2, Field.TYPE_INT64)]))
    pool = DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName(f"shop.{name}")


def one(
    number: int, kind: int, label: int = Field.LABEL_OPTIONAL, type_name: str | None = None
) -> Any:
    return Field(name=f"f{number}", number=number, type=kind, label=label, type_name=type_name)


@pytest.mark.parametrize(
    ("written", "declared"),
    [
        (Field.TYPE_INT32, Field.TYPE_INT64),
        (Field.TYPE_UINT32, Field.TYPE_INT64),
        (Field.TYPE_BOOL, Field.TYPE_INT32),
        (Field.TYPE_STRING, Field.TYPE_BYTES),
        (Field.TYPE_SINT32, Field.TYPE_SINT64),
    ],
)
def test_a_number_or_a_text_may_be_read_in_a_wider_type(written: int, declared: int) -> None:
    """A new field and one that is gone do no harm, either."""
    others = one(2, Field.TYPE_STRING), one(3, Field.TYPE_STRING)
    validate_resolvable(message(one(1, written), others[0]), message(one(1, declared), others[1]))


@pytest.mark.parametrize(
    ("written", "declared", "text"),
    [
        (one(1, Field.TYPE_INT64), one(1, Field.TYPE_INT32), "is int64, and not int32"),
        (one(1, Field.TYPE_INT64), one(1, Field.TYPE_SINT64), "is int64, and not sint64"),
        (one(1, Field.TYPE_STRING), one(1, Field.TYPE_INT64), "is string, and not int64"),
        (
            one(1, Field.TYPE_INT64, Field.LABEL_REPEATED),
            one(1, Field.TYPE_INT64),
            "is repeated int64, and not int64",
        ),
        (
            one(2, Field.TYPE_INT64),
            one(1, Field.TYPE_INT64, Field.LABEL_REQUIRED),
            "it has no field f1, which is required",
        ),
        (
            one(1, Field.TYPE_STRING),
            one(1, Field.TYPE_MESSAGE, type_name=".shop.Line"),
            "is string, and not shop.Line",
        ),
    ],
)
def test_a_field_that_would_become_another_value_is_refused(
    written: Any, declared: Any, text: str
) -> None:
    """The runtime would read it without a word."""
    with pytest.raises(UnresolvableError, match=text):
        validate_resolvable(message(written), message(declared))
    validate_resolvable(message(written), message(declared), ("f1",))


def test_messages_within_messages_are_compared() -> None:
    """Also those within themselves."""
    again = one(1, Field.TYPE_MESSAGE, Field.LABEL_REPEATED, ".shop.Order")
    wide, narrow = (message(again, one(2, kind)) for kind in (Field.TYPE_INT64, Field.TYPE_INT32))
    validate_resolvable(narrow, wide)
    with pytest.raises(UnresolvableError, match="field f2 is int64, and not int32"):
        validate_resolvable(wide, narrow)
    lines = [
        message(one(1, Field.TYPE_MESSAGE, type_name=".shop.Line"), name=name)
        for name in ("Order", "Other")
    ]
    validate_resolvable(*lines)
