"""Endpoints of schemas by id and by guid."""

from typing import Any

from log_service.http.schema_registry.api.bodies import (
    body_json,
    flag,
    is_new_client,
    json_response,
    page,
    schema_json,
    schema_text,
    text_response,
    whole_number,
)
from log_service.http.schema_registry.api.names import (
    asked_subject,
    has_prefix,
    readable_subjects,
)
from log_service.http.schema_registry.authorization import Need, may, require
from log_service.http.schema_registry.decisions.lookup import find_guid, find_users_of_id
from log_service.http.schema_registry.languages.known import LANGUAGES
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.subjects import context_of
from log_service.http.schema_registry.values import RegisteredSchema
from log_service.http.server.values import HttpRequest, HttpResponse

MAX_SCHEMAS = 1_000
"""Schemas in one page of ``GET /schemas``."""


class SchemaEndpoints:
    """Finds schemas by id and guid, and lists them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state
        self._parser = registry.parser

    async def list_schemas(self, request: HttpRequest) -> HttpResponse:
        """Return versions of the subjects with a prefix, and of those with such an alias."""
        is_deleted = None if flag(request, "deleted") else False
        aliases = self._readable_aliases(request) if flag(request, "aliases") else {}
        found: list[RegisteredSchema] = []
        for subject in sorted({*readable_subjects(request, self._registry), *aliases}):
            versions = self._state.versions(subject, is_deleted=is_deleted)
            found += versions[-1:] if flag(request, "latestOnly") else versions
        rule_type = request.query_value("ruleType")
        if rule_type:
            found = [each for each in found if _has_rule(each, rule_type)]
        shown = page(request, found, MAX_SCHEMAS)
        bodies = [
            schema_json(request, self._parser, each) | ({"aliases": aliases[each.subject]} if each.subject in aliases else {})
            for each in shown
        ]
        return json_response(request, bodies)

    def _readable_aliases(self, request: HttpRequest) -> dict[str, list[str]]:
        """Return the aliases with the prefix, by the subjects that the principal may read."""
        found = {
            subject: [each for each in aliases if has_prefix(request, each)]
            for subject, aliases in self._state.aliases().items()
            if may(self._registry.access, request, Need.READ, subject)
        }
        return {subject: aliases for subject, aliases in found.items() if aliases}

    async def list_types(self, request: HttpRequest) -> HttpResponse:
        """Return the schema types."""
        return json_response(request, [each.value for each in LANGUAGES])

    async def get_by_id(self, request: HttpRequest) -> HttpResponse:
        """Return the schema of an id, and one version that has it.

        confluent-kafka for Python keeps that version for later, and needs its id in it.
        """
        found = self._by_id(request)[0]
        shown = schema_json if is_new_client(request) else body_json
        body = shown(request, self._parser, found)
        if flag(request, "fetchMaxId"):
            body["maxId"] = self._state.highest_ids.get(context_of(found.subject), 0)
        return json_response(request, body)

    async def get_text_by_id(self, request: HttpRequest) -> HttpResponse:
        """Return the text of an id alone."""
        return text_response(request, schema_text(request, self._parser, self._by_id(request)[0]))

    async def list_subjects(self, request: HttpRequest) -> HttpResponse:
        """Return the subjects that have an id."""
        names = sorted({each.subject for each in self._shown_users(request)})
        return json_response(request, page(request, names))

    async def list_versions(self, request: HttpRequest) -> HttpResponse:
        """Return the subjects and versions that have an id."""
        users = sorted(self._shown_users(request), key=lambda each: (each.subject, each.version))
        found: list[dict[str, Any]] = [{"subject": each.subject, "version": each.version} for each in users]
        return json_response(request, page(request, found))

    async def get_by_guid(self, request: HttpRequest) -> HttpResponse:
        """Return the schema of a guid."""
        context, schema_id = find_guid(self._state, request.path_values["guid"])[0]
        found = self._readable(request, self._state.users_of_id(context, schema_id))[0]
        return json_response(request, body_json(request, self._parser, found))

    async def list_ids_of_guid(self, request: HttpRequest) -> HttpResponse:
        """Return the contexts and ids of a guid."""
        found = find_guid(self._state, request.path_values["guid"])
        ids = [{"context": context, "id": schema_id} for context, schema_id in found]
        return json_response(request, ids)

    def _by_id(self, request: HttpRequest) -> list[RegisteredSchema]:
        schema_id = whole_number(request.path_values["id"])
        users = find_users_of_id(self._state, schema_id, asked_subject(request, self._state))
        return self._readable(request, users)

    def _readable(self, request: HttpRequest, users: list[RegisteredSchema]) -> list[RegisteredSchema]:
        """Return the versions that the principal may read.

        Raises:
            RegistryError: it may read none of them.
        """
        access = self._registry.access
        found = [each for each in users if may(access, request, Need.READ, each.subject)]
        if not found:
            require(access, request, Need.READ, users[0].subject)
        return found

    def _shown_users(self, request: HttpRequest) -> list[RegisteredSchema]:
        is_all = flag(request, "deleted")
        return [each for each in self._by_id(request) if is_all or not each.is_deleted]


def _has_rule(schema: RegisteredSchema, rule_type: str) -> bool:
    rules = schema.content.rule_set
    if rules is None:
        return False
    everything = [*rules.migration_rules, *rules.domain_rules, *rules.encoding_rules]
    return any(rule.type == rule_type for rule in everything)
