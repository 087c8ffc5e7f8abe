"""Finds out which subject or scope a request is about.

A scope is the part of the registry that settings or a mode apply to: a subject, a context, or all.
If the path is below ``/contexts/{context}``, a subject without a context belongs to that context.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.api.lists import Pacer
from log_service.http.schema_registry.authorization import Right, may
from log_service.http.schema_registry.registry import Registry
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.subjects import (
    ANY_CONTEXT,
    Subject,
    is_valid_subject,
    normal_context,
    within,
)
from log_service.http.server.values import HttpRequest


def context_scope(request: HttpRequest) -> str:
    """Return the context in the path as a scope, or an empty text for the default context.

    Raises:
        RegistryError: the text is not the name of a context.
    """
    text = request.path_values.get("context")
    if text is None:
        return ""
    try:
        return Subject(normal_context(text), "").scope
    except ValueError as error:
        raise errors.invalid_subject(text) from error


def addressed(
    request: HttpRequest, state: RegistryState, *, is_alias_followed: bool
) -> HttpRequest:
    """Return the request with the full name of its subject: with its context, and without an alias.

    Rights are decided for this name, and the handler uses the same name, even if the alias changes
    meanwhile.

    Raises:
        RegistryError: the context in the path is not the name of a context.
    """
    if "subject" not in request.path_values:
        return request
    subject = within(request.path_values["subject"], context_scope(request))
    subject = state.aliased(subject) if is_alias_followed else subject
    return replace(request, path_values={**request.path_values, "subject": subject})


def subject_of(request: HttpRequest) -> str:
    """Return the subject of a request that ``addressed`` has returned."""
    return request.path_values["subject"]


def valid_subject_of(request: HttpRequest) -> str:
    """Return the subject of a request, if schemas may be registered under it.

    Raises:
        RegistryError: the subject is empty, reserved, or has control characters.
    """
    subject = subject_of(request)
    if not is_valid_subject(subject):
        raise errors.invalid_subject(subject)
    return subject


def scope_of_request(request: HttpRequest) -> str:
    """Return the scope of a request for settings or modes: a subject, a context, or everything.

    Raises:
        RegistryError: the scope has control characters.
    """
    scope = subject_of(request) if "subject" in request.path_values else context_scope(request)
    if not is_valid_subject(scope, is_scope_allowed=True):
        raise errors.invalid_subject(scope)
    return scope


def asked_subject(request: HttpRequest, state: RegistryState) -> str | None:
    """Return the query's ``subject``, or else the context of the path, or else None."""
    text = request.query_value("subject")
    if text:
        return state.aliased(within(text, context_scope(request)))
    return context_scope(request) or None


async def readable_subjects(request: HttpRequest, registry: Registry) -> AsyncGenerator[str, None]:
    """Yield the subjects that ``has_prefix`` accepts, in order.

    Subjects that the principal may not read are left out.
    """
    pacer = Pacer()
    for each in registry.state.subjects_beginning_with(_narrow_prefix(request)):
        await pacer.step()
        if has_prefix(request, each) and may(registry.access, request, Right.READ, each):
            yield each


def has_prefix(request: HttpRequest, subject: str) -> bool:
    """Return whether a subject is in the context of the request and begins with ``subjectPrefix``.

    The context is that of the prefix, or else that of the path, or else the default one. A prefix
    with ``ANY_CONTEXT`` matches in all contexts. If there is neither a prefix nor a context in the
    path, all subjects match.
    """
    asked = request.query_value("subjectPrefix")
    if asked is None and "context" not in request.path_values:
        return True
    own = Subject.parse(subject)
    if asked is not None and asked.startswith(ANY_CONTEXT):
        return own.name.startswith(asked.removeprefix(ANY_CONTEXT))
    wanted = Subject.parse(within(asked or "", context_scope(request)))
    return own.context == wanted.context and own.name.startswith(wanted.name)


def _narrow_prefix(request: HttpRequest) -> str:
    """Return a prefix that all subjects have which ``has_prefix`` accepts."""
    asked = request.query_value("subjectPrefix") or ""
    is_anywhere = asked.startswith(ANY_CONTEXT)
    return "" if is_anywhere else str(Subject.parse(within(asked, context_scope(request))))
