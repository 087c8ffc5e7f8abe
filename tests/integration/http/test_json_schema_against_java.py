"""Our JSON schemas beside the Java libraries inside Confluent's registry, on generated ones.

Needs Java and the jars of ``make kafka-libs``; without them the tests skip and say so.
``JsonSchemaJudge.java`` loads each schema of drafts 4 to 7 that we take with everit-json-schema,
and tells its shape, by which Confluent's registry compares. It prints JSON with Jackson.
"""

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from log_service.http.schema_registry.languages.json_schema.json_text import (
    print_json,
    read_json,
    value_key,
)
from log_service.http.schema_registry.languages.json_schema.references import Place
from log_service.http.schema_registry.languages.json_schema.schema import JsonSchema
from log_service.http.schema_registry.languages.json_schema.shape_reader import ShapeReader
from log_service.http.schema_registry.languages.json_schema.shapes import (
    Arrays,
    Combined,
    Kind,
    Negation,
    Node,
    Numbers,
    Objects,
    Reference,
    Shape,
    Strings,
    Values,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS
from tests.helpers.java_archives import KAFKA_LIBS, QUICK
from tests.unit.http.schema_registry.languages.json_schema import generated
from tests.unit.http.schema_registry.languages.json_schema.builders import DRAFTS, changes, parsed

JUDGE = Path(__file__).with_name("JsonSchemaJudge.java")
JUDGE_SECONDS = 100.0
OLD_DRAFTS = (4, 6, 7)
SCHEMA_COUNT = 600
TEXT_COUNT = 1_000
DEPTH = 6
"""Shapes are compared so far down. Schemas may contain themselves."""


def skip_unless_libraries_are_there() -> Path:
    """Return the folder of the jars, or skip with a reason that says what to do."""
    if KAFKA_LIBS not in os.environ:
        pytest.skip(f"{KAFKA_LIBS} is not set: nothing was tested against everit-json-schema")
    folder = Path(os.environ[KAFKA_LIBS]).parent / "json-schema-libs"
    if not list(folder.glob("everit-json-schema-*.jar")):
        pytest.skip(
            f"{folder} has no jar of everit-json-schema (make kafka-libs): nothing was tested against it"
        )
    if shutil.which("java") is None:
        pytest.skip("there is no java on the PATH: nothing was tested against everit-json-schema")
    return folder


def judged(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what Java's libraries say to each question."""
    command = [
        "java",
        "-Xmx256m",
        *QUICK,
        "-cp",
        f"{skip_unless_libraries_are_there()}/*",
        str(JUDGE),
    ]
    asked = "".join(f"{json.dumps(question)}\n" for question in questions).encode()
    done = subprocess.run(
        command, input=asked, capture_output=True, timeout=JUDGE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.split(b"\n") if line]


def some_schema(rng: random.Random, draft: int) -> dict[str, Any]:
    """Return an object with definitions, to which some inner schemas refer."""
    made = generated.schema(rng, draft)
    while not isinstance(made, dict):
        made = generated.schema(rng, draft)
    definitions = {name: generated.schema(rng, draft, 2) for name in "xy"}
    root = {"$schema": DRAFTS[draft], **made, "definitions": definitions}
    _refer(rng, root, ["#", "#/definitions/x", "#/definitions/y"])
    return root


def _refer(rng: random.Random, value: dict[str, Any], texts: list[str]) -> None:
    for keyword in ("properties", "definitions", "patternProperties"):
        for name, each in value.get(keyword, {}).items():
            if isinstance(each, dict) and rng.random() < 0.1:
                value[keyword][name] = {"$ref": rng.choice(texts)}
            elif isinstance(each, dict):
                _refer(rng, each, texts)


@cache
def loaded(draft: int) -> list[tuple[JsonSchema, dict[str, Any]]]:
    """Return schemas that we take, each with Java's answer. We refuse references in a circle."""
    rng = random.Random(draft)
    taken: list[JsonSchema] = []
    while len(taken) < SCHEMA_COUNT:
        with suppress(InvalidSchemaError):
            taken.append(parsed(some_schema(rng, draft)))
    answers = judged([{"schema": each.canonical, "depth": DEPTH} for each in taken])
    return list(zip(taken, answers, strict=True))


@pytest.mark.parametrize("draft", OLD_DRAFTS)
def test_shapes_are_those_of_java(draft: int) -> None:
    """Java loads each schema that we take, and finds the same in it. No kind of shape is missing."""
    kinds: Counter[str] = Counter()
    for schema, answer in loaded(draft):
        assert "refusal" not in answer, (answer, schema.canonical)
        ours = our_shape(ShapeReader(schema.documents), schema.documents.root, DEPTH)
        assert ours == java_shape(answer["shape"]), schema.canonical
        kinds.update(
            {name: json.dumps(answer).count(f'"kind": "{name}"') for name in Kind.__members__}
        )
    assert {name for name, count in kinds.items() if count < SCHEMA_COUNT / 100} == ABSENT[draft]


ABSENT = {4: {"TRUE", "FALSE", "CONST", "CONDITIONAL"}, 6: {"CONDITIONAL"}, 7: set[str]()}
"""Kinds that a draft does not have."""


def test_texts_are_those_of_java() -> None:
    """To the character, in the order sent and with names in order."""
    rng = random.Random(1)
    texts = [some_text(rng) for _ in range(TEXT_COUNT)]
    for text, answer in zip(texts, judged([{"text": text} for text in texts]), strict=True):
        value = read_json(text, USUAL_LIMITS)
        assert print_json(value) == answer["printed"], text
        assert print_json(value, is_sorted=True) == answer["sorted"], text


def some_text(rng: random.Random, depth: int = 3) -> str:
    """Return JSON with blanks, escapes and numbers of all kinds."""
    match rng.choice(["scalar", "list", "object"]) if depth else "scalar":
        case "list":
            return f"[{','.join(some_text(rng, depth - 1) for _ in range(rng.randint(0, 4)))}]"
        case "object":
            members = (
                f"{_text(rng)}: {some_text(rng, depth - 1)}" for _ in range(rng.randint(0, 4))
            )
            return f"{{{' , '.join(members)}}}"
        case _:
            return rng.choice(["true", "null", _number_text(rng), _text(rng)])


def _number_text(rng: random.Random) -> str:
    digits = rng.choice(["0", "7", "120", "12345678901234567890"])
    fraction = rng.choice(["", ".0", ".50", ".000000012"])
    exponent = rng.choice(["", "", "e2", "E-7", "e+21", "E400", "e0"])
    return f"{rng.choice(['', '-'])}{digits}{fraction}{exponent}"


def _text(rng: random.Random) -> str:
    parts = [
        "a",
        "B",
        "\\/",
        "/",
        "\\n",
        "\\u0001",
        "\\u00e9",
        "é",
        "\\ud83d\\ude00",
        "😀",
        "\x7f",
        "\u2028",
        '\\"',
        "\\\\",
    ]
    return f'"{"".join(rng.choices(parts, k=rng.randint(0, 3)))}"'


def test_properties_are_told_in_the_order_of_java() -> None:
    """Sets of Java have their own order, and so have the changes in an answer."""
    rng = random.Random(1)
    pairs = [tuple(_some_names(rng) for _ in ("old", "new")) for _ in range(200)]
    asked = [
        {"old": json.dumps(_objects(old, "null")), "new": json.dumps(_objects(new, "string"))}
        for old, new in pairs
    ]
    for (old, new), answer in zip(pairs, judged(asked), strict=True):
        found = changes(_objects(old, "null"), _objects(new, "string"))
        assert [each.rpartition("/")[2] for each in found] == answer["both"]
        required = changes(_objects(old, "null"), _objects(old, "null") | {"required": old})
        assert [each.rpartition("/")[2] for each in required] == answer["old"]


def _some_names(rng: random.Random) -> list[str]:
    """Return names, of which up to three have one hash. Java puts more of them in another order."""
    count = rng.choice([1, 5, 30, 100])
    return sorted(
        {f"{rng.choice(['Aa', 'BB', 'C#', 'q'])}{rng.randint(1, 60)}" for _ in range(count)}
    )


def _objects(names: list[str], kind: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind} for name in names}}


