"""Endpoints of settings, modes and contexts."""

from collections.abc import AsyncGenerator

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.bodies import flag, json_response
from log_service.http.schema_registry.api.json_bodies import read_object, unprocessable
from log_service.http.schema_registry.api.lists import Pacer, page_of
from log_service.http.schema_registry.api.names import context_scope, scope_of_request
from log_service.http.schema_registry.authorization import Right, may, require
from log_service.http.schema_registry.decisions.deletion import delete_context
from log_service.http.schema_registry.decisions.scope_changes import (
    change_mode,
    change_settings,
    remove_mode,
    remove_settings,
)
from log_service.http.schema_registry.entities import (
    SETTINGS_FIELDS,
    BadFieldError,
    read_settings,
    settings_json,
)
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.rule_checks import check_rule_set
from log_service.http.schema_registry.subjects import DEFAULT_CONTEXT, Subject, context_of
from log_service.http.schema_registry.values import POLICIES, Mode, Settings
from log_service.http.server.values import HttpRequest, HttpResponse

LEVEL_FIELD = SETTINGS_FIELDS["compatibility_level"]
REQUEST_FIELDS = (*SETTINGS_FIELDS.values(), "compatibility")
"""The fields of requests.

The level has another name in requests than in responses and records. Both names are accepted.
"""


class ScopeEndpoints:
    """Reads and changes settings and modes of subjects and contexts, and lists contexts."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._state = registry.state

    async def get_settings(self, request: HttpRequest) -> HttpResponse:
        """Return a scope's settings."""
        scope = scope_of_request(request)
        if not scope or flag(request, "defaultToGlobal"):
            return json_response(request, settings_json(self._state.settings(scope)))
        own = self._state.own_settings(scope)
        if own is None:
            raise errors.no_subject_compatibility(scope)
        return json_response(request, settings_json(own))

    async def put_settings(self, request: HttpRequest) -> HttpResponse:
        """Change a scope's settings, and return the requested ones."""
        scope = scope_of_request(request)
        wanted, unset = await self._read_settings(request)
        await self._registry.write(lambda: change_settings(self._state, scope, wanted, unset))
        shown = settings_json(wanted) | {SETTINGS_FIELDS[name]: None for name in unset}
        if LEVEL_FIELD in shown:
            shown = {"compatibility": shown.pop(LEVEL_FIELD)} | shown
        return json_response(request, shown)

    async def delete_settings(self, request: HttpRequest) -> HttpResponse:
        """Remove a scope's settings, and return those that it had."""
        scope = scope_of_request(request)
        removed = await self._registry.write(lambda: remove_settings(self._state, scope))
        return json_response(request, settings_json(removed))

    async def get_mode(self, request: HttpRequest) -> HttpResponse:
        """Return a scope's mode."""
        scope = scope_of_request(request)
        own = self._state.own_mode(scope)
        if scope and own is None and not flag(request, "defaultToGlobal"):
            raise errors.no_subject_mode(scope)
        return json_response(request, {"mode": self._state.mode(scope).value})

    async def put_mode(self, request: HttpRequest) -> HttpResponse:
        """Set a scope's mode."""
        self._require_mutable_modes()
        scope = scope_of_request(request)
        fields = await read_object(request, ("mode",), self._registry.workers)
        try:
            mode = Mode(str(fields.get("mode")).upper())
        except ValueError as error:
            raise errors.invalid_mode() from error
        if mode is Mode.FORWARD and scope:
            raise errors.not_permitted("Forward mode only set on global level")
        if mode.is_importing:
            require(self._registry.access, request, Right.CHANGE_SETTINGS, "")
        await self._registry.write(
            lambda: change_mode(self._state, scope, mode, is_forced=flag(request, "force"))
        )
        return json_response(request, {"mode": mode.value})

    async def delete_mode(self, request: HttpRequest) -> HttpResponse:
        """Remove a scope's mode, and return the mode that it had."""
        self._require_mutable_modes()
        scope = scope_of_request(request)
        removed = await self._registry.write(
            lambda: remove_mode(self._state, scope, is_recursive=flag(request, "recursive"))
        )
        return json_response(request, {"mode": removed.value})

    def _require_mutable_modes(self) -> None:
        if not self._registry.identity.is_mode_mutable:
            raise errors.not_permitted("Mode changes are not allowed")

    async def list_contexts(self, request: HttpRequest) -> HttpResponse:
        """Return the names of contexts with a subject that the principal may read."""
        return json_response(request, await page_of(request, self._shown_contexts(request)))

    async def _shown_contexts(self, request: HttpRequest) -> AsyncGenerator[str, None]:
        prefix, pacer = request.query_value("contextPrefix") or "", Pacer()
        may_read_all = may(self._registry.access, request, Right.READ, "")
        for each in self._state.contexts:
            await pacer.step()
            if not each.startswith(prefix):
                continue
            if (
                may_read_all
                or each == DEFAULT_CONTEXT
                or await self._has_readable(request, each, pacer)
            ):
                yield each

    async def _has_readable(self, request: HttpRequest, context: str, pacer: Pacer) -> bool:
        for subject in self._state.subjects_in(str(Subject(context, ""))):
            await pacer.step()
            if may(self._registry.access, request, Right.READ, subject):
                return True
        return False

    async def delete_context(self, request: HttpRequest) -> HttpResponse:
        """Remove an empty context."""
        context = context_of(context_scope(request))
        await self._registry.write(lambda: delete_context(self._state, context))
        return HttpResponse(status=204)

    async def _read_settings(self, request: HttpRequest) -> tuple[Settings, frozenset[str]]:
        """Return the settings of a body, and the names of those that it resets by null."""
        fields = await read_object(request, REQUEST_FIELDS, self._registry.workers)
        try:
            wanted = read_settings(fields)
        except BadFieldError as error:
            if "compatibility level" in str(error):
                raise errors.invalid_compatibility() from error
            raise unprocessable(error) from error
        if (wanted.compatibility_policy or "STRICT").upper() not in POLICIES:
            raise errors.invalid_policy()
        check_rule_set(wanted.default_rule_set)
        check_rule_set(wanted.override_rule_set)
        given = {LEVEL_FIELD if name == "compatibility" else name for name in fields}
        return wanted, frozenset(
            ours
            for ours, theirs in SETTINGS_FIELDS.items()
            if theirs in given and getattr(wanted, ours) is None
        )
