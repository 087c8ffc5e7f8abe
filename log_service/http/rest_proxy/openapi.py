"""The OpenAPI description of the proxy, made from its table of routes.

Method and path come from the route, and the text from the docstring of its handler. So each route
is described, and each described route exists.
"""

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from log_service.http.rest_proxy import openapi_schemas
from log_service.http.rest_proxy.bodies import JSON, compact
from log_service.http.rest_proxy.formats import FORMATS
from log_service.http.rest_proxy.v1.query import MEDIA_TYPES, NDJSON, PARAMETERS
from log_service.http.rest_proxy.v1.routes import RECORDS
from log_service.http.rest_proxy.v2.media_types import PLAIN_TYPES
from log_service.http.rest_proxy.v3.topics import WITH_OPERATIONS
from log_service.http.server.routes import Route
from log_service.http.server.values import HttpRequest, HttpResponse

PATH: Final = "/openapi.json"
PLACEHOLDER: Final = re.compile(r"\{(\w+)\*?\}")
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
RECORD_TYPES: Final = tuple(f"application/vnd.kafka.{name}.v2+json" for name in FORMATS)
V1, V3 = "/v1/", "/v3/"
INDEX: Final = {
    "v1": "/v1/topics/{topic}/records",
    "v2": "/topics/{topic}",
    "v3": "/v3/clusters",
}
"""The first URL path that a client asks for, by version of the API."""
QUERIES: Final = {
    RECORDS: PARAMETERS,
    f"POST {RECORDS}": ("encoding",),
    "/consumers/{group}/instances/{instance}/records": ("timeout", "max_bytes"),
    "GET /v3/clusters/{cluster}/topics/{topic}": (WITH_OPERATIONS,),
    "/v3/clusters/{cluster}/acls": (
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission",
    ),
}
"""Query parameters by path. If the methods of a path differ, the key is method and path."""
ERROR: Final = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}


def openapi_route(routes: Sequence[Route]) -> Route:
    """Return the route that serves the description of ``routes``. It needs no login."""
    body = compact(description(routes))

    async def respond(_request: HttpRequest) -> HttpResponse:
        """Return this description."""
        return HttpResponse(body=body, content_type=JSON)

    return Route(method="GET", path=PATH, handler=respond, is_public=True)


def index_routes() -> list[Route]:
    """Return the routes of the root paths, which list the API's versions. They need no login."""
    body = compact({"versions": INDEX, "openapi": PATH})

    async def respond(_request: HttpRequest) -> HttpResponse:
        """Return the versions of the API, and the path of its description."""
        return HttpResponse(body=body, content_type=JSON)

    return [
        Route(method="GET", path=path, handler=respond, is_public=True)
        for path in ("/", V1.rstrip("/"), V3.rstrip("/"))
    ]


def description(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the description of routes in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "tidelog REST proxy", "version": "3"},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR, **openapi_schemas.components()},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    text = inspect.getdoc(route.handler) or ""
    summary, _, rest = text.partition("\n\n")
    found: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": " ".join(summary.split()),
        "tags": [_version(route)],
        "parameters": _parameters(route),
        "responses": _responses(route),
    }
    if rest:
        found["description"] = rest
    schema = openapi_schemas.BODIES.get(f"{route.method} {route.path}")
    if schema is not None or route.method in WITH_BODY:
        types = (*_types(route), *RECORD_TYPES) if _has_records(route) else _types(route)
        types = (NDJSON, JSON) if route.path == RECORDS else types
        schema = schema or {"type": "object"}
        is_needed = bool(schema.get("required") or schema.get("minProperties"))
        found["requestBody"] = {"required": is_needed, "content": _content(types, schema)}
    return found


def _responses(route: Route) -> dict[str, Any]:
    name = f"{route.method} {route.path}"
    schema = openapi_schemas.response_of(route.method, route.path)
    done: dict[str, Any] = {"description": "It is done."}
    full = {**done, "content": _content(_response_types(route), schema)}
    is_empty = name in openapi_schemas.WITHOUT_CONTENT
    refused = {
        "description": "It is refused.",
        "content": _content(_types(route), {"$ref": "#/components/schemas/Error"}),
    }
    statuses = openapi_schemas.STATUSES.get(name, ("200",))
    return {
        **{each: done if is_empty or each == "204" else full for each in statuses},
        "4XX": refused,
        "5XX": {**refused, "description": "The proxy or the cluster cannot do it now."},
    }


def _version(route: Route) -> str:
    return next((name.strip("/") for name in (V1, V3) if route.path.startswith(name)), "v2")


def _operation_id(route: Route) -> str:
    words = re.findall(r"\w+", route.path.replace("/-/", "/all/"))
    return "_".join([route.method.lower(), *words])


def _parameters(route: Route) -> list[dict[str, Any]]:
    placed = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in PLACEHOLDER.findall(route.path)
    ]
    asked = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": openapi_schemas.parameter_of(name),
        }
        for name in QUERIES.get(f"{route.method} {route.path}", QUERIES.get(route.path, ()))
    ]
    return [*placed, *asked]


def _has_records(route: Route) -> bool:
    return route.path.startswith("/topics/")


def _types(route: Route) -> tuple[str, ...]:
    return PLAIN_TYPES if _version(route) == "v2" else (JSON,)


def _response_types(route: Route) -> tuple[str, ...]:
    if route.path == RECORDS:
        return tuple(MEDIA_TYPES.values()) if route.method == "GET" else (NDJSON,)
    is_reading = route.method == "GET" and route.path.endswith("{instance}/records")
    return RECORD_TYPES if is_reading else _types(route)


def _content(types: Iterable[str], schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {name: {"schema": schema or {}} for name in types}
