"""The form of a schema that has its dependencies in it."""

import json
from typing import Any

import pytest

from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA
from tests.unit.http.schema_registry.languages.json_schema.builders import MODERN, parsed

TEXT = {"type": "string"}


def bundle(value: Any, draft: int | None = None, **dependencies: Any) -> Any:
    return json.loads(parsed(value, draft, **dependencies).formatted("resolved"))


def test_a_schema_without_dependencies_is_answered_as_it_is() -> None:
    """Its references stay."""
    value = {"definitions": {"a": {"$id": "b"}}, "items": {"$ref": "#/definitions/a"}}
    assert bundle(value) == value
    assert bundle(True, None, other=TEXT) is True


def test_other_forms_are_the_canonical_text() -> None:
    """A client may ask for a form of another language."""
    schema = parsed({"$ref": "other"}, None, other=TEXT)
    assert (
        schema.formatted("serialized")
        == schema.formatted("")
        == schema.canonical
        == '{"$ref":"other"}'
    )


def test_dependencies_become_definitions() -> None:
    """References lead there, also those of one dependency to another."""
    one = {
        "$id": "http://a/one.json",
        "$schema": "x",
        "items": {"$ref": "two.json#/definitions/t"},
        "not": {"$ref": "#/items"},
    }
    found = bundle(
        {
            "$id": "http://a/b/root.json",
            "properties": {"p": {"$ref": "one.json"}},
            "definitions": {"own": {"not": {"$ref": "#"}}},
        },
        None,
        **{"http://a/two.json": {"definitions": {"t": TEXT}}, "one.json": one},
    )
    assert found == {
        "$id": "http://a/b/root.json",
        "properties": {"p": {"$ref": "#/definitions/one.json"}},
        "definitions": {
            "own": {"not": {"$ref": "#"}},
            "http://a/two.json": {"definitions": {"t": TEXT}},
            "one.json": {
                "items": {"$ref": "#/definitions/http:~1~1a~1two.json/definitions/t"},
                "not": {"$ref": "#/definitions/one.json/items"},
            },
        },
    }


def test_a_name_that_is_taken_gets_a_prime() -> None:
    """The schema's own definition stays."""
    found = bundle(
        {
            "definitions": {"a b": {}},
            "items": {"$ref": "a b"},
            "not": {"$ref": "#/definitions/a%20b"},
        },
        None,
        **{"a b": TEXT},
    )
    assert found["definitions"] == {"a b": {}, "a b'": TEXT}
    assert found["items"] == {"$ref": "#/definitions/a%20b'"}
    assert found["not"] == {"$ref": "#/definitions/a%20b"}


def test_anchors_become_pointers() -> None:
    """Two documents may have the same ones."""
    found = bundle(
        {"$ref": "other#a"},
        2020,
        other={"$defs": {"x": {"$anchor": "a", "$ref": "#b"}, "y": {"$anchor": "b", **TEXT}}},
    )
    assert found == {
        "$schema": MODERN,
        "$ref": "#/$defs/other/$defs/x",
        "$defs": {"other": {"$defs": {"x": {"$ref": "#/$defs/other/$defs/y"}, "y": TEXT}}},
    }


@pytest.mark.parametrize("draft", [7, 2020])
def test_a_bundle_means_the_same(draft: int) -> None:
    """It is a schema without dependencies, and compares equal."""
    value = {"properties": {"p": {"$ref": "one"}, "q": {"$ref": "two#/properties/t"}}}
    dependencies: dict[str, Any] = {
        "two": {"properties": {"t": TEXT, "u": {"$ref": "two"}}},
        "one": {"items": {"$ref": "two"}},
    }
    schema = parsed(value, draft, **dependencies)
    alone = JSON_SCHEMA.parse(schema.formatted("resolved"))
    assert alone.differences(schema) == schema.differences(alone) == []
    changed = parsed(
        value, draft, **(dependencies | {"two": {"properties": {"t": {"type": "null"}}}})
    )
    assert changed.differences(alone)
