"""Expressions of JSON schemas are RE2's, in every keyword, reference and draft."""

import json
from typing import Any

import pytest

from log_service.client import SerializationError
from log_service.client.schemas.json_schema import validator_of
from log_service.client.schemas.serializing import ResolvedSchema
from log_service.client.schemas.values import JSON, Schema

SLOW = "^(a+)+$"
TEXT = "a" * 100 + "!"
"""Python's ``re`` would take 2^100 steps to find that SLOW does not match it."""
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def is_valid(schema: Any, value: Any, **others: Any) -> bool:
    """Return whether a value fits a schema, which may refer to others."""
    texts = {name: json.dumps(each) for name, each in others.items()}
    found = ResolvedSchema(schema=Schema(text=json.dumps(schema), schema_type=JSON), texts=texts)
    validated = validator_of(found)
    try:
        validated(value)
    except SerializationError:
        return False
    return True


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": SLOW}, TEXT),
        ({"$schema": DRAFT_4, "pattern": SLOW}, TEXT),
        ({"allOf": [{"$schema": DRAFT_4, "pattern": SLOW}]}, TEXT),
        ({"patternProperties": {SLOW: True}, "additionalProperties": False}, {TEXT: 1}),
        ({"patternProperties": {SLOW: True}, "additionalProperties": {"type": "null"}}, {TEXT: 1}),
    ],
    ids=["pattern", "draft 4", "a draft inside", "properties", "schema of additional ones"],
)
def test_hard_expressions_take_no_time(schema: Any, value: Any) -> None:
    assert not is_valid(schema, value)


def test_expressions_of_references_take_no_time() -> None:
    other = {"$schema": DRAFT_4, "pattern": SLOW}
    assert not is_valid({"$ref": "other"}, TEXT, other=other)
    assert is_valid({"$ref": "other"}, "aaa", other=other)


def test_properties_match_as_before() -> None:
    """Properties that match are checked by their schema, and the rest is additional."""
    schema = {
        "properties": {"id": {"type": "integer"}},
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": False,
    }
    assert is_valid(schema, {"id": 1, "x-note": "a"})
    assert not is_valid(schema, {"id": 1, "x-note": 1})
    assert not is_valid(schema, {"id": 1, "y": "a"})


def test_a_draft_inside_another_keeps_its_rules() -> None:
    inner = {"$schema": DRAFT_4, "maximum": 5, "exclusiveMaximum": True}
    assert not is_valid({"$ref": "inner"}, 5, inner=inner)
    assert is_valid({"$ref": "inner"}, 4, inner=inner)


def test_unevaluated_properties_have_simple_expressions() -> None:
    """The library looks for evaluated properties by ``re``."""
    schema = {"patternProperties": {"^x-": True}, "unevaluatedProperties": False}
    assert is_valid(schema, {"x-a": 1})
    with pytest.raises(SerializationError, match="simple expressions only"):
        is_valid({**schema, "patternProperties": {SLOW: True}}, {})


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "(a{1000}){1000}"])
def test_expressions_that_are_not_re2_are_refused(pattern: str) -> None:
    with pytest.raises(SerializationError, match="regular expression"):
        is_valid({"pattern": pattern}, "a")


def test_a_schema_has_a_bound_of_expressions() -> None:
    with pytest.raises(SerializationError, match="201 regular expressions, and may have 200"):
        is_valid({"anyOf": [{"pattern": f"a{i}"} for i in range(201)]}, "a")
