"""Generated files beside protoc: the same descriptors, and the same files refused.

A failure names its seed. ``family(seed)`` makes the files again.
"""

import random
import re
from base64 import b64encode

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.protobuf import (
    PROTOBUF,
    ProtobufSchema,
    file_descriptors,
)
from tests.helpers.whole import IS_WHOLE
from tests.unit.http.schema_registry.languages.protobuf.compiler import RefusedError, compiled
from tests.unit.http.schema_registry.languages.protobuf.generated_files import (
    GeneratedFile,
    family,
)

FAMILIES = range(300 if IS_WHOLE else 8)
MUTATED_FAMILIES = range(1000, 1500 if IS_WHOLE else 1010)
MUTATIONS = 6
TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[A-Za-z_]\w*|-?\d[\w.+]*|\s+|//[^\n]*|/\*.*?\*/|.',
    re.DOTALL,
)
WORDS = [
    *("optional", "required", "repeated", "group", "map", "message", "enum", "oneof", "extend"),
    *("extensions", "reserved", "option", "import", "package", "service", "rpc", "returns"),
    *("stream", "string", "int32", "bytes", "to", "max", "true", "false", "inf", "Foo", "google"),
    *("syntax", "public", "weak", "default", "json_name", "packed", "deprecated", "features"),
]
NUMBERS = [
    *("0", "1", "2", "-1", "19000", "19999", "536870911", "536870912", "2147483647", "2147483648"),
    *("4294967296", "1.5", "0x10", "010", "08", "1e5", "99999999999999999999"),
]


def references(files: tuple[GeneratedFile, ...]) -> list[NamedSchema]:
    """Return files as schemas that others refer to."""
    return [NamedSchema(name=each.path, text=each.text) for each in files]


def file_class(files: dict[str, FileDescriptorProto]) -> type[Message]:
    """Return the class of descriptors in which custom options of these files are fields."""
    pool = DescriptorPool()
    for each in files.values():
        pool.Add(each)
    made: type[Message] = GetMessageClass(
        pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    )
    return made


def descriptor_of(schema: ProtobufSchema, name: str) -> FileDescriptorProto:
    """Return the descriptor of a schema alone, with its name."""
    proto = file_descriptors(schema)[-1]
    proto.name = name
    return proto


@pytest.mark.parametrize("seed", FAMILIES)
def test_descriptors_are_those_of_protoc(seed: int) -> None:
    """A text has protoc's descriptor, and its canonical text has the same types."""
    files = family(seed)
    theirs = compiled({each.path: each.text for each in files}, files[1].path)
    known = file_class(theirs)
    for index, file in enumerate(files):
        schema = PROTOBUF.parse(file.text, references(files[:index]))
        ours = known.FromString(descriptor_of(schema, file.path).SerializeToString())
        expected = known.FromString(theirs[file.path].SerializeToString())
        assert ours == expected


@pytest.mark.parametrize("seed", FAMILIES)
def test_text_and_descriptor_are_one_schema(seed: int) -> None:
    """Text, base64 and normal form lead to each other, and can read each other."""
    files = family(seed)
    theirs = compiled({each.path: each.text for each in files}, files[1].path)
    for index, file in enumerate(files):
        others = references(files[:index])
        schema = PROTOBUF.parse(file.text, others)
        serialized = b64encode(theirs[file.path].SerializeToString()).decode()
        from_descriptor = PROTOBUF.parse(serialized, others)
        again = PROTOBUF.parse(from_descriptor.canonical, others)
        normal = PROTOBUF.parse(schema.normalized(), others)
        assert PROTOBUF.parse(schema.canonical, others).canonical == schema.canonical
        assert again.canonical == from_descriptor.canonical
        # Printing sorts the statements of a message by kind, once.
        stable = PROTOBUF.parse(again.formatted("serialized"), others)
        assert stable.canonical == again.canonical
        assert stable.formatted("serialized") == again.formatted("serialized")
        texts = {each.normalized() for each in (schema, from_descriptor, again, normal)}
        assert texts == {schema.normalized()}
        assert schema.differences(from_descriptor) == from_descriptor.differences(schema) == []


def mutated(rng: random.Random, text: str) -> str:
    """Return a text with one or two changed tokens, which is most often invalid."""
    tokens = TOKEN.findall(text)
    places = [at for at, token in enumerate(tokens) if token.strip() and token[0] != "/"]
    words = [at for at in places if tokens[at][0].isalpha()]
    numbers = [at for at in places if tokens[at][-1].isdigit()]
    for _ in range(rng.choice([1, 1, 1, 2])):
        at, other = rng.choice(places), rng.choice(places)
        match rng.randrange(8):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] += f" {tokens[at]}"
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[rng.choice(numbers)] = rng.choice([*NUMBERS, tokens[rng.choice(numbers)]])
            case 4 | 5:
                tokens[rng.choice(words)] = tokens[rng.choice(words)]
            case 6:
                tokens[rng.choice(words)] = rng.choice(WORDS)
            case _:
                tokens[at] = rng.choice(list("{}[]()<>;=,.:-"))
    return "".join(tokens)


@pytest.mark.parametrize("seed", MUTATED_FAMILIES)
def test_changed_files_are_refused_as_by_protoc(seed: int) -> None:
    """A file with a changed token is refused if protoc refuses it, and only then."""
    files = family(seed)
    rng = random.Random(seed)
    file = files[seed % 2]
    others = references(files[:1] if file is files[1] else ())
    for number in range(MUTATIONS):
        text = mutated(rng, file.text)
        theirs = ours = ""
        try:
            compiled({each.path: each.text for each in files} | {file.path: text}, file.path)
        except RefusedError as error:
            theirs = str(error)
        try:
            PROTOBUF.parse(text, others)
        except InvalidSchemaError as error:
            ours = str(error)
        assert bool(theirs) == bool(ours), f"seed {seed}, change {number}: {theirs!r} and {ours!r}"
