"""Hostile schemas: each is refused, or is a schema, for a bounded price and without a crash."""

import itertools
import random
from base64 import b64decode, b64encode

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.limits import SchemaLimits
from log_service.http.schema_registry.languages.protobuf import (
    PROTOBUF,
    Protobuf,
    file_descriptors,
)
from tests.helpers.whole import IS_WHOLE
from tests.unit.http.schema_registry.languages.protobuf.generated_files import family

SIZE = 1 << 20
PROTO3 = 'syntax = "proto3"; '
OPTIONS = (
    PROTO3
    + 'import "google/protobuf/descriptor.proto"; message T { repeated int32 r = 1; T t = 2; }'
    " extend google.protobuf.FileOptions { repeated T t = 50000; }"
)
FUZZED_FAMILIES = range(50 if IS_WHOLE else 2)
FUZZED_COPIES = 15


TIGHT = Protobuf(SchemaLimits(step_count=20_000))
"""Few steps, so that a test of their bound is quick."""


@pytest.mark.parametrize("character", "{}[]()<>;,\"'/.=-\\", ids=repr)
def test_a_text_of_one_character_is_refused(character: str) -> None:
    """A megabyte of brackets is no schema."""
    with pytest.raises(InvalidSchemaError):
        TIGHT.parse(character * SIZE)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PROTO3 + "message A {" * 50_000, "nesting is deeper than 31"),
        ("message A {" * 31 + "}" * 31, ""),
        ("message A {" * 32 + "}" * 32, "nesting is deeper than 31"),
        ("message A { " + "optional group G = 1 { " * 40 + "}" * 41, "nesting is deeper than 31"),
        (PROTO3 + "option x = {" + "a {" * 200_000, "nesting is deeper than 100"),
        (PROTO3 + "option x = { a: " + "[" * 200_000, "nesting is deeper than 100"),
        (PROTO3 + "option x = {" + "a <" * 200_000, "nesting is deeper than 100"),
        (OPTIONS + "option (t) = {" + "t {" * 99 + "}" * 100 + ";", ""),
        (PROTO3 + "message A { int32 a = " + "9" * 500_000 + "; }", "out of range"),
        (PROTO3 + "message A { int32 a = 0x" + "9" * 500_000 + "; }", "out of range"),
        (
            "message A { optional double a = 1 [default = " + "9" * 500_000 + "]; }",
            "too many digits",
        ),
        (
            "message A { optional double a = 1 [default = 1e" + "9" * 500_000 + "]; }",
            "too many digits",
        ),
        (PROTO3 + "package " + "a." * 300_000 + "a;", "steps"),
        (PROTO3 + "package " + "a" * 512 + ";", "package is too long"),
        (PROTO3 + "message A { " + "a." * 300_000 + "a b = 1; }", "steps"),
        (PROTO3 + "option " + "a." * 300_000 + "a = 1;", "steps"),
        (PROTO3 + "/*" + "*" * SIZE, "longer than 1048576 bytes"),
        (PROTO3 + "/*" + "*" * 1_000_000, "comment does not end"),
        (PROTO3 + "/* " + "/*" * 100_000 + "*/", "a comment has another one in it"),
        (PROTO3 + 'option java_package = "' + "\\a" * 300_000, "string does not end"),
        (PROTO3 + "message A {" + ";" * 1_000_000 + "}", "steps"),
        (PROTO3 + "message A { reserved " + ",".join(map(str, range(1, 100_000))) + "; }", "steps"),
        (OPTIONS + "option (t) = { r: [" + "1," * 300_000 + "1] };", "steps"),
        (
            OPTIONS + "option (t) = {" + "t {" * 90 + "r: [" + "1," * 6_000 + "1]" + "}" * 91 + ";",
            "longer than",
        ),
        ("\ud800", "surrogate"),
        ("message A {}\0", "zero byte"),
    ],
    ids=itertools.count(),
)
def test_hostile_texts_are_refused_by_a_bound(text: str, sentence: str) -> None:
    """Nesting, numbers, names, comments and lists have bounds, which the sentence names."""
    if not sentence:
        assert TIGHT.parse(text).canonical
        return
    with pytest.raises(InvalidSchemaError, match=sentence) as refused:
        TIGHT.parse(text)
    assert len(str(refused.value)) < 600


def test_no_limit_allows_more_depth_than_recursion_can_bear() -> None:
    """Whatever the limits are, a deep text is refused, or is a schema in every form."""
    roomy = Protobuf(SchemaLimits(nesting=100_000))
    schema = roomy.parse(OPTIONS + "option (t) = {" + "t {" * 99 + "}" * 100 + ";")
    assert schema.normalized()
    assert roomy.parse(schema.formatted("serialized")).differences(schema) == []
    with pytest.raises(InvalidSchemaError, match="deeper than 100"):
        roomy.parse(OPTIONS + "option (t) = {" + "t {" * 100 + "}" * 101 + ";")


