"""The table of all routes of the registry.

Every route also exists below ``/contexts/{context}``, which clients may have in their URL.
"""

from functools import partial

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.about import AboutEndpoints
from log_service.http.schema_registry.api.bodies import (
    CONTENT_TYPES,
    error_response,
    require_acceptable,
)
from log_service.http.schema_registry.api.compatibility import CompatibilityEndpoints
from log_service.http.schema_registry.api.json_bodies import MAX_BODY_BYTES, require_json
from log_service.http.schema_registry.api.names import addressed, scope_of_request, subject_of
from log_service.http.schema_registry.api.schemas import SchemaEndpoints
from log_service.http.schema_registry.api.scopes import ScopeEndpoints
from log_service.http.schema_registry.api.subjects import SubjectEndpoints
from log_service.http.schema_registry.authorization import Right, require, with_caller
from log_service.http.schema_registry.metrics import families
from log_service.http.schema_registry.records import compact_json
from log_service.http.schema_registry.registry import Registry
from log_service.http.server.health import health_routes
from log_service.http.server.metrics import HttpMeter, metrics_route
from log_service.http.server.routes import Route, Router
from log_service.http.server.service import Authenticate, HttpService
from log_service.http.server.values import Handler, HttpError, HttpRequest, HttpResponse

Row = tuple[str, str, Handler, Right]
IN_CONTEXT = "/contexts/{context}"
OF_SETTINGS = frozenset({Right.READ_SETTINGS, Right.CHANGE_SETTINGS})


def registry_service(
    registry: Registry, authenticate: Authenticate | None, meter: HttpMeter
) -> HttpService:
    """Return the registry as a service of an HTTP server, with its health and its metrics."""
    extra = [
        *health_routes(registry.obstacle),
        metrics_route(partial(families, registry, meter), is_public=False),
    ]
    return HttpService(
        router=Router([*registry_routes(registry), *extra]),
        authenticate=authenticate,
        error_response=_http_error,
        note_response=meter.note,
    )


