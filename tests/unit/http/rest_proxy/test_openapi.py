"""The OpenAPI description has every route, and says what each does."""

import json
import re
from typing import Any

import jsonschema
import pytest
import trio

from log_service.client import real_env
from log_service.http.cluster_clients.pool import ClusterClients
from log_service.http.rest_proxy import openapi_schemas
from log_service.http.rest_proxy.context import RestContext
from log_service.http.rest_proxy.openapi import description, openapi_route
from log_service.http.rest_proxy.routes import rest_routes
from log_service.http.rest_proxy.settings import read_rest_settings
from log_service.http.rest_proxy.streams import Streams
from log_service.http.rest_proxy.v1.shared_readers import SharedReaders
from log_service.http.rest_proxy.v2.instances import ConsumerInstances
from log_service.http.server.routes import Route, Router
from log_service.http.server.values import HttpRequest

OPERATION = {
    "type": "object",
    "required": ["operationId", "summary", "parameters", "responses"],
    "properties": {
        "operationId": {"type": "string", "pattern": "^[a-z0-9_]+$"},
        "summary": {"type": "string", "minLength": 10, "maxLength": 100},
        "responses": {"type": "object", "required": ["4XX", "5XX"], "minProperties": 3},
        "parameters": {
            "type": "array",
            "items": {"type": "object", "required": ["name", "in", "schema"]},
        },
    },
}


@pytest.fixture(scope="module")
def routes() -> list[Route]:
    """All routes of a proxy."""
    env = real_env()
    clients, settings = ClusterClients("server:1", {}, env), read_rest_settings("", "a file")
    streams = Streams(1)
    context = RestContext(
        clients=clients,
        settings=settings,
        env=env,
        instances=ConsumerInstances(env, max_count=1, idle_ms=1),
        streams=streams,
        readers=SharedReaders(clients, settings, streams),
    )
    return rest_routes(context)


@pytest.fixture(scope="module")
def document(routes: list[Route]) -> dict[str, Any]:
    """Their description."""
    return description(routes)


def test_every_route_is_described(routes: list[Route], document: dict[str, Any]) -> None:
    """Its placeholders are parameters, and its name is its own."""
    Router(routes)
    names = set[str]()
    for route in routes:
        operation = document["paths"][route.path][route.method.lower()]
        jsonschema.validate(operation, OPERATION)
        placed = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        assert placed == re.findall(r"\{(\w+)\}", route.path)
        if route.method != "GET":
            assert ("requestBody" in operation) == (route.method in {"POST", "PUT", "PATCH"})
        names.add(operation["operationId"])
    assert len(names) == len(routes) == sum(map(len, document["paths"].values()))
    assert len(routes) > 60


def test_the_description_is_served_without_a_login(routes: list[Route]) -> None:
    """A tool reads it before it knows how to log in."""
    route = openapi_route(routes)
    assert route.is_public

    async def ask() -> bytes:
        response = await route.handler(HttpRequest(method="GET", path=route.path))
        assert isinstance(response.body, bytes)
        return response.body

    assert json.loads(trio.run(ask)) == description(routes)


def test_every_body_and_every_kind_is_described(
    routes: list[Route], document: dict[str, Any]
) -> None:
    """The tables name no route that is not there, and leave none out."""
    names = {f"{each.method} {each.path}" for each in routes}
    with_body = {each for each in names if each.split(" ")[0] in {"POST", "PUT", "PATCH"}}
    without = {name for name in with_body if name not in openapi_schemas.BODIES}
    assert without == set()
    tables = (openapi_schemas.BODIES, openapi_schemas.RESPONSES, openapi_schemas.STATUSES)
    assert {name for table in tables for name in table} <= names
    shown = {*openapi_schemas.LISTS, *openapi_schemas.DOCUMENTS}
    gets = {each.path for each in routes if each.method == "GET" and each.path.startswith("/v3/")}
    assert gets == shown
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
