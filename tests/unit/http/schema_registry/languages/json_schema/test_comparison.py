"""Recursive schemas, references, the order of changes, and what their lines say."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA
from log_service.http.schema_registry.languages.json_schema.changes import Change
from log_service.http.schema_registry.languages.json_schema.comparison import MAX_CHANGES
from log_service.http.schema_registry.languages.language import FORWARD_SIDES
from tests.unit.http.schema_registry.languages.json_schema.builders import (
    changes,
    is_compatible,
    parsed,
)


def tree(value: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    """A list of values, each with the next one."""
    node = {
        "type": "object",
        "properties": {"value": value, "next": {"$ref": "#/definitions/node"}},
        **others,
    }
    return {"$ref": "#/definitions/node", "definitions": {"node": node}}


def test_a_recursive_schema_reads_itself() -> None:
    """A pair that is compared inside itself is no change."""
    assert changes(tree({"type": "string"}), tree({"type": "string"})) == []


def test_a_change_in_a_recursive_schema_is_told_once() -> None:
    """The path is the shortest one."""
    assert changes(tree({"type": "string"}), tree({"type": "integer"})) == [
        "TYPE_CHANGED #/properties/value"
    ]


def test_a_recursive_schema_may_be_unrolled() -> None:
    """The target of references counts, and not how often they are written out."""
    unrolled = tree({"type": "integer"})
    unrolled["definitions"]["node"]["properties"]["next"] = {
        "type": "object",
        "properties": {"value": {"type": "number"}, "next": {"$ref": "#/definitions/node"}},
    }
    assert is_compatible(tree({"type": "integer"}), unrolled)
    assert changes(unrolled, tree({"type": "integer"})) == [
        "TYPE_NARROWED #/properties/next/properties/value"
    ]


def test_an_incompatible_recursion_is_seen_behind_another_way_to_it() -> None:
    """The check looks again at types that were compatible only while a pair was open.

    The union is compared first, and in it the list, whose items are the union again. The union is
    incompatible. The property that is the list alone must then be so, too.
    """

    def schema(other: str) -> dict[str, Any]:
        union = {"anyOf": [{"$ref": "#/definitions/list"}, {"type": other}]}
        items = {"type": "array", "items": {"$ref": "#/definitions/union"}}
        extra = {
            "anyOf": [
                {"type": "object", "properties": {"u": {"$ref": "#/definitions/union"}}},
                {"type": "null"},
            ]
        }
        return {
            "properties": {"a": {"not": {"not": extra}}, "b": {"$ref": "#/definitions/list"}},
            "definitions": {"union": union, "list": items},
        }

    found = changes(schema("string"), schema("integer"))
    assert "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/properties/b/items" in found


def test_a_reference_counts_as_what_it_leads_to() -> None:
    """Also over several references, and to another document."""
    reader = {
        "$ref": "#/definitions/a",
        "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"type": "string"}},
    }
    assert changes({"type": "string"}, reader) == []
    assert (
        parsed({"$ref": "other"}, other={"type": "string"}).changes(parsed({"type": "string"}))
        == []
    )


def test_old_schemas_with_unknown_references_differ_by_their_text() -> None:
    """An older registry fetched them. Their text is all that is known."""
    one, other = (JSON_SCHEMA.parse(f'{{"$ref":"http://a/{name}"}}', is_new=False) for name in "bc")
    assert one.differences(one) == []
    assert [each.kind for each in one.differences(other)] == ["TYPE_CHANGED"]
    assert [each.kind for each in one.differences(parsed({"type": "string"}))] == ["TYPE_CHANGED"]


def test_changes_of_properties_are_in_the_order_of_java_sets() -> None:
    """Confluent's registry goes through a hash set of names. A JVM printed this order."""
    order = ["a", "b", "quantity", "address", "c", "tags", "createdAt", "price", "name"]
    order += ["currency", "comment", "id", "updatedAt"]
    names = ["name", "id", "price", "quantity", "createdAt", "updatedAt", "tags", "address"]
    names += ["currency", "comment", "a", "b", "c"]
    found = changes(
        {"type": "object", "properties": dict.fromkeys(names, True)}, {"type": "object"}
    )
    assert [each.rpartition("/")[2] for each in found] == order


def test_changes_of_required_names_are_in_the_order_of_java_maps() -> None:
    """A map that grew has other buckets than a copy of it. A JVM printed this order."""
    old = {"type": "object", "properties": dict.fromkeys(["name", "age", "city", "zip"], True)}
    found = changes(old, old | {"required": ["name", "age", "city", "zip"]})
    assert [each.rpartition("/")[2] for each in found] == ["zip", "city", "name", "age"]