def registry_routes(registry: Registry) -> list[Route]:
    """Return all routes. Changes go to the instance that writes."""
    about, subjects = AboutEndpoints(registry), SubjectEndpoints(registry)
    schemas, scopes = SchemaEndpoints(registry), ScopeEndpoints(registry)
    compatibility = CompatibilityEndpoints(registry)
    everywhere: list[Row] = [
        ("GET", "/", about.root, Right.NOTHING),
        ("POST", "/", about.root, Right.NOTHING),
        ("GET", "/v1/metadata/id", about.cluster_id, Right.NOTHING),
        ("GET", "/v1/metadata/version", about.version, Right.NOTHING),
        ("GET", "/v1/metadata/deployment", about.deployment, Right.NOTHING),
        ("GET", "/associations/resources/{namespace}/{resource}", about.association, Right.NOTHING),
        ("GET", "/contexts", scopes.list_contexts, Right.NOTHING),
        ("GET", "/subjects", subjects.list_subjects, Right.NOTHING),
        ("POST", "/subjects/{subject}", subjects.look_up, Right.READ),
        ("DELETE", "/subjects/{subject}", subjects.delete_subject, Right.DELETE),
        ("GET", "/subjects/{subject}/metadata", subjects.find_by_metadata, Right.READ),
        ("GET", "/subjects/{subject}/versions", subjects.list_versions, Right.READ),
        ("POST", "/subjects/{subject}/versions", subjects.register, Right.REGISTER),
        ("GET", "/subjects/{subject}/versions/{version}", subjects.get_version, Right.READ),
        ("DELETE", "/subjects/{subject}/versions/{version}", subjects.delete_version, Right.DELETE),
        ("GET", "/subjects/{subject}/versions/{version}/schema", subjects.get_text, Right.READ),
        (
            "GET",
            "/subjects/{subject}/versions/{version}/referencedby",
            subjects.list_referrers,
            Right.READ,
        ),
        ("POST", "/subjects/{subject}/versions/{version}/tags", subjects.relabel, Right.REGISTER),
        ("GET", "/schemas", schemas.list_schemas, Right.NOTHING),
        ("GET", "/schemas/types", schemas.list_types, Right.NOTHING),
        ("GET", "/schemas/ids/{id}", schemas.get_by_id, Right.NOTHING),
        ("GET", "/schemas/ids/{id}/schema", schemas.get_text_by_id, Right.NOTHING),
        ("GET", "/schemas/ids/{id}/subjects", schemas.list_subjects, Right.NOTHING),
        ("GET", "/schemas/ids/{id}/versions", schemas.list_versions, Right.NOTHING),
        ("GET", "/schemas/guids/{guid}", schemas.get_by_guid, Right.NOTHING),
        ("GET", "/schemas/guids/{guid}/ids", schemas.list_ids_of_guid, Right.NOTHING),
        ("POST", "/compatibility/subjects/{subject}/versions", compatibility.check_all, Right.READ),
        (
            "POST",
            "/compatibility/subjects/{subject}/versions/{version}",
            compatibility.check_version,
            Right.READ,
        ),
        ("GET", "/config", scopes.get_settings, Right.READ_SETTINGS),
        ("PUT", "/config", scopes.put_settings, Right.CHANGE_SETTINGS),
        ("DELETE", "/config", scopes.delete_settings, Right.CHANGE_SETTINGS),
        ("GET", "/config/{subject}", scopes.get_settings, Right.READ_SETTINGS),
        ("PUT", "/config/{subject}", scopes.put_settings, Right.CHANGE_SETTINGS),
        ("DELETE", "/config/{subject}", scopes.delete_settings, Right.CHANGE_SETTINGS),
        ("GET", "/mode", scopes.get_mode, Right.READ_SETTINGS),
        ("PUT", "/mode", scopes.put_mode, Right.CHANGE_SETTINGS),
        ("DELETE", "/mode", scopes.delete_mode, Right.CHANGE_SETTINGS),
        ("GET", "/mode/{subject}", scopes.get_mode, Right.READ_SETTINGS),
        ("PUT", "/mode/{subject}", scopes.put_mode, Right.CHANGE_SETTINGS),
        ("DELETE", "/mode/{subject}", scopes.delete_mode, Right.CHANGE_SETTINGS),
    ]
    once: list[Row] = [
        ("DELETE", "/contexts/{context}", scopes.delete_context, Right.CHANGE_SETTINGS)
    ]
    inside = [
        (method, IN_CONTEXT + path, handler, right) for method, path, handler, right in everywhere
    ]
    return [_route(registry, row) for row in [*once, *everywhere, *inside]]


def _route(registry: Registry, row: Row) -> Route:
    method, path, handler, right = row
    return Route(
        method=method,
        path=path,
        handler=_guarded(registry, handler, right, is_change=method in {"PUT", "DELETE"}),
        max_body_bytes=MAX_BODY_BYTES,
    )


def _guarded(registry: Registry, handler: Handler, right: Right, *, is_change: bool) -> Handler:
    """Return a handler that turns refusals into responses, and forwards changes to the writer.

    ``need`` is the right that the principal needs. Changes go to the instance that writes. A
    registration is forwarded by its own handler, which first looks for the schema here.
    """

    async def guarded(request: HttpRequest) -> HttpResponse:
        try:
            require_acceptable(request)
            require_json(request)
            await registry.require_loaded()
            caller = with_caller(registry.access, request)
            whole = addressed(caller, registry.state, is_alias_followed=right not in OF_SETTINGS)
            if right is not Right.NOTHING:
                subject = scope_of_request(whole) if right in OF_SETTINGS else subject_of(whole)
                require(registry.access, whole, right, subject)
            response = await registry.forwarded(whole) if is_change else None
            return await handler(whole) if response is None else response
        except errors.RegistryError as error:
            return error_response(request, error)

    return guarded


def _http_error(error: HttpError) -> HttpResponse:
    """Return the response to an error before any handler runs, such as an unknown path."""
    body = compact_json({"error_code": error.status, "message": error.text}, "replace")
    content_type = CONTENT_TYPES[0]
    return HttpResponse(
        status=error.status, body=body, content_type=content_type, headers=error.headers
    )
