"""Reads parameters of requests, and writes the JSON of responses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.decisions.tagging import found_tags
from log_service.http.schema_registry.entities import content_json
from log_service.http.schema_registry.parsing import SchemaParser
from log_service.http.schema_registry.records import compact_json
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.subjects import within
from log_service.http.schema_registry.values import RegisteredSchema
from log_service.http.server.negotiation import best_media_type
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse

T = TypeVar("T")

CONTENT_TYPES = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
"""What the registry answers, the best one first."""
KNOWS_NEW_FIELDS = "confluent-accept-unknown-properties"
"""The header of clients that accept unknown fields."""


def json_response(request: HttpRequest, value: object, status: int = 200) -> HttpResponse:
    """Return a response with a JSON body, in the content type that the client prefers."""
    return HttpResponse(
        status=status, body=compact_json(value, "replace"), content_type=content_type_for(request)
    )


def text_response(request: HttpRequest, text: str) -> HttpResponse:
    """Return a response whose body is a text as it is."""
    return HttpResponse(
        body=text.encode("utf-8", "replace"), content_type=content_type_for(request)
    )


def content_type_for(request: HttpRequest) -> str:
    """Return the content type that a client prefers among those of responses."""
    return best_media_type(request.headers.get("accept"), CONTENT_TYPES) or CONTENT_TYPES[0]


def require_acceptable(request: HttpRequest) -> None:
    """Refuse a request whose ``Accept`` allows none of the types of responses.

    A range with ``*`` as its main type is accepted, whatever its subtype is.

    Raises:
        HttpError: 406. Clients match its text.
    """
    accept = request.headers.get("accept", "")
    if best_media_type(accept, CONTENT_TYPES) is None and "*/" not in accept:
        raise HttpError(406, "HTTP 406 Not Acceptable")


def error_response(request: HttpRequest, error: errors.RegistryError) -> HttpResponse:
    """Return the response that reports a registry error."""
    return json_response(request, {"error_code": error.code, "message": error.text}, error.status)


def flag(request: HttpRequest, name: str) -> bool:
    """Return whether a query parameter is ``true``."""
    return (request.query_value(name) or "").lower() == "true"


def number(request: HttpRequest, name: str, default: int) -> int:
    """Return a number in the query, or ``default`` if it is not given.

    Raises:
        HttpError: 404 as in Confluent's registry, the text is not a number.
    """
    text = request.query_value(name)
    return default if text is None else whole_number(text)


def whole_number(text: str) -> int:
    """Parse a number from a path or a query.

    Raises:
        HttpError: 404 as in Confluent's registry, the text is not a number of up to 10 digits.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise HttpError(404, "HTTP 404 Not Found")
    return int(text)


def page(request: HttpRequest, found: Sequence[T], limit: int = -1) -> list[T]:
    """Return the part of a list that ``offset`` and ``limit`` of the query select.

    The argument ``limit`` is the default and the maximum of the query's ``limit``. -1 means none.
    """
    offset = max(number(request, "offset", 0), 0)
    asked = number(request, "limit", limit)
    most = limit if asked <= 0 or (0 < limit < asked) else asked
    return list(found[offset:] if most < 0 else found[offset : offset + most])


def is_new_client(request: HttpRequest) -> bool:
    """Return whether a client accepts response fields that are unknown to old Java clients.

    Old Java clients refuse a response with an unknown field.
    """
    is_java = request.headers.get("user-agent", "").startswith("Java/")
    return not is_java or request.headers.get(KNOWS_NEW_FIELDS, "").lower() == "true"


async def shown_text(request: HttpRequest, registry: Registry, schema: RegisteredSchema) -> str:
    """Return the text of a schema in the format that the query parameter ``format`` names.

    Without ``format`` it is the stored text.

    Raises:
        RegistryError: a format is given, and the schema cannot be parsed.
    """
    form = request.query_value("format")
    if not form:
        return schema.content.text
    return await registry.think(partial(_formatted, registry.parser, schema, form))


async def schema_json(
    request: HttpRequest, registry: Registry, schema: RegisteredSchema
) -> dict[str, Any]:
    """Return the JSON object of a response that describes a version of a subject."""
    body = await body_json(request, registry, schema)
    head = {"subject": schema.subject, "version": schema.version, "id": schema.schema_id}
    return head | body | _newer_parts(request, schema)


async def body_json(
    request: HttpRequest, registry: Registry, schema: RegisteredSchema
) -> dict[str, Any]:
    """Return the part of a response that describes the content of a schema."""
    content = replace(schema.content, text=await shown_text(request, registry, schema))
    if request.query_value("referenceFormat") == "qualified":
        qualified = (
            replace(each, subject=within(each.subject, schema.subject))
            for each in content.references
        )
        content = replace(content, references=tuple(qualified))
    guid = {"guid": schema.guid} if is_new_client(request) else {}
    return guid | content_json(content) | await _tags_json(request, registry, schema)


async def _tags_json(
    request: HttpRequest, registry: Registry, schema: RegisteredSchema
) -> dict[str, Any]:
    """Return ``schemaTags``: the parts of a schema that have a tag named by ``findTags``.

    ``*`` stands for any tag. The result is empty if no part has such a tag.
    """
    wanted = [value for name, value in request.query if name == "findTags"]
    find = partial(found_tags, registry.parser, schema, wanted)
    found = await registry.think(find) if wanted else []
    return {"schemaTags": found} if found else {}


def _formatted(parser: SchemaParser, schema: RegisteredSchema, form: str) -> str:
    return parser.registered(schema).formatted(form)


def _newer_parts(request: HttpRequest, schema: RegisteredSchema) -> dict[str, Any]:
    if not is_new_client(request):
        return {}
    parts: Mapping[str, Any] = {"ts": schema.timestamp_ms, "deleted": schema.is_deleted or None}
    return {name: part for name, part in parts.items() if part is not None}
