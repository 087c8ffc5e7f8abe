"""Endpoints of subjects and their versions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.bodies import (
    flag,
    is_new_client,
    json_response,
    page,
    schema_json,
    shown_text,
    text_response,
)
from log_service.http.schema_registry.api.json_bodies import read_object, unprocessable
from log_service.http.schema_registry.api.lists import Pacer, page_of
from log_service.http.schema_registry.api.names import (
    readable_subjects,
    subject_of,
    valid_subject_of,
)
from log_service.http.schema_registry.api.preparation import prepare_lookup, prepare_registration
from log_service.http.schema_registry.authorization import (
    Right,
    may,
    require,
    require_references,
)
from log_service.http.schema_registry.decisions.deletion import delete_subject, delete_version
from log_service.http.schema_registry.decisions.lookup import (
    find_content,
    find_exact,
    find_metadata,
    find_version,
    read_version,
)
from log_service.http.schema_registry.decisions.registration import Registration, register
from log_service.http.schema_registry.decisions.relabelling import Relabelling, relabel, relabelled
from log_service.http.schema_registry.decisions.tagging import (
    TagChanges,
    read_tag_changes,
    tagged,
)
from log_service.http.schema_registry.entities import (
    BadFieldError,
    content_json,
    read_content,
    read_metadata,
    read_names,
    read_optional,
    read_rule_set,
)
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.rule_checks import check_rule_set
from log_service.http.schema_registry.values import (
    NEW_SCHEMA_ID,
    NEW_VERSION,
    NEXT_VERSION,
    RegisteredSchema,
    SchemaContent,
)
from log_service.http.server.values import HttpRequest, HttpResponse

CONTENT_FIELDS = ("schema", "schemaType", "references", "metadata", "ruleSet")
LABEL_FIELDS = (
    "newVersion",
    "metadata",
    "ruleSet",
    "rulesToMerge",
    "rulesToRemove",
    "tagsToAdd",
    "tagsToRemove",
)
REQUEST_FIELDS = (
    *CONTENT_FIELDS,
    "id",
    "version",
    "subject",
    "guid",
    "ts",
    "deleted",
    "schemaTagsToAdd",
    "schemaTagsToRemove",
    "propagateSchemaTags",
)


class SubjectEndpoints:
    """Lists, looks up, registers and deletes versions of subjects."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state
        self._parser = registry.parser

    async def list_subjects(self, request: HttpRequest) -> HttpResponse:
        """Return the names of subjects."""
        return json_response(request, await page_of(request, self._wanted_subjects(request)))

    async def _wanted_subjects(self, request: HttpRequest) -> AsyncGenerator[str, None]:
        is_only, is_all = flag(request, "deletedOnly"), flag(request, "deleted")
        async with aclosing(readable_subjects(request, self._registry)) as names:
            async for each in names:
                is_live = self._state.is_live(each)
                if (not is_live) if is_only else (is_all or is_live):
                    yield each

    async def look_up(self, request: HttpRequest) -> HttpResponse:
        """Return the version that has the schema of the body."""
        subject = valid_subject_of(request)
        content, _ = await read_schema(request, self._registry, subject)
        is_normalized = flag(request, "normalize")
        found = await self._found(
            subject,
            content,
            is_normalized=is_normalized,
            is_deleted_included=flag(request, "deleted"),
        )
        return json_response(request, await schema_json(request, self._registry, found))

    async def _found(
        self,
        subject: str,
        content: SchemaContent,
        *,
        is_normalized: bool,
        is_deleted_included: bool = False,
    ) -> RegisteredSchema:
        """Return the version of a subject that has a content.

        A text that is equal to the stored one is found without a worker thread.
        """
        is_plain = not is_normalized and not self._state.settings(subject).normalize
        exact = find_exact(self._state, subject, content) if is_plain else None
        if exact is not None:
            return exact
        await prepare_lookup(self._registry, subject, content)
        find = partial(find_content, self._state, self._parser, subject, content)
        return await self._registry.think(
            partial(find, is_normalized=is_normalized, is_deleted_included=is_deleted_included)
        )

    async def find_by_metadata(self, request: HttpRequest) -> HttpResponse:
        """Return the newest version whose metadata has all pairs of key and value."""
        subject = subject_of(request)
        keys = [value for name, value in request.query if name == "key"]
        values = [value for name, value in request.query if name == "value"]
        wanted = dict(zip(keys, values, strict=False))
        found = find_metadata(
            self._state, subject, wanted, is_deleted_included=flag(request, "deleted")
        )
        return json_response(request, await schema_json(request, self._registry, found))

    async def delete_subject(self, request: HttpRequest) -> HttpResponse:
        """Delete all versions of a subject, and return their numbers."""
        subject = subject_of(request)
        versions = await self._registry.write(
            lambda: delete_subject(self._state, subject, is_permanent=flag(request, "permanent"))
        )
        return json_response(request, versions)

    async def list_versions(self, request: HttpRequest) -> HttpResponse:
        """Return the numbers of a subject's versions."""
        subject = subject_of(request)
        is_negative = flag(request, "deletedAsNegative")
        is_all = flag(request, "deleted") or flag(request, "deletedOnly") or is_negative
        if not self._state.versions(subject, is_deleted=None if is_all else False):
            raise errors.subject_not_found(subject)
        wanted = True if flag(request, "deletedOnly") else None if is_all else False
        versions = self._state.versions(subject, is_deleted=wanted)
        numbers = [
            -each.version if is_negative and each.is_deleted else each.version for each in versions
        ]
        return json_response(request, page(request, numbers))

    async def get_version(self, request: HttpRequest) -> HttpResponse:
        """Return one version of a subject."""
        return json_response(
            request, await schema_json(request, self._registry, self._version(request))
        )

    async def get_text(self, request: HttpRequest) -> HttpResponse:
        """Return only the text of one version."""
        return text_response(
            request, await shown_text(request, self._registry, self._version(request))
        )

    async def list_referrers(self, request: HttpRequest) -> HttpResponse:
        """Return the ids of the schemas that refer to a version."""
        version = read_version(request.path_values["version"])
        subject = subject_of(request)
        found = find_version(self._state, subject, version, is_deleted_included=True)
        ids: set[int] = set()
        pacer = Pacer()
        referrers = self._state.referrers(found.subject, found.version)
        if flag(request, "deleted"):
            referrers += self._state.referrers(found.subject, found.version, is_deleted=True)
        for name, number in referrers:
            await pacer.step()
            referrer = self._state.version(name, number)
            if referrer is not None and may(self._registry.access, request, Right.READ, name):
                ids.add(referrer.schema_id)
        return json_response(request, page(request, sorted(ids)))

    async def delete_version(self, request: HttpRequest) -> HttpResponse:
        """Delete one version, and return its number."""
        version = read_version(request.path_values["version"])
        subject = subject_of(request)
        deleted = await self._registry.write(
            lambda: delete_version(
                self._state, subject, version, is_permanent=flag(request, "permanent")
            )
        )
        return json_response(request, deleted)

    async def register(self, request: HttpRequest) -> HttpResponse:
        """Register the schema of the body, and return its id."""
        subject = valid_subject_of(request)
        content, fields = await read_schema(request, self._registry, subject)
        version, tags = _whole(fields, "version", NEW_VERSION), _registered_tags(fields)
        if tags:
            change = partial(tagged, self._parser, subject, content, tags)
            content = await self._registry.think(change)
            version = version or NEXT_VERSION
        wanted = Registration(
            subject=subject,
            content=content,
            schema_id=_whole(fields, "id", NEW_SCHEMA_ID),
            version=version,
            is_normalized=flag(request, "normalize"),
            is_forced=flag(request, "force"),
        )
        if wanted.is_forced:
            require(self._registry.access, request, Right.CHANGE_SETTINGS, subject)
        found = await self._registered_before(wanted)
        if found is None:
            response = await self._registry.forwarded(request)
            if response is not None:
                return response
            await prepare_registration(self._registry, wanted)
            found = await self._registry.write(partial(register, self._state, self._parser, wanted))
        return json_response(request, await self._registration_json(request, found, content))

    async def relabel(self, request: HttpRequest) -> HttpResponse:
        """Register a version again, with the metadata, the rules and the tags of the body."""
        subject = valid_subject_of(request)
        fields = await read_object(request, LABEL_FIELDS, self._registry.workers)
        wanted = _read_relabelling(fields, subject, read_version(request.path_values["version"]))
        response = await self._registry.forwarded(request)
        if response is not None:
            return response
        prepare = partial(relabelled, self._state, self._parser, wanted)
        await prepare_registration(self._registry, await self._registry.think(prepare))
        found = await self._registry.write(partial(relabel, self._state, self._parser, wanted))
        return json_response(
            request, await self._registration_json(request, found, SchemaContent(text=""))
        )

    async def _registered_before(self, wanted: Registration) -> RegisteredSchema | None:
        """Return the existing version with the content, or None if a version must be written."""
        settings = self._state.settings(wanted.subject)
        is_completed = wanted.version == NEXT_VERSION or settings.has_defaults_or_overrides
        if is_completed or not self._state.is_live(wanted.subject):
            return None
        try:
            found = await self._found(
                wanted.subject, wanted.content, is_normalized=wanted.is_normalized
            )
        except errors.RegistryError as error:
            if error.code == errors.BUSY:
                raise
            return None
        is_it = (
            found.subject == wanted.subject
            and wanted.schema_id in {NEW_SCHEMA_ID, found.schema_id}
            and wanted.version in {NEW_VERSION, found.version}
        )
        return found if is_it else None

    async def _registration_json(
        self, request: HttpRequest, found: RegisteredSchema, sent: SchemaContent
    ) -> dict[str, Any]:
        """Return the response to a registration.

        It has the schema only if the registry added metadata, rules or the text, or if the client
        wants a format. In other cases the stored text may differ from the client's, and clients
        would mistake it for their own schema.
        """
        if not is_new_client(request):
            return {"id": found.schema_id}
        head = {"id": found.schema_id, "version": found.version, "guid": found.guid}
        kept = (sent.metadata, sent.rule_set) == (found.content.metadata, found.content.rule_set)
        if kept and sent.text.strip() and not request.query_value("format"):
            return head
        return (
            head
            | content_json(found.content)
            | {"schema": await shown_text(request, self._registry, found)}
        )

    def _version(self, request: HttpRequest) -> RegisteredSchema:
        return find_version(
            self._state,
            subject_of(request),
            read_version(request.path_values["version"]),
            is_deleted_included=flag(request, "deleted"),
        )


