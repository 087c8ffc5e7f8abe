"""Hostile schemas cost bounded time and memory, and never a RecursionError."""

import inspect
import json
import sys
from typing import Any

import pytest

from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA
from log_service.http.schema_registry.languages.json_schema.schema import JsonSchemaLanguage
from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.limits import SchemaLimits
from tests.unit.http.schema_registry.languages.json_schema.builders import (
    changes,
    is_compatible,
    parsed,
)

TOO_MANY = "the schema takes more than 200000 steps: make it smaller"
FEW_STEPS = JsonSchemaLanguage(limits=SchemaLimits(step_count=20_000))


def unions(width: int, depth: int, leaf: Any) -> Any:
    if depth == 0:
        return leaf
    inner = unions(width, depth - 1, leaf)
    return {
        "oneOf": [
            {"type": "object", "title": str(n), "properties": {"x": inner}} for n in range(width)
        ]
    }


def definitions(found: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{next(iter(found))}", "definitions": found, **others}


@pytest.mark.parametrize(("width", "depth"), [(150, 1), (20, 2), (5, 4)])
def test_unions_of_many_that_do_not_fit_are_given_up(width: int, depth: int) -> None:
    """Each would be compared with each."""
    writer, reader = (
        FEW_STEPS.parse(json.dumps(unions(width, depth, {"type": name})))
        for name in ("string", "integer")
    )
    with pytest.raises(InvalidSchemaError, match="the schema takes more than 20000 steps"):
        reader.differences(writer)


def test_a_large_union_is_compared_with_its_next_version() -> None:
    """Members are compared first with the likeliest partner: a thousand need no million steps."""
    members = [
        {"type": "object", "title": str(n), "properties": {f"p{n}": {"type": "integer"}}}
        for n in range(1_000)
    ]
    changed = [
        *members[:500],
        {"type": "object", "properties": {"p500": {"type": "number"}}},
        *members[501:],
        {"type": "null"},
    ]
    assert changes({"oneOf": members}, {"oneOf": changed})[0] == "SUM_TYPE_EXTENDED #/"
    assert is_compatible({"oneOf": members}, {"oneOf": changed})


def test_definitions_that_branch_are_compared_once_each() -> None:
    """Written out, this schema has a billion properties."""

    def schema(leaf: str) -> dict[str, Any]:
        next_ones = [{"$ref": f"#/definitions/d{n + 1}"} for n in range(30)]
        found = {
            f"d{n}": {"type": "object", "properties": {"l": each, "r": each}}
            for n, each in enumerate(next_ones)
        }
        return definitions(found | {"d30": {"type": leaf}})

    assert is_compatible(schema("integer"), schema("number"))
    assert len(parsed(schema("string")).differences(parsed(schema("integer")))) == 1_000


def test_products_that_refer_to_each_other_are_compared_once_each() -> None:
    """Twelve types, whose properties are unions of all twelve."""

    def schema(leaf: str) -> dict[str, Any]:
        union = {"oneOf": [{"$ref": f"#/definitions/p{n}"} for n in range(12)]}
        return definitions(
            {
                f"p{n}": {
                    "type": "object",
                    "title": f"p{n}",
                    "properties": {f"u{k}": union | {"title": str(k)} for k in range(3)}
                    | {"v": {"type": leaf}},
                }
                for n in range(12)
            }
        )

    assert is_compatible(schema("integer"), schema("number"))
    assert not is_compatible(schema("string"), schema("integer"))


@pytest.mark.parametrize(
    "text",
    [
        '{"not":' * 99 + "{}" + "}" * 99,
        '{"anyOf":[' * 49 + "{}" + "]}" * 49,
        '{"properties":{"p":' * 49 + "{}" + "}}" * 49,
        '{"default":' + "[" * 98 + "]" * 98 + "}",
        '{"enum":[' + '{"a":' * 97 + "1" + "}" * 97 + "]}",
    ],
)
def test_the_deepest_nesting_needs_little_stack(text: str) -> None:
    """A server calls the language with a stack of its own below."""
    depth = len(inspect.stack(context=0))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 500)
    try:
        schema = JSON_SCHEMA.parse(text)
        assert schema.differences(schema) == []
        assert schema.normalized()
        with_dependency = JSON_SCHEMA.parse(text, [NamedSchema(name="a", text=text)])
        assert with_dependency.formatted("resolved")
    finally:
        sys.setrecursionlimit(limit)


