"""Endpoints that compare a schema with versions of a subject, without registering it."""

from collections.abc import Sequence
from functools import partial

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.bodies import flag, json_response
from log_service.http.schema_registry.api.names import valid_subject_of
from log_service.http.schema_registry.api.preparation import first_incompatibility
from log_service.http.schema_registry.api.subjects import read_schema
from log_service.http.schema_registry.decisions.lookup import canonical, read_version, version_of
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.values import LATEST_VERSION, RegisteredSchema, SchemaContent
from log_service.http.server.values import HttpRequest, HttpResponse


class CompatibilityEndpoints:
    """Compares a schema with one version of a subject, or with those that its level names.

    The level is the compatibility level of the subject.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state
        self._parser = registry.parser

    async def check_version(self, request: HttpRequest) -> HttpResponse:
        """Compare the schema of the body with one version."""
        subject = valid_subject_of(request)
        version = read_version(request.path_values["version"])
        found = version_of(self._state, subject, version, is_deleted_included=False)
        if found is None and version != LATEST_VERSION:
            raise errors.version_not_found(version)
        return await self._check(request, subject, [] if found is None else [found])

    async def check_all(self, request: HttpRequest) -> HttpResponse:
        """Compare the schema of the body with all versions that the compatibility level names."""
        subject = valid_subject_of(request)
        return await self._check(request, subject, self._state.versions(subject))

    async def _check(
        self, request: HttpRequest, subject: str, earlier: Sequence[RegisteredSchema]
    ) -> HttpResponse:
        content, _ = await read_schema(request, self._registry, subject)
        is_verbose = flag(request, "verbose")
        try:
            found = await self._incompatibilities(request, subject, content, earlier)
        except errors.RegistryError as error:
            if not is_verbose or error.code != errors.INVALID_SCHEMA:
                raise
            found = [error.text]
        answer: dict[str, object] = {"is_compatible": not found}
        return json_response(request, answer | ({"messages": found} if is_verbose else {}))

    async def _incompatibilities(
        self,
        request: HttpRequest,
        subject: str,
        content: SchemaContent,
        earlier: Sequence[RegisteredSchema],
    ) -> list[str]:
        normalize = flag(request, "normalize")
        examine = partial(
            canonical,
            self._parser,
            subject,
            content,
            is_new=True,
            is_normalized=normalize,
            is_validated=self._state.settings(subject).is_validating_new_schemas,
        )
        wanted = await self._registry.think(examine)
        return await first_incompatibility(self._registry, subject, wanted, earlier)
