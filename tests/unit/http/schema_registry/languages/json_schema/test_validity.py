"""A text is a schema of its draft, or is refused.

The library with the meta-schemas is the judge.
"""

import json
import random
import subprocess
import sys
from typing import Any

import pytest
from jsonschema import validators

from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA
from log_service.http.schema_registry.languages.json_schema.regex_syntax import regex_fault
from log_service.http.schema_registry.languages.language import InvalidSchemaError
from tests.unit.http.schema_registry.languages.json_schema.builders import DRAFTS, parsed
from tests.unit.http.schema_registry.languages.json_schema.generated import damaged, schema

SEEDS = 400


def refusal(value: Any, draft: int | None = None) -> str | None:
    try:
        parsed(value, draft)
    except InvalidSchemaError as error:
        return str(error)
    return None


def is_valid_by_the_library(value: Any, draft: int) -> bool:
    validator = validators.validator_for({"$schema": DRAFTS[draft]})
    is_valid: bool = validator(validator.META_SCHEMA).is_valid(value)
    return is_valid


@pytest.mark.parametrize("draft", DRAFTS)
def test_valid_schemas_are_taken(draft: int) -> None:
    """Generated schemas of each draft. The library agrees that they are valid."""
    for seed in range(SEEDS):
        value = schema(random.Random(seed), draft)
        assert is_valid_by_the_library(value, draft), f"seed {seed}: {value}"
        assert refusal(value, draft) is None, f"seed {seed}: {value}"


@pytest.mark.parametrize("draft", DRAFTS)
def test_damaged_schemas_have_the_verdict_of_the_library(draft: int) -> None:
    """A value of another type stands somewhere. Only regular expressions are judged more strictly."""
    refused_count = 0
    for seed in range(SEEDS):
        value = damaged(random.Random(seed), draft)
        if not isinstance(value, dict) or "^(" in json.dumps(value):
            continue
        refused = refusal(value, draft)
        assert (refused is None) == is_valid_by_the_library(value, draft), (
            f"seed {seed}: {value}: {refused}"
        )
        refused_count += refused is not None
    assert refused_count > SEEDS // 20


@pytest.mark.parametrize(
    ("value", "draft", "expected"),
    [
        (
            {"type": "strin"},
            7,
            "#/type: a type is one of array, boolean, integer, null, number, object, string",
        ),
        (
            {"properties": {"a/b~": {"minLength": -1}}},
            7,
            "#/properties/a~1b~0/minLength: -1 is less than the minimum of 0",
        ),
        ({"items": [{}, {"required": "a"}]}, 7, "#/items/1/required: 'a' is not of type 'array'"),
        (
            {"definitions": {"unused": {"maximum": "1"}}},
            7,
            "#/definitions/unused/maximum: '1' is not of type 'number'",
        ),
        (
            {"$defs": {"unused": {"maximum": "1"}}},
            2020,
            "#/$defs/unused/maximum: '1' is not of type 'number'",
        ),
        ({"exclusiveMaximum": True}, 4, "#: 'maximum' is a dependency of 'exclusiveMaximum'"),
        ({"exclusiveMaximum": True}, 7, "#/exclusiveMaximum: True is not of type 'number'"),
        ({"enum": []}, 4, "#/enum: [] should be non-empty"),
        ({"items": [{}]}, 2020, "#/items: [{}] is not of type 'object', 'boolean'"),
        ({"not": 3}, 6, "#/not: 3 is not of type 'object', 'boolean'"),
        ({"$id": "a#b"}, 2020, "#/$id: 'a#b' does not match '^[^#]*#?$'"),
        ({"pattern": "(a"}, 7, "#/pattern: the regular expression has 1 groups are not closed"),
        (
            {"patternProperties": {"[a": {}}},
            7,
            "#/patternProperties/[a: the regular expression has an open class at character 0",
        ),
        ([], None, "#: a schema is an object, or true or false"),
        ("string", None, "#: a schema is an object, or true or false"),
        (None, None, "#: a schema is an object, or true or false"),
    ],
)
def test_a_fault_is_named_with_its_path(value: Any, draft: int | None, expected: str) -> None:
    """A user should find the fault in a long schema."""
    assert refusal(value, draft) == expected


@pytest.mark.parametrize(
    ("value", "draft"),
    [
        (True, None),
        (False, None),
        ({"required": []}, 7),
        ({"maxLength": 3.0}, 7),
        ({"enum": []}, 7),
        ({"enum": ["a", 1, None, True]}, 4),
        ({"exclusiveMaximum": True, "maximum": 3}, 4),
        ({"$anchor": "a.b", "$defs": {"a": {"$dynamicAnchor": "b"}}}, 2020),
        ({"$recursiveAnchor": True}, 2019),
        (
            {
                "properties": {
                    "type": {"type": "string"},
                    "properties": {},
                    "$ref": {"type": "string"},
                }
            },
            7,
        ),
        (
            {
                "default": {"type": "strin"},
                "examples": [{"required": 1}],
                "const": {"pattern": "("},
                "x": {"type": 1},
            },
            7,
        ),
        ({"pattern": r"^(?=.*[a-z])(?<!x)\p{L}\u0041$"}, 7),
        ({"title": "a" * 100_000, "enum": [f"v{n}" for n in range(20_000)]}, 7),
        ({"multipleOf": 1e-300, "maximum": 1e300}, 7),
    ],
)
def test_a_valid_schema_is_not_refused(value: Any, draft: int | None) -> None:
    """Values that are data, not schemas, may be anything."""
    assert refusal(value, draft) is None


@pytest.mark.parametrize(
    ("uri", "is_draft_4"),
    [
        ("http://json-schema.org/draft-04/schema", True),
        ("https://json-schema.org/draft-04/schema#", True),
        ("http://json-schema.org/schema#", True),
        ("http://json-schema.org/draft-03/schema#", False),
        ("http://example.com/mine", False),
        ("", False),
    ],
)
def test_an_unknown_draft_is_draft_7(uri: str, is_draft_4: bool) -> None:
    """In draft 4, an exclusive limit is a flag. In draft 7 it is a number."""
    assert (refusal({"$schema": uri, "maximum": 1, "exclusiveMaximum": True}) is None) == is_draft_4
    assert (refusal({"$schema": uri, "exclusiveMaximum": 1}) is None) != is_draft_4


def test_an_old_schema_may_be_invalid() -> None:
    """A record of the topic may have passed a laxer registry. It can still be compared."""
    old = JSON_SCHEMA.parse(
        '{"type":"strin","maxLength":-1,"pattern":"(","required":"a","properties":[],"allOf":{},"items":3,"enum":1}',
        is_new=False,
    )
    assert old.differences(old) == []
    assert parsed({}).differences(old) == []


def test_each_expression_that_the_generator_damages_is_judged_here() -> None:
    """The library does not look at regular expressions."""
    assert regex_fault("^(") is not None


def test_the_library_is_imported_only_for_a_doubt() -> None:
    """The import takes a tenth of a second, and a valid schema needs none."""
    code = (
        "import sys; from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA as language;"
        'language.parse(\'{"type":"object","properties":{"a":{"enum":["b"],"maxLength":3}},"required":["a"]}\');'
        "assert 'jsonschema' not in sys.modules;"
        "language.parse('{\"maxLength\":3.0}'); assert 'jsonschema' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
