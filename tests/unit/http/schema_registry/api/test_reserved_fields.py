"""Fields that the metadata of a schema reserves, where ``validateFields`` is set."""

import json
from typing import Any

import pytest

from tests.unit.http.schema_registry.served import Served, tell

CONFLICT = "The new schema has field that conflicts with the reserved field {}."
REMOVED = (
    "The new schema has reserved field {} removed from its metadata"
    " which is present in the old schema's metadata."
)


def avro(*names: str) -> dict[str, Any]:
    """Return a request with a record of fields."""
    fields = [{"name": name, "type": "string", "default": ""} for name in names]
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}


def json_schema(*names: str) -> dict[str, Any]:
    """Return a request with an object of properties."""
    text = json.dumps({"type": "object", "properties": {name: {} for name in names}})
    return {"schemaType": "JSON", "schema": text}


def protobuf(*names: str) -> dict[str, Any]:
    """Return a request with a message of fields. The last is in a oneof."""
    fields = [f"string {name} = {number};" for number, name in enumerate(names, start=1)]
    fields[-1] = f"oneof o {{ {fields[-1]} }}"
    text = f'syntax = "proto3"; message R {{ {" ".join(fields)} }} message S {{ int32 z = 1; }}'
    return {"schemaType": "PROTOBUF", "schema": text}


def reserving(request: dict[str, Any], names: str) -> dict[str, Any]:
    """Return a request whose metadata reserves fields."""
    return request | {"metadata": {"properties": {"confluent:reserved": names}}}


async def validate_fields(served: Served, level: str = "NONE") -> None:
    """Have reserved fields checked."""
    await served.ask("PUT", "/config", {"compatibility": level, "validateFields": True})


@pytest.mark.parametrize("request_of", [avro, json_schema, protobuf])
def test_a_reserved_field_cannot_be_used(request_of: Any) -> None:
    """It is refused in each language, also where the level compares nothing."""

    async def story(served: Served) -> None:
        await validate_fields(served)
        wanted = reserving(request_of("a", "b"), " b , z,")
        status, body = await served.ask("POST", "/subjects/s/versions", wanted)
        assert (status, body["error_code"]) == (409, 409)
        assert CONFLICT.format("b") in body["message"]
        assert "field z" not in body["message"]
        assert "{validateFields: 'true', compatibility: 'NONE'}" in body["message"]
        good = reserving(request_of("a", "b"), "z")
        assert (await served.ask("POST", "/subjects/s/versions", good))[0] == 200

    tell(story)


def test_a_reserved_field_stays_reserved() -> None:
    """A later version reserves at least what the newest one does. Without metadata it does."""

    async def story(served: Served) -> None:
        await validate_fields(served)
        path = "/subjects/s/versions"
        assert (await served.ask("POST", path, reserving(avro("a"), "y,z")))[0] == 200
        status, body = await served.ask("POST", path, reserving(avro("a", "b"), "z"))
        assert (status, REMOVED.format("y") in body["message"]) == (409, True)
        assert (await served.ask("POST", path, reserving(avro("a", "b"), "z,y,x")))[0] == 200
        assert (await served.ask("POST", path, avro("a", "c")))[0] == 200
        status, body = await served.ask("POST", path, avro("a", "x"))
        assert (status, CONFLICT.format("x") in body["message"]) == (409, True)

    tell(story)


def test_both_kinds_of_reasons_are_named() -> None:
    """Reserved fields come before what breaks the level."""

    async def story(served: Served) -> None:
        await validate_fields(served, "FULL")
        await served.ask("POST", "/subjects/s/versions", reserving(avro("a"), "z"))
        text = json.dumps({"type": "record", "name": "Q", "fields": []})
        wanted = reserving({"schema": text}, "y")
        path = "/compatibility/subjects/s/versions?verbose=true"
        status, body = await served.ask("POST", path, wanted)
        assert (status, body["is_compatible"]) == (200, False)
        assert body["messages"][0] == REMOVED.format("z")
        assert "NAME_MISMATCH" in body["messages"][1]
        assert sum("validateFields" in each for each in body["messages"]) == 1

    tell(story)


def test_nothing_is_checked_where_it_is_not_asked_for() -> None:
    """It is off unless a scope sets it, and off where a registration is forced."""

    async def story(served: Served) -> None:
        wanted = reserving(avro("a"), "a")
        assert (await served.ask("POST", "/subjects/s/versions", wanted))[0] == 200
        await validate_fields(served)
        assert (await served.ask("POST", "/subjects/t/versions?force=true", wanted))[0] == 200

    tell(story)
