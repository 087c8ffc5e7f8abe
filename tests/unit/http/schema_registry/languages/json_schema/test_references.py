"""References: where they lead, which are refused, and that nothing is ever fetched."""

import json
import socket
from typing import Any

import pytest

from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA
from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from tests.unit.http.schema_registry.languages.json_schema.builders import parsed

TEXT = {"type": "string"}
NOWHERE = "leads to no schema: name it in the references of the schema, because nothing is fetched"


def leads_to_text(reference: str, root: dict[str, Any], draft: int | None = None) -> bool:
    """Whether a property with a reference holds strings and nothing else."""
    found = parsed(
        root | {"properties": {"p": {"$ref": reference}} | root.get("properties", {})}, draft
    )
    texts, nulls = (parsed({"properties": {"p": each}}) for each in (TEXT, {"type": "null"}))
    return not found.differences(texts) and bool(found.differences(nulls))


@pytest.mark.parametrize(
    ("reference", "root"),
    [
        ("#/definitions/a", {"definitions": {"a": TEXT}}),
        ("#/definitions/a~1b~0c%25d%20e", {"definitions": {"a/b~c%d e": TEXT}}),
        ("#/x-own/list/1", {"x-own": {"list": [1, TEXT]}}),
        ("#/patternProperties/q", {"patternProperties": {"q": TEXT}}),
        (
            "http://a/root.json#/definitions/a",
            {"$id": "http://a/root.json", "definitions": {"a": TEXT}},
        ),
        ("root.json#/definitions/a", {"$id": "http://a/root.json#", "definitions": {"a": TEXT}}),
        (
            "http://a/inner.json",
            {"$id": "http://a/root.json", "definitions": {"a": {"$id": "inner.json", **TEXT}}},
        ),
        ("#a", {"definitions": {"a": {"$id": "#a", **TEXT}}}),
        (
            "http://a/root.json#a",
            {"$id": "http://a/root.json", "definitions": {"b": {"$id": "#a", **TEXT}}},
        ),
        (
            "#/definitions/a",
            {"definitions": {"a": {"$ref": "#/definitions/b", "type": "null"}, "b": TEXT}},
        ),
    ],
)
def test_a_reference_leads_to_a_schema_of_the_same_text(
    reference: str, root: dict[str, Any]
) -> None:
    """By JSON pointer, by id, and by anchor."""
    assert leads_to_text(reference, root)


@pytest.mark.parametrize(
    ("reference", "root"),
    [
        ("#/$defs/a", {"$defs": {"a": TEXT}}),
        ("#a", {"$defs": {"x": {"$anchor": "a", **TEXT}}}),
        ("#a", {"$defs": {"x": {"$dynamicAnchor": "a", **TEXT}}}),
        (
            "inner#a",
            {
                "$defs": {
                    "x": {"$id": "inner", "$defs": {"y": {"$anchor": "a", **TEXT}}},
                    "z": {"$anchor": "a"},
                }
            },
        ),
        ("inner#/$defs/y", {"$defs": {"x": {"$id": "inner", "$defs": {"y": TEXT}}}}),
        (
            "#/$defs/x/$defs/y",
            {
                "$defs": {
                    "x": {"$id": "inner", "$defs": {"y": {"$ref": "#/$defs/z"}, "z": TEXT}},
                    "z": {},
                }
            },
        ),
    ],
)
def test_a_reference_leads_to_a_schema_of_the_same_text_since_2019(
    reference: str, root: dict[str, Any]
) -> None:
    """Inside a schema with an id, references are relative to it."""
    assert leads_to_text(reference, root, draft=2020)


