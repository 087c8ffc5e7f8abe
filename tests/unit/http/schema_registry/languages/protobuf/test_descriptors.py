"""Descriptors of schemas with their dependencies, and the places of messages in them."""

from base64 import b64decode, b64encode

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from log_service.http.schema_registry.languages.language import (
    InvalidSchemaError,
    Language,
    NamedSchema,
    ParsedSchema,
    SchemaType,
)
from log_service.http.schema_registry.languages.protobuf import (
    PROTOBUF,
    ProtobufSchema,
    file_descriptors,
    message_indexes,
    message_name,
)
from log_service.http.schema_registry.languages.protobuf.well_known import GOOGLE_FILES, TEXTS

MONEY = NamedSchema(
    name="shop/money.proto",
    text='syntax = "proto3"; package shop; message Money { int64 units = 1; }',
)
LINE = NamedSchema(
    name="shop/line.proto",
    text="""
    syntax = "proto3"; package shop; import public "shop/money.proto";
    message Line { Money price = 1; }
    """,
)
ORDER = """
syntax = "proto3"; package shop;
import "shop/line.proto"; import "google/protobuf/timestamp.proto";
message Order { repeated Line lines = 1; Money total = 2; google.protobuf.Timestamp at = 3;
  map<string, int32> counts = 4; message Note { message Part {} } map<string, Note> notes = 5; }
message Other {}
"""


def order() -> ProtobufSchema:
    """Return a schema with dependencies."""
    return PROTOBUF.parse(ORDER, [MONEY, LINE])


def test_the_language_has_the_protocol_of_all_languages() -> None:
    """The language and its schemas are what a registry expects of each language."""
    language: Language = PROTOBUF
    schema: ParsedSchema = language.parse("message A {}")
    assert (language.schema_type, schema.schema_type) == (SchemaType.PROTOBUF, SchemaType.PROTOBUF)
    assert not schema.differences(language.parse(schema.canonical))


def test_a_pool_takes_the_descriptors_in_their_order() -> None:
    """Each file comes after its imports, so that a pool reads records of the schema."""
    protos = file_descriptors(order())
    names = [each.name for each in protos]
    assert names.index("shop/money.proto") < names.index("shop/line.proto") < len(names) - 1
    assert names[-1] == "default"
    pool = DescriptorPool()
    for proto in protos:
        pool.Add(proto)
    message = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))()
    message.ParseFromString(b"\x12\x02\x08\x07\x22\x05\x0a\x01a\x10\x02")
    assert (message.total.units, dict(message.counts)) == (7, {"a": 2})


def test_the_serialized_form_is_the_descriptor_alone() -> None:
    """The form ``serialized`` has full names, and no JSON names that the text does not have."""
    proto = FileDescriptorProto.FromString(b64decode(order().formatted("serialized")))
    assert (proto.name, list(proto.dependency)) == (
        "default",
        ["shop/line.proto", "google/protobuf/timestamp.proto"],
    )
    field = proto.message_type[0].field[0]
    assert (field.type_name, field.HasField("json_name")) == (".shop.Line", False)
    assert proto == file_descriptors(order())[-1]


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("shop.Order", (0,)),
        ("shop.Other", (1,)),
        ("shop.Order.CountsEntry", (0, 0)),
        ("shop.Order.Note", (0, 1)),
        ("shop.Order.Note.Part", (0, 1, 0)),
        ("shop.Order.NotesEntry", (0, 2)),
    ],
)
def test_messages_have_indexes(name: str, indexes: tuple[int, ...]) -> None:
    """A path of indexes leads to a message, and entries of maps count."""
    assert message_indexes(order(), name) == indexes
    assert message_name(order(), indexes) == name


@pytest.mark.parametrize("indexes", [(), (2,), (-1,), (0, 3), (0, 0, 0)])
def test_an_unknown_place_has_no_message(indexes: tuple[int, ...]) -> None:
    """A path that leads nowhere is refused."""
    with pytest.raises(LookupError):
        message_name(order(), indexes)


@pytest.mark.parametrize("name", ["shop.Nope", "shop.Line", "Order.Nope", ""])
def test_an_unknown_message_has_no_place(name: str) -> None:
    """A message of another file, or of none, has no indexes."""
    with pytest.raises(LookupError, match="has no message"):
        message_indexes(order(), name)


@pytest.mark.parametrize("path", sorted({*GOOGLE_FILES, *TEXTS}))
def test_well_known_files_need_no_reference(path: str) -> None:
    """Files of Google and Confluent can be imported, and a pool takes them."""
    schema = PROTOBUF.parse(f'syntax = "proto3"; import "{path}";')
    pool = DescriptorPool()
    for proto in file_descriptors(schema):
        pool.Add(proto)
    assert pool.FindFileByName(path).name == path


@pytest.mark.parametrize("path", sorted(GOOGLE_FILES))
def test_well_known_files_can_be_registered(path: str) -> None:
    """Clients register the files that they import, also those that need no reference."""
    schema = PROTOBUF.parse(f'import "{path}";')
    proto = next(each for each in file_descriptors(schema) if each.name == path)
    registered = PROTOBUF.parse(b64encode(proto.SerializeToString()).decode())
    assert file_descriptors(registered)[-1].message_type == proto.message_type
    user = PROTOBUF.parse(f'import "{path}";', [NamedSchema(name=path, text=registered.canonical)])
    assert [each.name for each in file_descriptors(user)][-2:] == [path, "default"]


def test_a_public_import_is_seen_through() -> None:
    """A file sees what its import imports publicly, and nothing else behind it."""
    hidden = NamedSchema(name=LINE.name, text=LINE.text.replace("import public", "import"))
    with pytest.raises(InvalidSchemaError, match=r"Money is defined in 'shop/money\.proto'"):
        PROTOBUF.parse(ORDER, [MONEY, hidden])


def test_the_names_of_a_dependency_are_taken() -> None:
    """A schema cannot define what an import defines."""
    text = 'import "shop/money.proto"; package shop; message Money {}'
    with pytest.raises(InvalidSchemaError, match=r"shop\.Money is already a message"):
        PROTOBUF.parse(text, [MONEY])


def test_a_reference_that_is_not_imported_takes_no_names() -> None:
    """A schema may define what a reference defines, if no import leads to the reference."""
    other = NamedSchema(name="other.proto", text="package shop; message Money { }")
    schema = PROTOBUF.parse(
        'import "shop/money.proto"; package shop; message A { optional Money m = 1; }',
        [other, MONEY],
    )
    assert [each.name for each in file_descriptors(schema)] == ["shop/money.proto", "default"]
    assert PROTOBUF.parse("package shop; message Money { }", [MONEY, other]).canonical