def nested(depth: int) -> str:
    """Return a descriptor of messages in messages."""
    message = DescriptorProto(name="A")
    for _ in range(depth):
        around = DescriptorProto(name="A")
        around.nested_type.append(message)
        message = around
    proto = FileDescriptorProto(name="a.proto", message_type=[message])
    return b64encode(proto.SerializeToString()).decode()


def length(size: int) -> bytes:
    """Return a length below 2**21 as a varint."""
    return bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x22\x00" * 390_000, "is not a name"),
        (b"\x22" + length(780_000) + b"\x12\x00" * 390_000, "is not a name|steps"),
        (b"\x22\x03\x0a\x01A" * 150_000, "steps"),
        (b"\x42" + length(200_000) + b"\x0b" * 200_000, "neither"),
        (b"\x0a\x01a\x22" + length(50) + b"x", "neither"),
        (b"\x22\x05\x0a\x03\xff\xfe\xfd", "is not UTF-8"),
        (b"\x22\x07\x0a\x01A\x2a\x02\x08\x7f", "begin at 1|ends"),
    ],
    ids=itertools.count(),
)
def test_hostile_descriptors_are_refused(data: bytes, sentence: str) -> None:
    """Many empty messages, groups without an end and broken names are refused."""
    with pytest.raises(InvalidSchemaError, match=sentence):
        TIGHT.parse(b64encode(data).decode())


def test_nested_descriptors_have_the_bound_of_texts() -> None:
    """A descriptor may be nested as deep as a text, because its text is stored."""
    assert PROTOBUF.parse(nested(30)).canonical
    for depth in (31, 40):
        with pytest.raises(InvalidSchemaError, match="deeper than 31"):
            PROTOBUF.parse(nested(depth))


def test_bounds_hold_for_a_schema_with_its_references() -> None:
    """The number of references, their depth and their size together have bounds."""
    chain = [NamedSchema(name="0.proto", text="")]
    chain += [NamedSchema(name=f"{n}.proto", text=f'import "{n - 1}.proto";') for n in range(1, 32)]
    assert PROTOBUF.parse('import "29.proto";', chain[:30]).canonical
    with pytest.raises(InvalidSchemaError, match="deeper than 30 files"):
        PROTOBUF.parse('import "30.proto";', chain[:31])
    few = Protobuf(SchemaLimits(reference_count=3, text_bytes=100))
    with pytest.raises(InvalidSchemaError, match="more than 3 references"):
        few.parse("", chain[:4])
    with pytest.raises(InvalidSchemaError, match="longer than 100 bytes"):
        few.parse("", [NamedSchema(name="a.proto", text=" " * 101)])


def test_a_step_bound_holds_for_each_kind_of_work() -> None:
    """Parsing, normalizing and comparing count their steps apart."""
    fields = " ".join(f"int32 f{number} = {number};" for number in range(1, 200))
    text = f"{PROTO3} message M {{ {fields} }}"
    small = Protobuf(SchemaLimits(step_count=300))
    with pytest.raises(InvalidSchemaError, match="more than 300 steps"):
        small.parse(text)
    schema = Protobuf(SchemaLimits(step_count=2_000)).parse(text)
    for _ in range(20):
        assert schema.normalized()
        assert schema.formatted("serialized")
        assert schema.differences(schema) == []


def changed(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few changes."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(found))
        match rng.randrange(5):
            case 0 | 1:
                found[at] = rng.randrange(256)
            case 2:
                found[at] ^= 1 << rng.randrange(8)
            case 3:
                del found[at : at + rng.randint(1, 8)]
            case _:
                found[at:at] = found[at : at + rng.randint(1, 40)]
    return bytes(found)


@pytest.mark.parametrize("seed", FUZZED_FAMILIES)
def test_changed_descriptors_are_schemas_or_refused(seed: int) -> None:
    """A descriptor with changed bytes is refused, or prints a text of itself that a pool takes."""
    rng = random.Random(seed)
    base, user = family(seed)
    others = [NamedSchema(name=base.path, text=base.text)]
    data = b64decode(PROTOBUF.parse(user.text, others).formatted("serialized"))
    for _ in range(FUZZED_COPIES):
        text = b64encode(changed(rng, data)).decode()
        for is_new in (True, False):
            try:
                schema = PROTOBUF.parse(text, others, is_new=is_new)
            except InvalidSchemaError:
                continue
            again = PROTOBUF.parse(schema.canonical, others, is_new=is_new)
            assert again.canonical == schema.canonical, f"seed {seed}"
            assert schema.normalized()
            assert schema.formatted("serialized")
            assert schema.differences(again) == []
            try:
                protos = file_descriptors(schema)
            except InvalidSchemaError:
                continue
            pool = DescriptorPool()
            for proto in protos:
                pool.Add(proto)
            for message in pool.FindFileByName("default").message_types_by_name.values():
                GetMessageClass(message)()