@pytest.mark.parametrize(
    ("reference", "root", "dependencies"),
    [
        ("other.json", {}, {"other.json": TEXT}),
        ("./other.json", {}, {"other.json": TEXT}),
        ("other.json#", {}, {"other.json": TEXT}),
        ("other.json#/definitions/a", {}, {"other.json": {"definitions": {"a": TEXT}}}),
        (
            "other.json#/definitions/a",
            {},
            {"other.json": {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": TEXT}}},
        ),
        ("other.json", {"$id": "http://a/b/root.json"}, {"other.json": TEXT}),
        ("http://a/b/other.json", {"$id": "http://a/b/root.json"}, {"other.json": TEXT}),
        ("http://a/other.json", {}, {"http://a/other.json": TEXT}),
        ("http://a/other.json", {}, {"any-name": {"$id": "http://a/other.json", **TEXT}}),
        ("urn:example:other", {}, {"urn:example:other": TEXT}),
        ("one.json", {}, {"two.json": TEXT, "one.json": {"$ref": "two.json"}}),
        (
            "one.json",
            {},
            {
                "http://a/two.json": TEXT,
                "one.json": {"$id": "http://a/one.json", "allOf": [{"$ref": "two.json"}]},
            },
        ),
        (
            "one.json",
            {},
            {
                "one.json": {
                    "$id": "http://a/one.json",
                    "allOf": [{"$ref": "#/definitions/b"}],
                    "definitions": {"b": TEXT},
                }
            },
        ),
        ("any name at all", {}, {"any name at all": TEXT}),
    ],
)
def test_a_reference_leads_to_a_dependency(
    reference: str, root: dict[str, Any], dependencies: dict[str, Any]
) -> None:
    """By the name in the references of the schema, also relative to ids."""
    whole = root | {"properties": {"p": {"$ref": reference}}}
    found = parsed(whole, None, **dependencies)
    assert [
        each.kind for each in found.differences(parsed({"properties": {"p": {"type": "null"}}}))
    ] == ["TYPE_CHANGED"]
    assert found.differences(parsed({"properties": {"p": TEXT}})) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"$ref": "#/definitions/a"}, f"#/$ref: the reference '#/definitions/a' {NOWHERE}"),
        (
            {"properties": {"a/b": {"$ref": "http://a/x"}}},
            f"#/properties/a~1b/$ref: the reference 'http://a/x' {NOWHERE}",
        ),
        (
            {"items": {"$ref": "file:///etc/passwd"}},
            f"#/items/$ref: the reference 'file:///etc/passwd' {NOWHERE}",
        ),
        (
            {"items": {"$ref": "#/title"}, "title": "a"},
            f"#/items/$ref: the reference '#/title' {NOWHERE}",
        ),
        ({"items": {"$ref": "#/items/7"}}, f"#/items/$ref: the reference '#/items/7' {NOWHERE}"),
        ({"$ref": "#"}, "#: the references lead in a circle, and to no schema"),
        (
            {
                "$ref": "#/definitions/a",
                "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
            },
            "#: the references lead in a circle, and to no schema",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(value: Any, expected: str) -> None:
    """The message has its path and its text."""
    with pytest.raises(InvalidSchemaError) as refused:
        parsed(value)
    assert str(refused.value) == expected


def test_a_reference_in_a_dependency_is_refused_with_its_name() -> None:
    """The fault is not in the text that a client sends."""
    with pytest.raises(
        InvalidSchemaError,
        match=r"^one\.json#/items/\$ref: the reference 'two\.json' leads to no schema",
    ):
        parsed({"$ref": "one.json"}, None, **{"one.json": {"items": {"$ref": "two.json"}}})
    with pytest.raises(InvalidSchemaError, match=r"^reference 'one\.json': line 1, column 2: "):
        JSON_SCHEMA.parse("true", [NamedSchema(name="one.json", text="{")])


def test_a_definition_that_is_not_used_may_refer_to_anything_before_2019() -> None:
    """Confluent's registry does not look at it, and some clients register such schemas."""
    definitions = {"unused": {"$ref": "http://a/x"}}
    parsed({"definitions": definitions})
    with pytest.raises(InvalidSchemaError):
        parsed({"$defs": definitions}, 2020)


def test_keywords_beside_a_reference_count_since_2019() -> None:
    """Before, they are ignored."""
    value = {
        "definitions": {"a": TEXT},
        "properties": {"p": {"$ref": "#/definitions/a", "maxLength": 3}},
    }
    writer = parsed({"properties": {"p": TEXT}})
    assert parsed(value, 7).differences(writer) == []
    assert [each.kind for each in parsed(value, 2020).differences(writer)] == ["TYPE_CHANGED"]


@pytest.mark.parametrize(
    "uri",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-07/schema#/definitions/nonNegativeInteger",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_meta_schemas_are_known(uri: str) -> None:
    """They are recursive, and refer to each other."""
    schema = parsed({"properties": {"a": {"$ref": uri}}})
    assert schema.differences(schema) == []


def test_an_unknown_meta_schema_is_refused() -> None:
    """It would have to be fetched."""
    with pytest.raises(InvalidSchemaError, match="leads to no schema"):
        parsed({"$ref": "http://json-schema.org/draft-99/schema#"})


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket is opened for any reference, id or meta-schema."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for text in (
        "http://127.0.0.1:1/x",
        "https://json-schema.org/draft/2020-12/meta/core",
        "//host/x",
        "ftp://host/x",
    ):
        for value in (
            {"$schema": text},
            {"$id": text},
            {"$ref": text},
            {"$schema": text, "type": 7},
        ):
            try:
                JSON_SCHEMA.parse(json.dumps(value))
            except InvalidSchemaError:
                continue