def test_a_long_chain_of_references_needs_no_stack() -> None:
    """Each definition is inside of the one before."""
    count = 3_000

    def schema(leaf: str) -> dict[str, Any]:
        found = {
            f"c{n}": {"properties": {"n": {"$ref": f"#/definitions/c{n + 1}"}}}
            for n in range(count)
        }
        return definitions(found | {f"c{count}": {"type": leaf}})

    found = parsed(schema("string")).differences(parsed(schema("integer")))
    assert [(each.kind, each.path.count("/")) for each in found] == [("TYPE_CHANGED", 2 * count)]


def test_references_to_references_are_followed_once() -> None:
    """Two thousand properties begin at different places of one chain."""
    chain = {f"c{n}": {"$ref": f"#/definitions/c{n + 1}"} for n in range(5_000)} | {
        "c5000": {"type": "string"}
    }
    schema = {
        "definitions": chain,
        "properties": {f"p{n}": {"$ref": f"#/definitions/c{n}"} for n in range(2_000)},
    }
    assert is_compatible(schema, schema)


@pytest.mark.parametrize(
    "value",
    [
        {
            "enum": [[n] for n in range(30_000)] + [[0]],
            "$schema": "http://json-schema.org/draft-04/schema#",
        },
        {"required": [1, "a"] * 20_000},
        {"allOf": [{"maxLength": 1.5} for _ in range(3_000)]},
    ],
)
def test_doubtful_schemas_do_not_keep_the_library_busy(value: Any) -> None:
    """It compares each item of a list with each, and needs a millisecond for an object."""
    with pytest.raises(InvalidSchemaError):
        parsed(value)


def test_patterns_are_not_searched_by_backtracking() -> None:
    """The pattern would take ages for this name."""
    name = "a" * 50_000 + "b"
    closed = {"patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    assert changes(closed | {"properties": {name: {"type": "string"}}}, closed) == [
        f"PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/{name}"
    ]


def test_many_patterns_are_bounded() -> None:
    """Each is compiled for the names that only one side has."""
    patterns: dict[str, Any] = {
        "patternProperties": {f"^{n}(\\pL\\pL)*$": {} for n in range(3_000)}
    }
    with pytest.raises(InvalidSchemaError, match=TOO_MANY):
        is_compatible(patterns | {"properties": {"a": {}}}, patterns)


def test_a_pattern_that_cannot_be_searched_is_judged_strictly() -> None:
    """RE2 has no lookaheads. Such a pattern matches nothing that is dropped, and all that is added."""
    closed = {"patternProperties": {"^(?=a)": {"type": "string"}}, "additionalProperties": False}
    dropped = closed | {"properties": {"ab": {"type": "string"}}}
    assert changes(dropped, closed) == [
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/ab"
    ]
    added = closed | {"properties": {"zz": {"type": "null"}}}
    assert "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/zz" in changes(
        closed, added
    )


def test_dependencies_are_bounded() -> None:
    """By their count, and by their length together."""
    language = JsonSchemaLanguage(limits=SchemaLimits(reference_count=2))
    with pytest.raises(InvalidSchemaError, match="3 references are more than 2"):
        language.parse("true", [NamedSchema(name=name, text="true") for name in "abc"])
    long = json.dumps({"title": "a" * 1_000_000})
    with pytest.raises(InvalidSchemaError, match=TOO_MANY):
        JSON_SCHEMA.parse("true", [NamedSchema(name=str(n), text=long) for n in range(25)])
