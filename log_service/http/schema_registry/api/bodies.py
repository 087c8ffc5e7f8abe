"""Reads bodies and parameters of requests, and writes the JSON of responses.

Unknown fields of a request are refused, because a misspelt field would silently do nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.entities import BadFieldError, content_json
from log_service.http.schema_registry.parsing import SchemaParser
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
"""Header of clients that accept fields which they do not know."""
MAX_BODY_BYTES = 4 << 20


def json_response(request: HttpRequest, value: object, status: int = 200) -> HttpResponse:
    """Return a response with a JSON body, in the content type that the client likes best."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text_response(request, body, status)


def text_response(request: HttpRequest, text: str, status: int = 200) -> HttpResponse:
    """Return a response whose body is a text as it is."""
    accepted = best_media_type(request.headers.get("accept"), CONTENT_TYPES)
    body = text.encode("utf-8", "replace")
    return HttpResponse(status=status, body=body, content_type=accepted or CONTENT_TYPES[0])


def error_response(request: HttpRequest, error: errors.RegistryError) -> HttpResponse:
    """Return the response of a refused request."""
    return json_response(request, {"error_code": error.code, "message": error.text}, error.status)


def read_object(request: HttpRequest, known: Iterable[str]) -> dict[str, Any]:
    """Return the JSON object of a request's body.

    Raises:
        HttpError: the body is no JSON.
        RegistryError: it is no object, or has a field that is not ``known``.
    """
    try:
        found = json.loads(request.body, object_pairs_hook=_without_repeats)
        request.body.decode()
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"The body is no JSON in UTF-8: {error}") from error
    if not isinstance(found, dict):
        raise errors.RegistryError(errors.UNPROCESSABLE, "The body has to be a JSON object.")
    names = set(known)
    for name in found:
        if name not in names:
            raise errors.RegistryError(errors.UNPROCESSABLE, f"Unrecognized field: {name}")
    _refuse_lone_surrogates(found)
    return found


def unprocessable(error: BadFieldError) -> errors.RegistryError:
    """Return the refusal of a field of the wrong type."""
    return errors.RegistryError(errors.UNPROCESSABLE, str(error))


def flag(request: HttpRequest, name: str) -> bool:
    """Return whether a query parameter is ``true``."""
    return (request.query_value(name) or "").lower() == "true"


def number(request: HttpRequest, name: str, default: int) -> int:
    """Return a number of the query.

    Raises:
        HttpError: it is no number. Confluent's registry answers 404 then.
    """
    text = request.query_value(name)
    return default if text is None else whole_number(text)


def whole_number(text: str) -> int:
    """Return a number of a path or a query.

    Raises:
        HttpError: it is no number of 32 bits. Confluent's registry answers 404 then.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise HttpError(404, "HTTP 404 Not Found")
    return int(text)


def page(request: HttpRequest, found: Sequence[T], limit: int = -1) -> list[T]:
    """Return the part of a list that ``offset`` and ``limit`` ask for."""
    offset = max(number(request, "offset", 0), 0)
    asked = number(request, "limit", limit)
    most = limit if asked <= 0 or (0 < limit < asked) else asked
    return list(found[offset:] if most < 0 else found[offset : offset + most])


def is_new_client(request: HttpRequest) -> bool:
    """Return whether a client accepts fields that old versions of it did not know.

    Old Java clients refuse a response with an unknown field.
    """
    is_java = request.headers.get("user-agent", "").startswith("Java/")
    return not is_java or request.headers.get(KNOWS_NEW_FIELDS, "").lower() == "true"


def schema_text(request: HttpRequest, parser: SchemaParser, schema: RegisteredSchema) -> str:
    """Return the text of a schema in the form that ``format`` asks for."""
    form = request.query_value("format")
    return parser.registered(schema).formatted(form) if form else schema.content.text


def schema_json(request: HttpRequest, parser: SchemaParser, schema: RegisteredSchema) -> dict[str, Any]:
    """Return a version of a subject as it stands in responses."""
    body = body_json(request, parser, schema)
    head = {"subject": schema.subject, "version": schema.version, "id": schema.schema_id}
    return head | body | _newer_parts(request, schema)


def body_json(request: HttpRequest, parser: SchemaParser, schema: RegisteredSchema) -> dict[str, Any]:
    """Return the content of a schema as it stands in responses."""
    content = replace(schema.content, text=schema_text(request, parser, schema))
    if request.query_value("referenceFormat") == "qualified":
        qualified = (replace(each, subject=within(each.subject, schema.subject)) for each in content.references)
        content = replace(content, references=tuple(qualified))
    guid = {"guid": schema.guid} if is_new_client(request) else {}
    return guid | content_json(content)


def _newer_parts(request: HttpRequest, schema: RegisteredSchema) -> dict[str, Any]:
    if not is_new_client(request):
        return {}
    parts: Mapping[str, Any] = {"ts": schema.timestamp_ms, "deleted": schema.is_deleted or None}
    return {name: part for name, part in parts.items() if part is not None}


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {repeated!r:.60} comes twice")
    return found


def _refuse_lone_surrogates(fields: dict[str, Any]) -> None:
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        text = "The body has half of a surrogate pair, which is no character."
        raise errors.RegistryError(errors.UNPROCESSABLE, text) from error
