"""Our canonical text of Protobuf beside the elements that Wire's parser reads, on generated files.

Needs Java and the jars of ``make kafka-libs``; without them the tests skip and say so.
``WireJudge.java`` parses each text with Wire and prints its elements in Confluent's order. A
failure names the seed of its family.
"""

import os
import shutil
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from log_service.http.schema_registry.languages.language import NamedSchema
from log_service.http.schema_registry.languages.protobuf import PROTOBUF
from tests.helpers.java_archives import KAFKA_LIBS, QUICK
from tests.helpers.whole import of_a_run
from tests.unit.http.schema_registry.languages.protobuf.generated_files import family

pytestmark = pytest.mark.timeout(600)

JUDGE = Path(__file__).with_name("WireJudge.java")
JUDGE_SECONDS = 100.0
FAMILIES = range(of_a_run(12, whole=262))
"""Two files a family and four texts a file: about a hundred texts, or two thousand."""
HAND_MADE = [
    "",
    ";;message A {};",
    "// only a comment",
    'syntax = "proto2"; package a; message A { optional int32 a = 1; }',
    "message A { oneof o { group G = 1 { optional int32 x = 1; } } }",
    "message A { reserved 1 to 1, 2 to max; reserved 'a', \"b\"; extensions 100 to max, 90; }",
    'option java_package = "a\\x41"; option go_package = "";',
    "enum E { reserved 7 to max, 5; option deprecated = true; Z = 0; }",
    "service S { rpc A (.a.B) returns (stream c.D) { option deprecated = true; } }",
    "message A { optional string a = 1 [(x).y.z = { a: 1, b: [], c: [{}, {d: 'e'}] }]; }",
    r"""message A { optional string a = 1 [default = "\a\b\f\n\r\t\v\\'\"", json_name = 'é']; }""",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A text for the judge, and our canonical text of it."""

    text: str
    canonical: str
    told: str


def wire_folder() -> Path:
    """Return the folder of the jars, or skip with a reason that says what to do."""
    if KAFKA_LIBS not in os.environ:
        pytest.skip(f"{KAFKA_LIBS} is not set: nothing was tested against Wire")
    folder = Path(os.environ[KAFKA_LIBS]).parent / "wire-libs"
    if not list(folder.glob("wire-schema-*.jar")):
        pytest.skip(f"{folder} has no jar of Wire (make kafka-libs): nothing was tested against it")
    if shutil.which("java") is None:
        pytest.skip("there is no java on the PATH: nothing was tested against Wire")
    return folder


def printed_by_wire(texts: list[str]) -> list[str]:
    """Return what the judge prints for each text. One JVM judges all."""
    command = ["java", "-Xmx256m", *QUICK, "-cp", f"{wire_folder()}/*", str(JUDGE)]
    lines = b"".join(b64encode(text.encode()) + b"\n" for text in texts)
    done = subprocess.run(
        command, input=lines, capture_output=True, timeout=JUDGE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found = done.stdout.decode().splitlines()
    return [line if line.startswith("!") else b64decode(line).decode() for line in found]


def asked(seed: int) -> Iterator[Asked]:
    """Yield the texts of a family: as written, canonical, from a descriptor, and in normal form."""
    others: list[NamedSchema] = []
    for file in family(seed, is_plain=True):
        schema = PROTOBUF.parse(file.text, others)
        texts = {
            "text": file.text,
            "canonical": schema.canonical,
            "descriptor": PROTOBUF.parse(schema.formatted("serialized"), others).canonical,
            "normal form": schema.normalized(),
        }
        for kind, text in texts.items():
            canonical = PROTOBUF.parse(text, others).canonical
            yield Asked(text=text, canonical=canonical, told=f"seed {seed}, {file.path}, {kind}")
        others.append(NamedSchema(name=file.path, text=file.text))


def test_generated_files_print_as_wire_reads_them() -> None:
    """The canonical text of each form of a schema is what Wire's elements print as."""
    wire_folder()
    questions = [each for seed in FAMILIES for each in asked(seed)]
    printed = printed_by_wire([each.text for each in questions])
    for each, theirs in zip(questions, printed, strict=True):
        assert theirs == each.canonical, each.told


def test_hand_made_files_print_as_wire_reads_them() -> None:
    """Rare statements print as Wire's elements do, also where a rule of protoc is broken."""
    printed = printed_by_wire(HAND_MADE)
    ours = [PROTOBUF.parse(text, is_new=False).canonical for text in HAND_MADE]
    assert printed == ours
