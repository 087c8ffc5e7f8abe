"""Settings of scopes as clients send them: every field of Confluent's newest, and null."""

import json
from typing import Any

import pytest

from tests.unit.http.schema_registry.served import Served, tell

WHOLE: dict[str, Any] = {
    "alias": "other",
    "aliasForDeks": "other",
    "normalize": True,
    "validateFields": True,
    "validateNames": True,
    "validateNewSchemas": False,
    "validateRules": True,
    "compatibilityLevel": "FULL",
    "compatibilityPolicy": "LENIENT",
    "compatibilityGroup": "major",
    "defaultMetadata": {"properties": {"owner": "ann"}},
    "overrideMetadata": {"properties": {"team": "x"}},
    "defaultRuleSet": {},
    "overrideRuleSet": {},
}


def request_name(field: str) -> str:
    """Return the name of a field in a request."""
    return "compatibility" if field == "compatibilityLevel" else field


@pytest.mark.parametrize("field", sorted(WHOLE))
def test_each_setting_is_taken_shown_and_taken_away_by_null(field: str) -> None:
    """Clients of Confluent send null to take a setting away. Other settings stay."""
    other = "normalize" if field != "normalize" else "compatibilityGroup"

    async def story(served: Served) -> None:
        name, value = request_name(field), WHOLE[field]
        body = {name: value, other: WHOLE[other]}
        assert await served.ask("PUT", "/config/a", body) == (200, body)
        assert await served.ask("GET", "/config/a") == (200, {field: value, other: WHOLE[other]})
        assert await served.ask("PUT", "/config/a", {name: None}) == (200, {name: None})
        assert await served.ask("GET", "/config/a") == (200, {other: WHOLE[other]})

    tell(story)


def test_a_setting_that_is_not_sent_stays() -> None:
    """A request changes what it names alone."""

    async def story(served: Served) -> None:
        await served.ask("PUT", "/config/a", {"compatibility": "NONE", "normalize": True})
        await served.ask("PUT", "/config/a", {"normalize": False})
        expected = {"normalize": False, "compatibilityLevel": "NONE"}
        assert await served.ask("GET", "/config/a") == (200, expected)

    tell(story)


def test_the_level_of_all_scopes_falls_back_to_that_of_the_registry() -> None:
    """Null takes the level away that was set, and the registry's own counts again."""

    async def story(served: Served) -> None:
        await served.ask("PUT", "/config", {"compatibility": "NONE"})
        await served.ask("PUT", "/config", {"compatibilityLevel": None})
        assert await served.ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})

    tell(story)


def test_a_flag_may_come_as_a_text() -> None:
    """Scripts send it so, and Confluent's registry takes it."""

    async def story(served: Served) -> None:
        body = {"normalize": "true", "validateRules": "false"}
        expected = {"normalize": True, "validateRules": False}
        assert await served.ask("PUT", "/config/a", body) == (200, expected)
        status, refused = await served.ask("PUT", "/config/a", {"normalize": "yes"})
        assert (status, refused["error_code"]) == (422, 422)
        assert "normalize" in refused["message"]

    tell(story)


def test_new_schemas_may_be_taken_without_their_checks() -> None:
    """A default of the wrong type passes where ``validateNewSchemas`` is false, and only there."""
    field = {"name": "f", "type": "int", "default": "x"}
    bad = {"schema": json.dumps({"type": "record", "name": "R", "fields": [field]})}

    async def story(served: Served) -> None:
        for path in ("/subjects/a/versions", "/compatibility/subjects/a/versions/latest"):
            status, refused = await served.ask("POST", path, bad)
            assert (status, refused["error_code"]) == (422, 42201)
        await served.ask("PUT", "/config/a", {"validateNewSchemas": False})
        checked = await served.ask("POST", "/compatibility/subjects/a/versions/latest", bad)
        assert checked == (200, {"is_compatible": True})
        assert (await served.ask("POST", "/subjects/a/versions", bad))[0] == 200
        assert (await served.ask("POST", "/subjects/a/versions", {"schema": "{"}))[0] == 422

    tell(story)
