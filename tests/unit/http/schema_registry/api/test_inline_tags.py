"""Tags inside the text of a schema: found, added and removed by records and fields."""

import json
from typing import Any

import pytest

from tests.unit.http.schema_registry.builders import stored
from tests.unit.http.schema_registry.served import Served, tell

INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "mail", "type": "string", "confluent:tags": ["OLD"]},
        {"name": "in", "type": ["null", {"type": "array", "items": INNER}]},
    ],
}
BODY = {"schema": json.dumps(ORDER)}


def tags(path: str, *names: str, kind: str = "sr_field") -> dict[str, Any]:
    """Return tags of a record or field as clients send them."""
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(names)}


def by_path(answer: dict[str, Any]) -> dict[str, list[str]]:
    """Return the tags of a response."""
    return {each["schemaEntity"]["entityPath"]: each["tags"] for each in answer["schemaTags"]}


async def texts(served: Served, version: int) -> dict[str, Any]:
    """Return the tags of a version by their paths."""
    _, found = await served.ask("GET", f"/subjects/a/versions/{version}?findTags=*")
    return by_path(found)


def test_tags_of_a_version_change_in_a_new_one() -> None:
    """A dot before the path is none. A tag that is there already stays where it is."""

    async def story(served: Served) -> None:
        await served.ask("POST", "/subjects/a/versions", BODY)
        wanted = {
            "tagsToAdd": [
                tags(".shop.Order.mail", "PII", "OLD"),
                tags("shop.In.x", "DEEP"),
                tags("shop.Order", "WHOLE", kind="sr_record"),
            ]
        }
        status, made = await served.ask("POST", "/subjects/a/versions/1/tags", wanted)
        assert (status, made["version"]) == (200, 2)
        assert made["metadata"]["properties"] == {"confluent:version": "2"}
        expected = {
            "shop.Order": ["WHOLE"],
            "shop.Order.mail": ["OLD", "PII"],
            "shop.In.x": ["DEEP"],
        }
        assert await texts(served, 2) == expected
        assert await texts(served, 1) == {"shop.Order.mail": ["OLD"]}
        less = {"tagsToRemove": [tags("shop.Order.mail", "OLD", "PII"), tags("shop.In.x", "NO")]}
        await served.ask("POST", "/subjects/a/versions/latest/tags", less)
        assert await texts(served, 3) == {"shop.Order": ["WHOLE"], "shop.In.x": ["DEEP"]}

    tell(story)


@pytest.mark.parametrize("own", [None, {"properties": {"owner": "first"}}])
def test_a_tagged_version_keeps_its_own_metadata(own: Any) -> None:
    """The new version took those of the newest one where the named one has none."""

    async def story(served: Served) -> None:
        await served.ask("POST", "/subjects/a/versions", {**BODY, "metadata": own})
        second = {"properties": {"owner": "second"}, "tags": {"x": ["Y"]}}
        await served.ask("POST", "/subjects/a/versions", {**BODY, "metadata": second})
        wanted = {"tagsToAdd": [tags("shop.Order.mail", "PII")]}
        _, made = await served.ask("POST", "/subjects/a/versions/1/tags", wanted)
        assert made["version"] == 3
        expected = {"confluent:version": "3", **((own or {}).get("properties", {}))}
        assert made["metadata"].get("properties") == expected
        assert not made["metadata"].get("tags")

    tell(story)


def test_tags_come_with_a_registration() -> None:
    """The response has the text, because it is not the one that was sent."""

    async def story(served: Served) -> None:
        wanted = BODY | {
            "schemaTagsToAdd": [tags("shop.Order.id", "KEY")],
            "schemaTagsToRemove": [tags("shop.Order.mail", "OLD")],
        }
        status, made = await served.ask("POST", "/subjects/a/versions", wanted)
        assert (status, made["version"], '"confluent:tags":["KEY"]' in made["schema"]) == (
            200,
            1,
            True,
        )
        assert await texts(served, 1) == {"shop.Order.id": ["KEY"]}
        _, found = await served.ask("GET", f"/schemas/ids/{made['id']}?findTags=KEY&findTags=X")
        assert by_path(found) == {"shop.Order.id": ["KEY"]}
        _, found = await served.ask("GET", f"/schemas/ids/{made['id']}?findTags=X")
        assert "schemaTags" not in found

    tell(story)


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        ([tags("shop.Order.none", "A")], 42201, "no sr_field 'shop.Order.none'"),
        ([tags("shop.Order", "A")], 42201, "no sr_field 'shop.Order'"),
        ([tags("shop.Order", "A", kind="topic")], 422, "entityType"),
        ([{"tags": ["A"]}], 422, "schemaEntity"),
        ([7], 422, "schemaEntity"),
        ({}, 200, ""),
        ("x", 422, "tagsToAdd"),
        ([tags("shop.Order.id") | {"tags": [1]}], 422, "tags"),
    ],
)
def test_a_bad_change_of_tags_is_refused(change: Any, code: int, named: str) -> None:
    """Nothing is registered by it."""

    async def story(served: Served) -> None:
        await served.ask("POST", "/subjects/a/versions", BODY)
        status, refused = await served.ask(
            "POST", "/subjects/a/versions/1/tags", {"tagsToAdd": change}
        )
        assert (refused.get("error_code", status), named in str(refused)) == (code, True)
        with_schema = BODY | {"schemaTagsToAdd": change}
        status, refused = await served.ask("POST", "/subjects/b/versions", with_schema)
        assert refused.get("error_code", status) == code

    tell(story)


