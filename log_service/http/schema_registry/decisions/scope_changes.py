"""Changes settings and modes of subjects, of contexts and of the whole registry."""

from collections.abc import Collection

from log_service.http.schema_registry import errors
from log_service.http.schema_registry.decisions.decision import Decision
from log_service.http.schema_registry.decisions.deletion import check_writable
from log_service.http.schema_registry.records import (
    RegistryRecord,
    clear_subject_record,
    mode_record,
    noop_record,
    schema_key,
    settings_record,
)
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.values import Mode, Settings


def change_settings(
    state: RegistryState, scope: str, wanted: Settings, unset: Collection[str] = ()
) -> Decision[Settings]:
    """Return the record that changes a scope's settings to the wanted ones, and keeps the others.

    ``unset`` names settings to remove.

    Raises:
        RegistryError: the scope is read-only.
    """
    check_writable(state, scope)
    own = state.own_settings(scope) or Settings()
    changed = wanted.over(own.without(unset))
    return Decision(records=(settings_record(scope, changed),), result=wanted)


def remove_settings(state: RegistryState, scope: str) -> Decision[Settings]:
    """Return the record that removes a scope's settings, and the settings that it had.

    Raises:
        RegistryError: the scope has none, or is read-only.
    """
    own = state.own_settings(scope)
    if own is None and scope:
        raise errors.subject_not_found(scope)
    check_writable(state, scope)
    return Decision(records=(settings_record(scope, None),), result=own or state.settings(scope))


def change_mode(state: RegistryState, scope: str, mode: Mode, *, is_forced: bool) -> Decision[Mode]:
    """Return the records that set a scope's mode.

    A scope may enter import mode only without live versions. Its soft-deleted versions are then
    removed. ``is_forced`` skips the check and the removal.

    Raises:
        RegistryError: a scope with live versions was to enter import mode, or a version to remove
            is referred to.
    """
    records: list[RegistryRecord] = []
    if mode is Mode.IMPORT and state.mode(scope) is not Mode.IMPORT and not is_forced:
        if state.has_subjects(scope, is_deleted_included=False):
            raise errors.not_permitted("Cannot import since found existing subjects")
        records = _cleared(state, scope)
    return Decision(records=(*records, mode_record(scope, mode)), result=mode)


def remove_mode(state: RegistryState, scope: str, *, is_recursive: bool) -> Decision[Mode]:
    """Return the records that remove a scope's mode, and the mode that it had.

    ``is_recursive`` also removes the modes of the scope's subjects. The default context always
    has a mode, so removing that is never refused.

    Raises:
        RegistryError: the scope has no mode.
    """
    own = state.own_mode(scope)
    if own is None and scope:
        raise errors.subject_not_found(scope)
    inner = (
        [each for each in sorted(state.subjects_in(scope)) if each != scope] if is_recursive else []
    )
    scopes = [each for each in (scope, *inner) if state.own_mode(each) is not None]
    return Decision(
        records=tuple(mode_record(each, None) for each in scopes), result=own or state.mode(scope)
    )


def _cleared(state: RegistryState, scope: str) -> list[RegistryRecord]:
    removed: list[RegistryRecord] = []
    for subject in sorted(state.subjects_in(scope)):
        for each in state.versions(subject, is_deleted=True):
            if state.has_referrers(subject, each.version):
                raise errors.reference_exists(subject, each.version)
            removed.append(RegistryRecord(key=schema_key(subject, each.version)))
    return [*removed, clear_subject_record(scope), noop_record(state.highest_ids)]
