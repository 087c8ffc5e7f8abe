"""The table of all routes of the registry.

Every route also exists below ``/contexts/{context}``.
"""

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.about import AboutEndpoints
from log_service.http.schema_registry.api.bodies import MAX_BODY_BYTES, error_response
from log_service.http.schema_registry.api.compatibility import CompatibilityEndpoints
from log_service.http.schema_registry.api.schemas import SchemaEndpoints
from log_service.http.schema_registry.api.scopes import ScopeEndpoints
from log_service.http.schema_registry.api.subjects import SubjectEndpoints
from log_service.http.schema_registry.registry import Registry
from log_service.http.server.routing import Route
from log_service.http.server.values import Handler, HttpRequest, HttpResponse


def registry_routes(registry: Registry) -> list[Route]:
    """Return all routes. Changes go to the instance that writes."""
    about, subjects = AboutEndpoints(registry), SubjectEndpoints(registry)
    schemas, scopes = SchemaEndpoints(registry), ScopeEndpoints(registry)
    compatibility = CompatibilityEndpoints(registry)
    everywhere: list[tuple[str, str, Handler]] = [
        ("GET", "/subjects", subjects.list_subjects),
        ("POST", "/subjects/{subject}", subjects.look_up),
        ("DELETE", "/subjects/{subject}", subjects.delete_subject),
        ("GET", "/subjects/{subject}/metadata", subjects.find_by_metadata),
        ("GET", "/subjects/{subject}/versions", subjects.list_versions),
        ("POST", "/subjects/{subject}/versions", subjects.register),
        ("GET", "/subjects/{subject}/versions/{version}", subjects.get_version),
        ("DELETE", "/subjects/{subject}/versions/{version}", subjects.delete_version),
        ("GET", "/subjects/{subject}/versions/{version}/schema", subjects.get_text),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby", subjects.list_referrers),
        ("GET", "/schemas", schemas.list_schemas),
        ("GET", "/schemas/types", schemas.list_types),
        ("GET", "/schemas/ids/{id}", schemas.get_by_id),
        ("GET", "/schemas/ids/{id}/schema", schemas.get_text_by_id),
        ("GET", "/schemas/ids/{id}/subjects", schemas.list_subjects),
        ("GET", "/schemas/ids/{id}/versions", schemas.list_versions),
        ("GET", "/schemas/guids/{guid}", schemas.get_by_guid),
        ("GET", "/schemas/guids/{guid}/ids", schemas.list_ids_of_guid),
        ("POST", "/compatibility/subjects/{subject}/versions", compatibility.check_all),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", compatibility.check_version),
        ("GET", "/config", scopes.get_settings),
        ("PUT", "/config", scopes.put_settings),
        ("DELETE", "/config", scopes.delete_settings),
        ("GET", "/config/{subject}", scopes.get_settings),
        ("PUT", "/config/{subject}", scopes.put_settings),
        ("DELETE", "/config/{subject}", scopes.delete_settings),
        ("GET", "/mode", scopes.get_mode),
        ("PUT", "/mode", scopes.put_mode),
        ("DELETE", "/mode", scopes.delete_mode),
        ("GET", "/mode/{subject}", scopes.get_mode),
        ("PUT", "/mode/{subject}", scopes.put_mode),
        ("DELETE", "/mode/{subject}", scopes.delete_mode),
    ]
    once: list[tuple[str, str, Handler]] = [
        ("GET", "/", about.root),
        ("POST", "/", about.root),
        ("GET", "/v1/metadata/id", about.cluster_id),
        ("GET", "/v1/metadata/version", about.version),
        ("GET", "/v1/metadata/deployment", about.deployment),
        ("GET", "/associations/resources/{namespace}/{resource}", about.association),
        ("GET", "/contexts", scopes.list_contexts),
        ("DELETE", "/contexts/{context}", scopes.delete_context),
    ]
    inside = [(method, "/contexts/{context}" + path, handler) for method, path, handler in everywhere]
    return [
        Route(
            method=method,
            path=path,
            handler=_guarded(registry, handler, is_change=method in {"PUT", "DELETE"}),
            max_body_bytes=MAX_BODY_BYTES,
        )
        for method, path, handler in [*once, *everywhere, *inside]
    ]


def _guarded(registry: Registry, handler: Handler, *, is_change: bool) -> Handler:
    """Return a handler that answers refusals, and forwards changes to the writing instance.

    A registration is forwarded by its own handler, which first looks for the schema here.
    """

    async def guarded(request: HttpRequest) -> HttpResponse:
        try:
            await registry.require_loaded()
            response = await registry.forwarded(request) if is_change else None
            return await handler(request) if response is None else response
        except errors.RegistryError as error:
            return error_response(request, error)

    return guarded