def test_names_stand_in_paths_as_they_are() -> None:
    """Confluent's registry escapes nothing."""
    writer, reader = (
        {"type": "object", "properties": {"a/b~c": {"type": name}}} for name in ("string", "null")
    )
    assert changes(writer, reader) == ["TYPE_CHANGED #/properties/a/b~c"]


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        (
            {"type": "string"},
            {"type": "null"},
            '{errorType:"TYPE_CHANGED", description:"A type at path \'#/\' is different between the new schema and the old schema"}',
        ),
        (
            {"type": "string"},
            {"type": "string", "maxLength": 3},
            '{errorType:"MAX_LENGTH_ADDED", description:"The keyword at path \'#/maxLength\' in the new schema'
            ' is not present in the old schema"}',
        ),
        (
            {"type": "object"},
            {"type": "object", "properties": {"{a}": {"type": "string"}}},
            '{errorType:"OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", description:"The new schema has an open content model'
            " and has a property or item at path '#/properties/{a}' which is missing in the old schema\"}",
        ),
        (
            {"type": "array"},
            {"type": "array", "items": {"type": "string"}},
            '{errorType:"SCHEMA_ADDED", description:""}',
        ),
    ],
)
def test_a_line_is_the_one_that_clients_know(writer: Any, reader: Any, expected: str) -> None:
    """A verbose check of compatibility lists these lines."""
    assert [each.text for each in parsed(reader).differences(parsed(writer))] == [expected]


def test_a_line_names_the_sides_as_asked() -> None:
    """The reader is the old schema where it reads values of a new one."""
    line = (
        parsed({"type": "null"})
        .differences(parsed({"type": "string"}), sides=FORWARD_SIDES)[0]
        .text
    )
    assert "between the old schema and the new schema" in line


def test_each_incompatible_kind_but_one_says_something() -> None:
    """Confluent's registry says nothing of an added schema."""
    from log_service.http.schema_registry.languages.json_schema.changes import COMPATIBLE, message

    silent = {
        change
        for change in set(Change) - COMPATIBLE
        if 'description:""' in message(change, "#/", reader="new", writer="old")
    }
    assert silent == {Change.SCHEMA_ADDED}


def test_many_changes_are_cut_off() -> None:
    """A line for each would be a large response. The verdict counts all of them."""
    writer, reader = (
        {"type": "object", "properties": {f"p{n}": {"type": name} for n in range(2_000)}}
        for name in ("null", "string")
    )
    assert len(parsed(reader).differences(parsed(writer))) == MAX_CHANGES


def test_an_incompatible_change_behind_many_others_counts() -> None:
    """Changes that do no harm do not crowd it out."""
    names = {f"p{n}": {"type": "string", "title": "a"} for n in range(1_500)}
    writer = {"type": "object", "properties": names, "maxProperties": 9_000}
    reader = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "maxProperties": 8_000,
    }
    assert [each.kind for each in parsed(reader).differences(parsed(writer))] == [
        "MAX_PROPERTIES_DECREASED"
    ]


def walks(seed: int) -> dict[str, Any]:
    """A schema of few definitions that refer to each other at random."""
    rng = random.Random(seed)
    count = rng.randint(2, 5)

    def reference() -> dict[str, Any]:
        return {"$ref": f"#/definitions/d{rng.randrange(count)}"}

    def definition() -> dict[str, Any]:
        match rng.randrange(4):
            case 0:
                return {"type": rng.choice(["integer", "number", "string"])}
            case 1:
                return {"type": "array", "items": reference()}
            case 2:
                return {
                    "anyOf": [
                        reference()
                        if rng.random() < 0.5
                        else {"type": "array", "items": reference()},
                        {"type": "null"},
                    ]
                }
            case _:
                return {
                    "type": "object",
                    "properties": {name: reference() for name in "xyz"[: rng.randint(1, 3)]},
                }

    return {
        "properties": {"a": reference(), "b": reference()},
        "definitions": {f"d{n}": definition() for n in range(count)},
    }


def unrolled(schema: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    """The schema with its references written out, down to a depth. Below it, anything is valid."""
    if isinstance(schema, list):
        return [unrolled(each, definitions, depth) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return (
            unrolled(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth - 1)
            if depth
            else True
        )
    return {
        key: unrolled(each, definitions, depth)
        for key, each in schema.items()
        if key != "definitions"
    }


@pytest.mark.parametrize("seed", range(150))
def test_a_recursive_verdict_is_that_of_the_schemas_written_out(seed: int) -> None:
    """Six levels are enough to meet each pair of five definitions that these schemas reach."""
    writer, reader = walks(seed), walks(seed + 1_000)
    try:
        parsed(writer), parsed(reader)
    except Exception as error:  # noqa: BLE001 - references in a circle are refused
        pytest.skip(str(error))
    flat_writer, flat_reader = (unrolled(each, each["definitions"], 6) for each in (writer, reader))
    assert is_compatible(writer, reader) == is_compatible(flat_writer, flat_reader), f"seed {seed}"
