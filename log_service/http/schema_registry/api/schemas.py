"""Endpoints of schemas by id and by guid."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from itertools import chain
from typing import Any

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.bodies import (
    body_json,
    content_type_for,
    flag,
    is_new_client,
    json_response,
    page,
    schema_json,
    shown_text,
    text_response,
    whole_number,
)
from log_service.http.schema_registry.api.lists import TURN_SCHEMAS, Pacer, array_pieces, page_of
from log_service.http.schema_registry.api.names import asked_subject, has_prefix, readable_subjects
from log_service.http.schema_registry.authorization import Right, may, unreadable_schema
from log_service.http.schema_registry.decisions.lookup import find_guid, find_id
from log_service.http.schema_registry.languages.known import LANGUAGES
from log_service.http.schema_registry.records import compact_json
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.subjects import context_of
from log_service.http.schema_registry.values import RegisteredSchema
from log_service.http.server.values import HttpRequest, HttpResponse

Aliases = Mapping[str, list[str]]
"""Aliases by their subjects."""
MAX_SCHEMAS = 1_000
"""Schemas in one page of ``GET /schemas``."""


class SchemaEndpoints:
    """Finds schemas by id and guid, and lists them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state
        self._parser = registry.parser

    async def list_schemas(self, request: HttpRequest) -> HttpResponse:
        """List the versions of the subjects whose name begins with ``subjectPrefix`` of the query.

        With ``aliases`` in the query, subjects with such an alias are listed, too. The response is
        sent piece by piece.
        """
        aliases = await self._readable_aliases(request) if flag(request, "aliases") else {}
        found = await page_of(request, self._wanted_schemas(request, aliases), MAX_SCHEMAS)
        pieces = array_pieces(self._shown_schemas(request, found, aliases))
        return HttpResponse(body=pieces, content_type=content_type_for(request))

    async def _readable_aliases(self, request: HttpRequest) -> dict[str, list[str]]:
        """Return the aliases that begin with ``subjectPrefix``, by subject.

        Subjects that the principal may not read are left out.
        """
        found: dict[str, list[str]] = {}
        pacer = Pacer()
        for subject in self._state.aliased_subjects:
            await pacer.step()
            aliases = [
                each for each in self._state.aliases_of(subject) if has_prefix(request, each)
            ]
            if aliases and may(self._registry.access, request, Right.READ, subject):
                found[subject] = aliases
        return found

    async def _subjects(self, request: HttpRequest, aliases: Aliases) -> AsyncGenerator[str, None]:
        """Yield the readable subjects with ``subjectPrefix`` and those in ``aliases``, in order."""
        async with aclosing(readable_subjects(request, self._registry)) as names:
            if not aliases:
                async for name in names:
                    yield name
                return
            found = {*aliases, *[name async for name in names]}
        for name in sorted(found):
            yield name

    async def _wanted_schemas(
        self, request: HttpRequest, aliases: Aliases
    ) -> AsyncGenerator[RegisteredSchema, None]:
        is_deleted = None if flag(request, "deleted") else False
        is_latest, rule_type = flag(request, "latestOnly"), request.query_value("ruleType")
        pacer = Pacer()
        async with aclosing(self._subjects(request, aliases)) as names:
            async for name in names:
                versions = self._state.versions(name, is_deleted=is_deleted)
                for each in versions[-1:] if is_latest else versions:
                    await pacer.step()
                    if not rule_type or _has_rule(each, rule_type):
                        yield each

    async def _shown_schemas(
        self, request: HttpRequest, found: list[RegisteredSchema], aliases: Aliases
    ) -> AsyncGenerator[bytes, None]:
        """Yield the JSON of schemas.

        A schema that cannot be shown in the requested format is shown as it is stored.
        """
        as_stored = replace(
            request, query=tuple(pair for pair in request.query if pair[0] != "format")
        )
        pacer = Pacer(TURN_SCHEMAS)
        for each in found:
            await pacer.step()
            try:
                shown = await schema_json(request, self._registry, each)
            except errors.RegistryError:
                shown = await schema_json(as_stored, self._registry, each)
            if each.subject in aliases:
                shown["aliases"] = aliases[each.subject]
            yield compact_json(shown, "replace")

    async def list_types(self, request: HttpRequest) -> HttpResponse:
        """Return the schema types."""
        return json_response(request, [each.value for each in LANGUAGES])

    async def get_by_id(self, request: HttpRequest) -> HttpResponse:
        """Return the schema with an id, and the subject and number of one version that has it.

        confluent-kafka for Python caches that version, and needs the id in the response.
        """
        found = await self._first_by_id(request)
        shown = schema_json if is_new_client(request) else body_json
        body = await shown(request, self._registry, found)
        if flag(request, "fetchMaxId"):
            body["maxId"] = self._state.highest_ids.get(context_of(found.subject), 0)
        return json_response(request, body)

    async def get_text_by_id(self, request: HttpRequest) -> HttpResponse:
        """Return only the text of the schema with an id."""
        found = await self._first_by_id(request)
        return text_response(request, await shown_text(request, self._registry, found))

    async def list_subjects(self, request: HttpRequest) -> HttpResponse:
        """Return the subjects that have a version with an id."""
        names = sorted({each.subject for each in await self._shown_users(request)})
        return json_response(request, page(request, names))

    async def list_versions(self, request: HttpRequest) -> HttpResponse:
        """Return the versions that have an id, each as its subject and number."""
        users = sorted(
            await self._shown_users(request), key=lambda each: (each.subject, each.version)
        )
        found: list[dict[str, Any]] = [
            {"subject": each.subject, "version": each.version} for each in users
        ]
        return json_response(request, page(request, found))

    async def get_by_guid(self, request: HttpRequest) -> HttpResponse:
        """Return the schema with a guid."""
        found = (await self._readable_of_guid(request))[0]
        return json_response(request, await body_json(request, self._registry, found))

    async def list_ids_of_guid(self, request: HttpRequest) -> HttpResponse:
        """Return the contexts that know a guid, each with the schema's id there."""
        found = await self._readable_of_guid(request)
        ids = [{"context": context_of(each.subject), "id": each.schema_id} for each in found]
        return json_response(request, ids)

    async def _first_by_id(self, request: HttpRequest) -> RegisteredSchema:
        """Return a readable version that has an id, preferably of the subject in the query.

        Raises:
            RegistryError: no version has the id, or the principal may not read any that has it.
        """
        context, schema_id, subject = self._asked_id(request)
        first = (
            self._state.first_user_of_id(context, schema_id)
            if subject is None
            else self._state.user_of_id(context, schema_id, subject)
        )
        if first is not None and may(self._registry.access, request, Right.READ, first.subject):
            return first
        async with aclosing(self._readable_users(request, context, schema_id, subject)) as users:
            async for each in users:
                return each
        raise unreadable_schema(request, str(schema_id))

    async def _shown_users(self, request: HttpRequest) -> list[RegisteredSchema]:
        """Return the readable versions that have an id, without deleted ones by default.

        Raises:
            RegistryError: the principal may not read any of them.
        """
        context, schema_id, _ = self._asked_id(request)
        found = [each async for each in self._readable_users(request, context, schema_id)]
        if not found:
            raise unreadable_schema(request, str(schema_id))
        is_all = flag(request, "deleted")
        return [each for each in found if is_all or not each.is_deleted]

    async def _readable_of_guid(self, request: HttpRequest) -> list[RegisteredSchema]:
        """Return a readable version with a guid from each context that has one.

        Raises:
            RegistryError: the principal may not read any.
        """
        guid = request.path_values["guid"]
        found: list[RegisteredSchema] = []
        for context, schema_id in find_guid(self._state, guid):
            async with aclosing(self._readable_users(request, context, schema_id)) as users:
                async for each in users:
                    found.append(each)
                    break
        if not found:
            raise unreadable_schema(request, guid)
        return found

    def _asked_id(self, request: HttpRequest) -> tuple[str, int, str | None]:
        schema_id = whole_number(request.path_values["id"])
        context, subject = find_id(self._state, schema_id, asked_subject(request, self._state))
        return context, schema_id, subject

    async def _readable_users(
        self, request: HttpRequest, context: str, schema_id: int, first: str | None = None
    ) -> AsyncGenerator[RegisteredSchema, None]:
        """Yield the versions that have an id and that the principal may read.

        The version of the subject ``first`` comes first.
        """
        pacer = Pacer()
        names: Iterator[str] = iter(self._state.subjects_of_id(context, schema_id))
        for name in names if first is None else chain([first], names):
            await pacer.step()
            found = self._state.user_of_id(context, schema_id, name)
            if found is not None and may(self._registry.access, request, Right.READ, name):
                yield found


def _has_rule(schema: RegisteredSchema, rule_type: str) -> bool:
    rules = schema.content.rule_set
    if rules is None:
        return False
    everything = [*rules.migration_rules, *rules.domain_rules, *rules.encoding_rules]
    return any(rule.type == rule_type for rule in everything)
