"""Each call asks for what the API has, and schemas are asked for once."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from log_service.client import (
    CompatibilityResult,
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaRegistryError,
)
from log_service.client.schemas.exchange import HttpCall, HttpResponse, Steps
from log_service.client.schemas.registry_core import RegistryCore
from log_service.client.schemas.settings import RegistryClientSettings

INT = Schema(text='"int"')
LONG = Schema(
    text="{}",
    schema_type="JSON",
    references=(SchemaReference(name="a.json", subject="a", version=2),),
    metadata={"properties": {"owner": "ann"}},
    rule_set={"domainRules": []},
)
FULL = {"subject": "s", "version": 3, "id": 7, "guid": "g", "schema": '"int"'}
REGISTERED = RegisteredSchema(schema=INT, id=7, subject="s", version=3, guid="g")


class Script:
    """A core whose requests get responses from a list. ``now_s`` is its clock."""

    def __init__(self, **given: Any) -> None:
        self.now_s = 0.0
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.core = RegistryCore(
            RegistryClientSettings.of("http://r", given), now=lambda: self.now_s, random=lambda: 0.0
        )

    def run(self, steps: Steps[Any], *responses: Any) -> Any:
        """Return the result of a call. A response is a JSON value, or a status with one."""
        left = list(responses)
        outcome = None
        try:
            while True:
                call = steps.send(outcome)
                assert isinstance(call, HttpCall)
                self.asked.append(f"{call.method} {call.url.removeprefix('http://r')}")
                self.bodies.append(None if call.content is None else json.loads(call.content))
                status, body = found if isinstance(found := left.pop(0), tuple) else (200, found)
                outcome = HttpResponse(status=status, content=json.dumps(body).encode())
        except StopIteration as done:
            assert left == [], "every response was asked for"
            return done.value


CALLS: list[tuple[Callable[[RegistryCore], Steps[Any]], str, Any, Any, Any]] = [
    (
        lambda core: core.register_schema("s", INT),
        "POST /subjects/s/versions",
        {"schema": '"int"'},
        FULL,
        REGISTERED,
    ),
    (
        lambda core: core.register_schema("s", LONG, normalize=True),
        "POST /subjects/s/versions?normalize=true",
        {
            "schema": "{}",
            "schemaType": "JSON",
            "references": [{"name": "a.json", "subject": "a", "version": 2}],
            "metadata": {"properties": {"owner": "ann"}},
            "ruleSet": {"domainRules": []},
        },
        {"id": 7},
        RegisteredSchema(schema=LONG, id=7, subject="s"),
    ),
    (
        lambda core: core.lookup_schema("s", INT, deleted=True),
        "POST /subjects/s?deleted=true",
        {"schema": '"int"'},
        FULL,
        REGISTERED,
    ),
    (lambda core: core.get_schema(7), "GET /schemas/ids/7", None, {"schema": '"int"'}, INT),
    (
        lambda core: core.get_schema(7, "s", fmt="serialized"),
        "GET /schemas/ids/7?subject=s&format=serialized",
        None,
        FULL,
        INT,
    ),
    (lambda core: core.get_schema_by_guid("g"), "GET /schemas/guids/g", None, FULL, INT),
    (
        lambda core: core.get_latest_version("s"),
        "GET /subjects/s/versions/latest",
        None,
        FULL,
        REGISTERED,
    ),
    (
        lambda core: core.get_version("s", 3, deleted=True),
        "GET /subjects/s/versions/3?deleted=true",
        None,
        FULL,
        REGISTERED,
    ),
    (lambda core: core.get_versions("a/b"), "GET /subjects/a%2Fb/versions", None, [1, 2], [1, 2]),
    (
        lambda core: core.get_subjects("o", deleted=True),
        "GET /subjects?subjectPrefix=o&deleted=true",
        None,
        ["o"],
        ["o"],
    ),
    (
        lambda core: core.get_schemas("o", latest_only=True, deleted=True),
        "GET /schemas?subjectPrefix=o&latestOnly=true&deleted=true&offset=0&limit=1000",
        None,
        [FULL],
        [REGISTERED],
    ),
    (
        lambda core: core.get_schema_versions(7),
        "GET /schemas/ids/7/versions",
        None,
        [{"subject": "s", "version": 3}],
        [("s", 3)],
    ),
    (
        lambda core: core.get_referenced_by("s", "latest"),
        "GET /subjects/s/versions/latest/referencedby",
        None,
        [9],
        [9],
    ),
    (lambda core: core.get_contexts(), "GET /contexts", None, ["."], ["."]),
    (
        lambda core: core.check_compatibility("s", INT, "latest"),
        "POST /compatibility/subjects/s/versions/latest?verbose=true",
        {"schema": '"int"'},
        {"is_compatible": False, "messages": ["why"]},
        CompatibilityResult(is_compatible=False, messages=("why",)),
    ),
    (
        lambda core: core.check_compatibility("s", INT, verbose=False),
        "POST /compatibility/subjects/s/versions",
        {"schema": '"int"'},
        {"is_compatible": True},
        CompatibilityResult(is_compatible=True),
    ),
    (
        lambda core: core.get_config(),
        "GET /config",
        None,
        {"compatibilityLevel": "FULL"},
        {"compatibilityLevel": "FULL"},
    ),
    (lambda core: core.get_config("s"), "GET /config/s?defaultToGlobal=true", None, {}, {}),
    (lambda core: core.get_config("s", default_to_global=False), "GET /config/s", None, {}, {}),
    (
        lambda core: core.set_config({"compatibility": "NONE"}, "s"),
        "PUT /config/s",
        {"compatibility": "NONE"},
        {"a": 1},
        {"a": 1},
    ),
    (lambda core: core.delete_config("s"), "DELETE /config/s", None, {"a": 1}, {"a": 1}),
    (lambda core: core.get_mode(), "GET /mode", None, {"mode": "READWRITE"}, "READWRITE"),
    (
        lambda core: core.set_mode("IMPORT", force=True),
        "PUT /mode?force=true",
        {"mode": "IMPORT"},
        {"mode": "IMPORT"},
        "IMPORT",
    ),
    (lambda core: core.delete_mode("s"), "DELETE /mode/s", None, {"mode": "IMPORT"}, "IMPORT"),
    (
        lambda core: core.delete_subject("s", permanent=True),
        "DELETE /subjects/s?permanent=true",
        None,
        [1, 2],
        [1, 2],
    ),
    (lambda core: core.delete_version("s", 2), "DELETE /subjects/s/versions/2", None, 2, 2),
]


@pytest.mark.parametrize(("call", "request_line", "body", "response", "expected"), CALLS)
def test_a_call_is_one_request(
    call: Callable[[RegistryCore], Steps[Any]],
    request_line: str,
    body: Any,
    response: Any,
    expected: Any,
) -> None:
    """With the body that the API wants, and a value for its response."""
    script = Script()
    assert script.run(call(script.core), response) == expected
    assert (script.asked, script.bodies) == ([request_line], [body])


def test_schemas_are_listed_in_pages() -> None:
    """A full page is followed by another one. A registry without pages returns more at once."""
    script = Script()
    assert len(script.run(script.core.get_schemas(), [FULL] * 1_000, [FULL])) == 1_001
    assert script.asked == [f"GET /schemas?offset={offset}&limit=1000" for offset in (0, 1_000)]
    assert len(script.run(script.core.get_schemas(), [FULL] * 1_001)) == 1_001


def test_schemas_are_kept() -> None:
    """By id in its context, by guid, by what was registered, and by what was looked up."""
    script = Script()
    core = script.core
    calls: list[Callable[[], Steps[Any]]] = [
        lambda: core.get_schema(7, "s"),
        lambda: core.get_schema(7, ":.test:s"),
        lambda: core.get_schema(7, fmt="serialized"),
        lambda: core.get_schema_by_guid("g"),
        lambda: core.register_schema("s", INT),
        lambda: core.register_schema("s", INT, normalize=True),
        lambda: core.lookup_schema("s", INT),
    ]
    first = [script.run(call(), FULL) for call in calls]
    assert [script.run(call()) for call in calls] == first
    assert script.run(core.get_schema(7, "another")) == INT
    core.clear_caches()
    script.run(core.get_schema(7, "s"), FULL)


def test_the_latest_version_is_kept_for_its_time() -> None:
    """A registration or a deletion by this client ends it."""
    script = Script(cache_latest_ttl_sec=60)
    core = script.core
    script.run(core.get_latest_version("s"), FULL)
    script.now_s = 59.9
    script.run(core.get_latest_version("s"))
    script.now_s = 60
    script.run(core.get_latest_version("s"), FULL)
    script.run(core.register_schema("s", INT), FULL)
    script.run(core.get_latest_version("s"), FULL)
    script.run(core.delete_version("s", 3), 3)
    script.run(core.get_latest_version("s"), FULL)
    script.run(core.register_schema("s", INT), FULL)


def test_a_refused_schema_is_asked_for_again() -> None:
    """It may be registered in the meantime."""
    script = Script()
    with pytest.raises(SchemaRegistryError, match="Schema 7 not found"):
        script.run(
            script.core.get_schema(7), (404, {"error_code": 40403, "message": "Schema 7 not found"})
        )
    assert script.run(script.core.get_schema(7), FULL) == INT


def test_the_capacity_bounds_what_is_kept() -> None:
    """The schema that was used longest ago is forgotten."""
    script = Script(cache_capacity=2)
    for number in (1, 2):
        script.run(script.core.get_schema(number), FULL)
    script.run(script.core.get_schema(1))
    script.run(script.core.get_schema(3), FULL)
    script.run(script.core.get_schema(1))
    script.run(script.core.get_schema(2), FULL)


def test_references_are_read_deepest_first_and_once() -> None:
    """Two schemas may refer to the same third one."""
    script = Script()
    both = tuple(SchemaReference(name=name, subject=name, version=1) for name in ("left", "right"))
    base = [{"name": "base", "subject": "base", "version": 1}]
    texts = script.run(
        script.core.referenced_texts(Schema(text="{}", references=both)),
        {"id": 1, "schema": "L", "references": base},
        {"id": 2, "schema": "B"},
        {"id": 3, "schema": "R", "references": base},
    )
    assert list(texts.items()) == [("base", "B"), ("left", "L"), ("right", "R")]
    assert script.asked[0] == "GET /subjects/left/versions/1?deleted=true"
    assert script.run(script.core.referenced_texts(Schema(text="{}", references=both))) == texts