async def read_schema(
    request: HttpRequest, registry: Registry, subject: str
) -> tuple[SchemaContent, dict[str, Any]]:
    """Return the schema of a body, and all its fields.

    Raises:
        RegistryError: a field is unknown or of the wrong type, a rule is invalid, or a reference
            leads to a subject that the principal may not read.
    """
    fields = await read_object(request, REQUEST_FIELDS, registry.workers)
    try:
        content = read_content(fields)
    except BadFieldError as error:
        if str(error).startswith("Invalid schema type"):
            raise errors.RegistryError(errors.INVALID_SCHEMA, str(error)) from error
        raise unprocessable(error) from error
    check_rule_set(content.rule_set)
    require_references(registry.access, request, content.references, subject)
    return content, fields


def _read_relabelling(fields: dict[str, Any], subject: str, version: int) -> Relabelling:
    try:
        wanted = Relabelling(
            subject=subject,
            version=version,
            new_version=_whole(fields, "newVersion", NEW_VERSION) or None,
            metadata=read_optional(fields, "metadata", read_metadata),
            rule_set=read_optional(fields, "ruleSet", read_rule_set),
            rules_to_merge=read_optional(fields, "rulesToMerge", read_rule_set),
            rules_to_remove=read_names(fields, "rulesToRemove"),
            tags=read_tag_changes(fields, "tagsToAdd", "tagsToRemove"),
        )
    except BadFieldError as error:
        raise unprocessable(error) from error
    check_rule_set(wanted.rule_set)
    check_rule_set(wanted.rules_to_merge)
    return wanted


def _registered_tags(fields: dict[str, Any]) -> TagChanges:
    try:
        return read_tag_changes(fields, "schemaTagsToAdd", "schemaTagsToRemove")
    except BadFieldError as error:
        raise unprocessable(error) from error


def _whole(fields: dict[str, Any], name: str, default: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < 2**31:
        raise errors.RegistryError(errors.UNPROCESSABLE, f"{name} has to be a number of 32 bits.")
    return value
