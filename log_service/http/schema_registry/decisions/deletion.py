"""Removes versions, subjects and contexts.

A soft deletion hides versions and keeps their ids. A permanent deletion is allowed only after it,
and removes them. A version that a live schema refers to cannot be deleted.
"""

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.decisions.decision import Decision
from log_service.http.schema_registry.decisions.lookup import version_of
from log_service.http.schema_registry.records import (
    RegistryRecord,
    StoredSchema,
    context_record,
    delete_subject_record,
    mode_record,
    noop_record,
    schema_key,
    schema_record,
    settings_record,
)
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.subjects import DEFAULT_CONTEXT, Subject, context_of
from log_service.http.schema_registry.values import LATEST_VERSION, RegisteredSchema


def delete_version(
    state: RegistryState, subject: str, version: int, *, is_permanent: bool
) -> Decision[int]:
    """Return the records that remove one version, and its number.

    Raises:
        RegistryError: there is no such version, it is soft-deleted already, it is not soft-deleted
            before a permanent deletion, it is referred to, or the mode forbids it.
    """
    found = _version_to_delete(state, subject, version, is_permanent=is_permanent)
    check_writable(state, subject)
    if state.has_referrers(subject, found.version):
        raise errors.reference_exists(subject, found.version)
    if is_permanent:
        if not found.is_deleted:
            raise errors.version_not_soft_deleted(subject, found.version)
        return Decision(
            records=(*_removal([found]), noop_record(state.highest_ids)), result=found.version
        )
    stored = StoredSchema(
        subject=subject,
        version=found.version,
        schema_id=found.schema_id,
        content=found.content,
        is_deleted=True,
    )
    is_last = state.versions(subject) == [found]
    scope = _scope_removal(state, subject) if is_last else []
    return Decision(records=(schema_record(stored), *scope), result=found.version)


def delete_subject(
    state: RegistryState, subject: str, *, is_permanent: bool
) -> Decision[list[int]]:
    """Return the records that remove all versions of a subject, and their numbers.

    Raises:
        RegistryError: there is no such subject, it is soft-deleted already, it is not soft-deleted
            before a permanent deletion, a version is referred to, or the mode forbids it.
    """
    everything = state.versions(subject, is_deleted=None)
    if not everything:
        raise errors.subject_not_found(subject)
    live = state.versions(subject)
    if not is_permanent and not live:
        raise errors.subject_soft_deleted(subject)
    check_writable(state, subject)
    versions = everything if is_permanent else live
    for each in versions:
        if state.has_referrers(subject, each.version):
            raise errors.reference_exists(subject, each.version)
    numbers = [each.version for each in versions]
    if not is_permanent:
        records = [delete_subject_record(subject, numbers[-1]), *_scope_removal(state, subject)]
        return Decision(records=tuple(records), result=numbers)
    if live:
        raise errors.subject_not_soft_deleted(subject)
    return Decision(records=(*_removal(versions), noop_record(state.highest_ids)), result=numbers)


def delete_context(state: RegistryState, context: str) -> Decision[None]:
    """Return the records that remove an empty context.

    Raises:
        RegistryError: the context has subjects, live or soft-deleted, or is the default context.
    """
    scope = str(Subject(context, ""))
    if state.has_subjects(scope, is_deleted_included=True) or context == DEFAULT_CONTEXT:
        raise errors.context_not_empty(context)
    records = [*_scope_removal(state, scope), context_record(context, is_removed=True)]
    return Decision(records=tuple(records), result=None)


def check_writable(state: RegistryState, subject: str) -> None:
    """Refuse changes of a subject that is read-only.

    Raises:
        RegistryError: the subject is read-only.
    """
    if state.mode(subject).is_read_only:
        context = context_of(subject)
        raise errors.not_permitted(f"Subject {subject} in context {context} is in read-only mode")


def _version_to_delete(
    state: RegistryState, subject: str, version: int, *, is_permanent: bool
) -> RegisteredSchema:
    if version == LATEST_VERSION:
        found = state.latest(subject)
        if found is None and is_permanent:
            deleted = state.versions(subject, is_deleted=True)
            found = deleted[-1] if deleted else None
    else:
        found = version_of(state, subject, version, is_deleted_included=True)
    if found is None:
        if not state.has_subjects(subject, is_deleted_included=True):
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(version)
    if found.is_deleted and not is_permanent:
        raise errors.version_soft_deleted(subject, str(version))
    return found


def _removal(versions: list[RegisteredSchema]) -> list[RegistryRecord]:
    return [RegistryRecord(key=schema_key(each.subject, each.version)) for each in versions]


def _scope_removal(state: RegistryState, scope: str) -> list[RegistryRecord]:
    """Return the records that remove a scope's own settings and mode."""
    records = []
    if state.own_mode(scope) is not None:
        records.append(mode_record(scope, None))
    if state.own_settings(scope) is not None:
        records.append(settings_record(scope, None))
    return records
