"""Our Avro schemas beside Apache Avro's own library, on generated pairs.

Needs Java and the jars of ``make kafka-libs``; without them the tests skip and say so.
``AvroJudge.java`` gets every text as our parser does. A pair is two changes of one schema, so that
many pairs are nearly compatible.
"""

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from log_service.http.schema_registry.languages.avro import AVRO
from log_service.http.schema_registry.languages.avro.schema import AvroSchema
from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from tests.helpers.java_archives import KAFKA_LIBS, QUICK
from tests.integration.http.avro_schemas import Asked, Pair, some_pair

JUDGE = Path(__file__).with_name("AvroJudge.java")
JUDGE_SECONDS = 100.0
PAIR_COUNT = 2_000
SEEDS = (1, 2)

UNFINISHED_TYPE = "Schema fields not set yet"
"""Java cannot check a default object of a type around it. We can, or find that it never ends."""


def skip_unless_avro_is_there() -> Path:
    """Return the folder of the jars, or skip with a reason that says what to do."""
    if KAFKA_LIBS not in os.environ:
        pytest.skip(f"{KAFKA_LIBS} is not set: nothing was tested against Apache Avro")
    folder = Path(os.environ[KAFKA_LIBS]).parent / "avro-libs"
    if not list(folder.glob("avro-*.jar")):
        pytest.skip(
            f"{folder} has no jar of Apache Avro (make kafka-libs): nothing was tested against it"
        )
    if shutil.which("java") is None:
        pytest.skip("there is no java on the PATH: nothing was tested against Apache Avro")
    return folder


def judged(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what Java's library says to each question."""
    command = ["java", "-Xmx256m", *QUICK, "-cp", f"{skip_unless_avro_is_there()}/*", str(JUDGE)]
    asked = "".join(f"{json.dumps(question)}\n" for question in questions).encode()
    done = subprocess.run(
        command, input=asked, capture_output=True, timeout=JUDGE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]


@cache
def pairs(seed: int) -> list[Pair]:
    rng = random.Random(seed)
    return [some_pair(rng) for _ in range(PAIR_COUNT)]


@cache
def verdicts(seed: int) -> list[dict[str, Any]]:
    return judged(
        [
            {"reader": pair.reader.question(), "writer": pair.writer.question()}
            for pair in pairs(seed)
        ]
    )


def parsed(asked: Asked) -> AvroSchema | None:
    """Return our schema. None: we refuse it."""
    dependencies = [
        NamedSchema(name=f"r{number}", text=text) for number, text in enumerate(asked.dependencies)
    ]
    try:
        return AVRO.parse(asked.text, dependencies, is_new=asked.is_new)
    except InvalidSchemaError:
        return None


def compared(seed: int) -> Iterator[tuple[Pair, AvroSchema, AvroSchema, dict[str, Any]]]:
    """Yield each pair of schemas that we take, with Java's verdict."""
    for pair, verdict in zip(pairs(seed), verdicts(seed), strict=True):
        reader, writer = parsed(pair.reader), parsed(pair.writer)
        if (
            reader is not None
            and writer is not None
            and UNFINISHED_TYPE not in verdict.get("refusal", "")
        ):
            yield pair, reader, writer, verdict


@pytest.mark.parametrize("seed", SEEDS)
def test_a_schema_is_refused_where_java_refuses_it(seed: int) -> None:
    """Not a few of each must be there, or nothing was looked at."""
    refused_count = 0
    for pair, verdict in zip(pairs(seed), verdicts(seed), strict=True):
        if UNFINISHED_TYPE in verdict.get("refusal", ""):
            continue
        is_refused = parsed(pair.reader) is None or parsed(pair.writer) is None
        is_ambiguous = "matches multiple fields" in verdict.get("refusal", "")
        assert is_refused == ("refusal" in verdict and not is_ambiguous), (seed, pair, verdict)
        refused_count += is_refused
    assert PAIR_COUNT / 5 < refused_count < PAIR_COUNT * 4 / 5


@pytest.mark.parametrize("seed", SEEDS)
def test_texts_are_those_of_java(seed: int) -> None:
    """To the character, with and without the types of references."""
    for pair, reader, _, verdict in compared(seed):
        assert reader.canonical == verdict["canonical"], (seed, pair)
        assert reader.formatted("resolved") == verdict["resolved"], (seed, pair)


@pytest.mark.parametrize("seed", SEEDS)
def test_differences_are_those_of_java(seed: int) -> None:
    """Kinds, places and details, in one order. An ambiguous field is an exception of Java's."""
    kinds: Counter[str] = Counter()
    for pair, reader, writer, verdict in compared(seed):
        found = reader.differences(writer)
        kinds.update(each.kind for each in found)
        if "refusal" in verdict:
            assert [each.kind for each in found] == ["AMBIGUOUS_FIELD"], (seed, pair, verdict)
            continue
        expected = [
            (kind, path, f", additionalInfo:'{detail}'}}")
            for kind, path, detail in verdict["differences"]
        ]
        assert [(each.kind, each.path) for each in found] == [
            (kind, path) for kind, path, _ in expected
        ], (seed, pair)
        assert all(
            each.text.endswith(text) for each, (_, _, text) in zip(found, expected, strict=True)
        ), (seed, pair)
        kinds.update(["compatible"] if not found else [])
    assert all(kinds[kind] > PAIR_COUNT / 200 for kind in KINDS), kinds


KINDS = (
    "compatible",
    "AMBIGUOUS_FIELD",
    "FIXED_SIZE_MISMATCH",
    "MISSING_ENUM_SYMBOLS",
    "MISSING_UNION_BRANCH",
    "NAME_MISMATCH",
    "READER_FIELD_MISSING_DEFAULT_VALUE",
    "TYPE_MISMATCH",
)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_normal_form_has_the_meaning_of_the_schema(seed: int) -> None:
    """Java reads it, gives it the same parsing form, and finds nothing else to print."""
    taken = [(pair.reader, reader, verdict) for pair, reader, _, verdict in compared(seed)]
    normal = [
        Asked(text=reader.normalized(), dependencies=asked.dependencies, is_new=asked.is_new)
        for asked, reader, _ in taken
    ]
    answers = judged([{"reader": asked.question()} for asked in normal])
    for asked, answer, (_, reader, verdict) in zip(normal, answers, taken, strict=True):
        again = parsed(asked)
        assert again is not None, (seed, asked)
        assert (answer["canonical"], answer["parsing_form"]) == (
            again.canonical,
            verdict["parsing_form"],
        ), (seed, asked)
        assert again.normalized() == reader.normalized(), (seed, asked)
