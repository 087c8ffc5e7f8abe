"""Verdicts beside the truth: each value that is valid for the writer should be valid for the
reader.

The library ``jsonschema`` validates. Confluent's rules do not always tell the truth: ``UNSOUND``
lists those that take a reader which refuses valid values. Generated schemas avoid them.
"""

import random
from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator

from tests.unit.http.schema_registry.languages.json_schema.builders import is_compatible, parsed
from tests.unit.http.schema_registry.languages.json_schema.sound_pairs import (
    changed,
    schema,
    value_for,
)

PAIRS = 2_000
VALUES_OF_A_PAIR = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Untruth:
    """A pair that is compatible for Confluent, and a value that only the writer permits."""

    writer: dict[str, Any]
    reader: dict[str, Any]
    value: Any
    validator: Any = Draft7Validator
    draft: int = 7


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
UNSOUND = {
    "a default makes a property that is required harmless": Untruth(
        writer={"type": "object", "properties": {"a": TEXT | {"default": ""}}},
        reader={"type": "object", "properties": {"a": TEXT | {"default": ""}}, "required": ["a"]},
        value={},
    ),
    "required counts only for properties that both name": Untruth(
        writer={"type": "object"}, reader={"type": "object", "required": ["a"]}, value={}
    ),
    "an empty property that is added may be required": Untruth(
        writer={"type": "object"},
        reader={"type": "object", "properties": {"a": {}}, "required": ["a"]},
        value={},
    ),
    "a type beside other keywords of its kind is not compared": Untruth(
        writer={"maxLength": 3}, reader={"type": "string", "maxLength": 3}, value=1
    ),
    "another member of oneOf may fit, too": Untruth(
        writer={"oneOf": [TEXT]}, reader={"oneOf": [TEXT, {"enum": ["a"]}]}, value="a"
    ),
    "members of oneOf may widen until two fit": Untruth(
        writer={"oneOf": [{"type": "number", "maximum": 2}, {"type": "number", "minimum": 5}]},
        reader={"oneOf": [{"type": "number", "maximum": 6}, {"type": "number", "minimum": 5}]},
        value=5,
    ),
    "patternProperties is not compared": Untruth(
        writer={"patternProperties": {"a": TEXT}},
        reader={"patternProperties": {"a": WHOLE}},
        value={"a": "a"},
    ),
    "only the first pattern covers a property that is dropped": Untruth(
        writer={"properties": {"ab": TEXT}, "additionalProperties": False},
        reader={"patternProperties": {"a": TEXT, "b": WHOLE}, "additionalProperties": False},
        value={"ab": "a"},
    ),
    "propertyNames is not compared": Untruth(
        writer={"propertyNames": {"maxLength": 3}},
        reader={"propertyNames": {"maxLength": 0}},
        value={"a": 1},
    ),
    "contains is not compared": Untruth(
        writer={"type": "array", "contains": TEXT},
        reader={"type": "array", "contains": WHOLE},
        value=["a"],
    ),
    "conditions are not compared": Untruth(
        writer={"if": True, "then": True}, reader={"if": True, "then": False}, value=1
    ),
    "flags of draft 4 are not compared": Untruth(
        writer={"type": "number", "maximum": 3},
        reader={"type": "number", "maximum": 3, "exclusiveMaximum": True},
        value=3,
        validator=Draft4Validator,
        draft=4,
    ),
    "additionalItems counts without a list of items": Untruth(
        writer={"type": "array", "additionalItems": False},
        reader={"type": "array", "additionalItems": False, "items": [TEXT]},
        value=[1],
    ),
    "decimals of Kafka Connect are all the same": Untruth(
        writer=TEXT | {"connect.type": "bytes"},
        reader={"type": "number", "connect.type": "bytes"},
        value="a",
    ),
    "a property that is unevaluated here may be evaluated beside": Untruth(
        writer={
            "allOf": [{"type": "object", "properties": {"a": TEXT}}],
            "unevaluatedProperties": False,
        },
        reader={"allOf": [{"type": "object"}], "unevaluatedProperties": False},
        value={"a": "a"},
        validator=Draft202012Validator,
        draft=2020,
    ),
}


@pytest.mark.parametrize("case", UNSOUND.values(), ids=UNSOUND)
def test_a_known_untruth_is_confluents(case: Untruth) -> None:
    """The verdict is kept as it is, because clients expect it. Each entry proves that it is untrue."""
    assert is_compatible(case.writer, case.reader, case.draft)
    assert case.validator(case.writer).is_valid(case.value)
    assert not case.validator(case.reader).is_valid(case.value)


@pytest.mark.parametrize("part", range(4))
def test_a_reader_that_is_compatible_takes_each_valid_value(part: int) -> None:
    """Pairs of generated schemas, with values that are likely to be valid for the writer."""
    judged = 0
    for seed in range(part * PAIRS // 4, (part + 1) * PAIRS // 4):
        rng = random.Random(seed)
        writer = schema(rng, 3)
        reader = changed(rng, writer, 3)
        if is_compatible(writer, reader):
            count, refused = judge(rng, writer, reader)
            judged += count
            assert refused == [], f"seed {seed}: {refused[0]} of {writer} for {reader}"
    assert judged > PAIRS, "most pairs with values would prove nothing"


PLANTED = (
    *(
        "ADDITIONAL_PROPERTIES_REMOVED",
        "ADDITIONAL_PROPERTIES_NARROWED",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    *(
        "REQUIRED_ATTRIBUTE_ADDED",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    *(
        "ENUM_ARRAY_NARROWED",
        "TYPE_NARROWED",
        "TYPE_CHANGED",
        "SUM_TYPE_NARROWED",
        "MAX_LENGTH_ADDED",
        "PATTERN_ADDED",
    ),
)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_untruth_is_found(name: str) -> None:
    """Were one more kind of change taken as compatible, some value would prove it wrong."""
    for seed in range(20_000):
        rng = random.Random(seed)
        writer = schema(rng, 2)
        reader = changed(rng, writer, 2)
        kinds = {each.kind for each in parsed(reader).differences(parsed(writer))}
        if kinds == {name} and judge(rng, writer, reader)[1]:
            return
    pytest.fail("no value was found")


def judge(rng: random.Random, writer: Any, reader: Any) -> tuple[int, list[Any]]:
    """Return how many values are valid for the writer, and which of them the reader refuses."""
    valid_for_writer, valid_for_reader = Draft7Validator(writer), Draft7Validator(reader)
    found = [value_for(rng, writer) for _ in range(VALUES_OF_A_PAIR)]
    valid = [value for value in found if valid_for_writer.is_valid(value)]
    return len(valid), [value for value in valid if not valid_for_reader.is_valid(value)]