def test_texts_of_protobuf_are_not_edited() -> None:
    """The refusal says what to do, and nothing is found in them."""

    async def story(served: Served) -> None:
        body = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message A { int32 x = 1; }'}
        await served.ask("POST", "/subjects/a/versions", body)
        assert "schemaTags" not in (await served.ask("GET", "/schemas/ids/1?findTags=*"))[1]
        wanted = {"tagsToAdd": [tags("message.A", "B", kind="sr_record")]}
        status, refused = await served.ask("POST", "/subjects/a/versions/1/tags", wanted)
        assert (status, "send the whole text" in refused["message"]) == (422, True)

    tell(story)


RECORD = {"type": "object", "properties": {"x": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "path", "holder"),
    [
        (RECORD, "object", []),
        (RECORD, "object.x", ["properties", "x"]),
        ({"properties": {"in": RECORD}}, "object.in", ["properties", "in"]),
        ({"properties": {"in": RECORD}}, "object.in.object.x", ["properties", "in", "properties", "x"]),
        ({"type": "array", "items": RECORD}, "array.object", ["items"]),
        ({"not": RECORD}, "not.object.x", ["not", "properties", "x"]),
        ({"allOf": [{"type": "string"}, RECORD]}, "allof.0.object", ["allOf", 1]),
        ({"oneOf": [{"type": "null"}, RECORD]}, "oneof.1.object.x", ["oneOf", 1, "properties", "x"]),
        (
            {"oneOf": [RECORD | {"title": "b"}, RECORD | {"title": "a"}, RECORD]},
            "oneof.2.object",
            ["oneOf", 0],
        ),
        (RECORD | {"type": ["object", "null"]}, "anyof.1.object.x", ["properties", "x"]),
        (
            RECORD | {"if": RECORD, "else": RECORD},
            "allof.0.conditional.else.object.x",
            ["else", "properties", "x"],
        ),
        (RECORD | {"if": RECORD, "else": RECORD}, "allof.1.object", []),
        (
            RECORD | {"definitions": {"D.e": RECORD}},
            "object.definitions.D.e.object.x",
            ["definitions", "D.e", "properties", "x"],
        ),
    ],
)  # fmt: skip
def test_tags_of_a_json_schema_change(
    schema: dict[str, Any], path: str, holder: list[str | int]
) -> None:
    """The paths are those of Confluent's registry. All else stays."""
    kind = "sr_record" if path.endswith("object") else "sr_field"
    expected = json.loads(json.dumps(schema))
    place = expected
    for step in holder:
        place = place[step]
    place["confluent:tags"] = ["PII"]

    async def story(served: Served) -> None:
        body = {"schemaType": "JSON", "schema": json.dumps(schema)}
        await served.ask("POST", "/subjects/a/versions", body)
        wanted = {"tagsToAdd": [tags(path, "PII", kind=kind)]}
        status, made = await served.ask("POST", "/subjects/a/versions/1/tags", wanted)
        assert (status, json.loads(made["schema"])) == (200, expected)
        _, found = await served.ask("GET", "/subjects/a/versions/2?findTags=PII")
        assert found["schemaTags"] == [tags(path, "PII", kind=kind)]
        less = {"tagsToRemove": [tags(path, "PII", kind=kind)]}
        _, made = await served.ask("POST", "/subjects/a/versions/2/tags", less)
        assert json.loads(made["schema"]) == schema

    tell(story)


def test_a_path_that_a_json_schema_has_not_is_refused() -> None:
    """With the path."""

    async def story(served: Served) -> None:
        body = {"schemaType": "JSON", "schema": json.dumps(RECORD)}
        for path, kind in (("object.y", "sr_field"), ("object", "sr_field"), ("", "sr_record")):
            wanted = body | {"schemaTagsToAdd": [tags(path, "A", kind=kind)]}
            status, refused = await served.ask("POST", "/subjects/a/versions", wanted)
            assert (status, f"no {kind} {path!r}" in refused["message"]) == (422, True)

    tell(story)


@pytest.mark.parametrize(
    "text",
    ["{", '{"type":"record"}', "[" * 5_000, '{"type":"record","name":"R","confluent:tags":7}'],
    ids=["no JSON", "no name", "deep", "no fields"],
)
def test_a_stored_text_that_is_no_schema_has_no_tags(text: str) -> None:
    """Another registry may have written it. It is shown as it is."""

    async def story(served: Served) -> None:
        served.have(stored("a", text=text))
        status, found = await served.ask("GET", "/subjects/a/versions/1?findTags=*")
        assert (status, found["schema"], "schemaTags" in found) == (200, text, False)
        assert (await served.ask("GET", "/schemas?findTags=*"))[0] == 200

    tell(story)


def test_everything_but_tags_stays_as_it_is() -> None:
    """Numbers, texts outside ASCII and attributes of others are those of the text before."""
    fields = [
        {"name": "d", "type": "double", "default": 1e-7, "x": [1e300, 2**62, "\u00e9\u2028", None]},
        {"name": "l", "type": "long", "default": -(2**63), "doc": 'a "b" \\ \n'},
        {"name": "t", "type": "string", "confluent:tags": ["A"]},
    ]
    body = {
        "schema": json.dumps({"type": "record", "name": "R", "fields": fields, "y": {"z": 0.5}})
    }

    async def story(served: Served) -> None:
        await served.ask("POST", "/subjects/a/versions", body)
        for change in ("tagsToAdd", "tagsToRemove"):
            wanted = {change: [tags("R.d", "B")]}
            assert (await served.ask("POST", "/subjects/a/versions/latest/tags", wanted))[0] == 200
        _, first = await served.ask("GET", "/subjects/a/versions/1")
        _, last = await served.ask("GET", "/subjects/a/versions/3")
        assert first["schema"] == last["schema"]

    tell(story)