def our_shape(shapes: ShapeReader, node: Node, depth: int) -> dict[str, Any]:
    """Return what a schema says, as the judge tells it."""
    shape = shapes.written(node) if isinstance(node, Place) else node
    notes = shape.notes
    known = {
        "title": notes.title,
        "description": notes.description,
        "has_default": notes.default is not None,
    }
    if depth == 0:
        return known | {"kind": "DEEP"}
    return known | {"kind": shape.kind.name} | _our_body(shapes, shape, depth - 1)


def _our_body(shapes: ShapeReader, shape: Shape, depth: int) -> dict[str, Any]:
    told: dict[str, Any] = {}
    match shape.body:
        case Strings() as body:
            told = {"min": body.min_length, "max": body.max_length, "pattern": body.pattern}
        case Numbers() as body:
            limits = ("minimum", "maximum", "exclusive_minimum", "exclusive_maximum", "multiple_of")
            told = {name: _number(getattr(body, name)) for name in limits} | {
                "is_integer": body.is_integer
            }
        case Objects() as body:
            told = _our_objects(shapes, body, depth)
        case Arrays() as body:
            told = _our_arrays(shapes, body, depth)
        case Combined() as body:
            parts = [our_shape(shapes, each, depth) for each in body.parts]
            told = {"criterion": body.criterion.value, "parts": sorted(parts, key=ordered)}
        case Values() as body:
            told = {"values": body.keys}
        case Negation(schema=inner) | Reference(target=Place() as inner):
            told = {"schema": our_shape(shapes, inner, depth)}
    return told


def _our_objects(shapes: ShapeReader, body: Objects, depth: int) -> dict[str, Any]:
    named = {"properties": body.properties, "patterns": body.patterns, "schema_by": body.schema_by}
    inner = {
        key: {name: our_shape(shapes, each, depth) for name, each in places.items()}
        for key, places in named.items()
    }
    return {
        **inner,
        "required": sorted(body.required),
        "permits_additional": body.permits_additional,
        "additional": body.additional and our_shape(shapes, body.additional, depth),
        "required_by": {name: sorted(names) for name, names in body.required_by.items()},
        "min": body.min_properties,
        "max": body.max_properties,
    }


def _our_arrays(shapes: ShapeReader, body: Arrays, depth: int) -> dict[str, Any]:
    return {
        "every_item": body.every_item and our_shape(shapes, body.every_item, depth),
        "items": [our_shape(shapes, each, depth) for each in body.items],
        "permits_additional": body.permits_additional,
        "additional": body.additional and our_shape(shapes, body.additional, depth),
        "min": body.min_items,
        "max": body.max_items,
        "is_unique": body.has_unique_items,
    }


def _number(value: int | Decimal | None) -> str | None:
    return None if value is None else f"{Decimal(value).normalize():f}"


def java_shape(told: Any) -> Any:
    """Return a shape of the judge so that it can be compared: parts have no order, 1 and 1.0 are
    one.
    """
    if not isinstance(told, dict):
        return [java_shape(each) for each in told] if isinstance(told, list) else told
    shape = {key: java_shape(each) for key, each in told.items()}
    if "criterion" in shape:
        shape["parts"] = sorted(shape["parts"], key=ordered)
    if "values" in shape:
        shape["values"] = frozenset(
            value_key(read_json(each, USUAL_LIMITS)) for each in told["values"]
        )
    return shape


def ordered(value: object) -> str:
    """Return a text that equal values have alike."""
    match value:
        case dict():
            return (
                f"{{{','.join(sorted(f'{name}:{ordered(each)}' for name, each in value.items()))}}}"
            )
        case list() | tuple():
            return f"[{','.join(map(ordered, value))}]"
        case frozenset():
            return f"<{','.join(sorted(map(ordered, value)))}>"
        case int() | Decimal() if not isinstance(value, bool):
            return f"{Decimal(value).normalize():f}"
        case _:
            return repr(value)
