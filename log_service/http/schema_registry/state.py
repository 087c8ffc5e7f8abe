"""The state that the records of the topic build. ``replay`` alone changes it.

A version that is soft-deleted keeps its id, because consumers may still have its records. Ids
belong to a context. Invariants: an id has one content for ever, and ``highest_ids`` only grows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from log_service.http.schema_registry.records import (
    KeyType,
    RegistryKey,
    RegistryRecord,
    StoredSchema,
    UnreadableRecordError,
    read_deleted_version,
    read_highest_ids,
    read_key,
    read_stored_mode,
    read_stored_schema,
    read_stored_settings,
    schema_key,
)
from log_service.http.schema_registry.subjects import (
    DEFAULT_CONTEXT,
    GLOBAL_SCOPE,
    Subject,
    context_of,
    scope_of,
    within,
)
from log_service.http.schema_registry.values import (
    DEFAULT_SETTINGS,
    Mode,
    RegisteredSchema,
    SchemaContent,
    Settings,
    guid_of,
)

T = TypeVar("T")
SubjectVersion = tuple[str, int]


class RegistryState:
    """Subjects, ids, settings and modes of a registry."""

    def __init__(self, defaults: Settings = DEFAULT_SETTINGS) -> None:
        self._defaults = defaults
        self._subjects: dict[str, dict[int, RegisteredSchema]] = {}
        self._users_of_id: dict[str, dict[int, dict[str, int]]] = {}
        self._id_of_guid: dict[str, dict[str, int]] = {}
        self._referrers: dict[SubjectVersion, set[SubjectVersion]] = {}
        self._settings: dict[str, Settings] = {}
        self._modes: dict[str, Mode] = {}
        self._contexts: set[str] = set()
        self._other_keys: dict[RegistryKey, set[bytes]] = {}
        self._highest_ids: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<RegistryState subjects={len(self._subjects)}>"

    # Replay

    def clear(self) -> None:
        """Forget everything. The first record of the topic comes next."""
        for store in (self._subjects, self._users_of_id, self._id_of_guid, self._referrers):
            store.clear()
        for names in (self._settings, self._modes, self._other_keys, self._highest_ids):
            names.clear()
        self._contexts.clear()

    def replay(self, key: bytes | None, value: bytes | None, *, timestamp_ms: int | None = None) -> None:
        """Take one record of the topic.

        Raises:
            UnreadableRecordError: it cannot be understood, and changes nothing.
        """
        parsed = read_key(key)
        if key is not None and key != parsed.encode():
            self._other_keys.setdefault(parsed, set()).add(key)
        if parsed.key_type is KeyType.SCHEMA:
            self._replay_schema(parsed, value, timestamp_ms)
        elif parsed.key_type is KeyType.CONFIG:
            _put(self._settings, parsed.subject, None if value is None else read_stored_settings(value))
        elif parsed.key_type is KeyType.MODE:
            _put(self._modes, parsed.subject, None if value is None else read_stored_mode(value))
        elif parsed.key_type is KeyType.DELETE_SUBJECT:
            if value is not None:
                self._soft_delete(parsed.subject, read_deleted_version(value))
        elif parsed.key_type is KeyType.CLEAR_SUBJECT:
            if value is not None:
                self._clear(parsed.subject)
        elif parsed.key_type is KeyType.CONTEXT:
            (self._contexts.discard if value is None else self._contexts.add)(parsed.context)
        else:
            self._raise_highest_ids(read_highest_ids(value))

    def _replay_schema(self, key: RegistryKey, value: bytes | None, timestamp_ms: int | None) -> None:
        if value is None:
            self._remove(key.subject, key.version)
            return
        stored = read_stored_schema(value)
        if (stored.subject, stored.version) != (key.subject, key.version):
            raise UnreadableRecordError("the key and the value name different versions")
        known = self.content_of_id(context_of(stored.subject), stored.schema_id)
        if known is not None and known.text != stored.content.text:
            raise UnreadableRecordError(
                f"id {stored.schema_id} belongs to another schema already, so {stored.subject} version {stored.version} is left out"
            )
        self._store(stored, timestamp_ms)

    def _store(self, stored: StoredSchema, timestamp_ms: int | None) -> None:
        self._forget_references(stored.subject, stored.version)
        context = context_of(stored.subject)
        registered = RegisteredSchema(
            subject=stored.subject,
            version=stored.version,
            schema_id=stored.schema_id,
            content=stored.content,
            guid=guid_of(stored.content),
            is_deleted=stored.is_deleted,
            timestamp_ms=timestamp_ms,
        )
        self._subjects.setdefault(stored.subject, {})[stored.version] = registered
        users = self._users_of_id.setdefault(context, {}).setdefault(stored.schema_id, {})
        users[stored.subject] = stored.version
        self._id_of_guid.setdefault(context, {})[registered.guid] = stored.schema_id
        self._raise_highest_ids({context: stored.schema_id})
        if not stored.is_deleted:
            self._note_references(registered)

    def _remove(self, subject: str, version: int) -> None:
        registered = self._subjects.get(subject, {}).pop(version, None)
        if registered is None:
            return
        self._forget_references(subject, version, registered)
        if not self._subjects[subject]:
            del self._subjects[subject]
        ids = self._users_of_id[context_of(subject)]
        users = ids.get(registered.schema_id, {})
        if users.get(subject) == version:
            del users[subject]
        if not users:
            ids.pop(registered.schema_id, None)

    def _soft_delete(self, subject: str, last_version: int) -> None:
        for version, registered in self._subjects.get(subject, {}).items():
            if version <= last_version and not registered.is_deleted:
                self._forget_references(subject, version)
                self._subjects[subject][version] = replace(registered, is_deleted=True)

    def _clear(self, scope: str) -> None:
        for subject in list(self.subjects_in(scope)):
            for version in [each.version for each in self.versions(subject, is_deleted=True)]:
                self._remove(subject, version)

    def _raise_highest_ids(self, ids: Mapping[str, int]) -> None:
        for context, highest in ids.items():
            self._highest_ids[context] = max(self._highest_ids.get(context, 0), highest)

    def _note_references(self, registered: RegisteredSchema) -> None:
        for target in _targets(registered):
            self._referrers.setdefault(target, set()).add((registered.subject, registered.version))

    def _forget_references(self, subject: str, version: int, registered: RegisteredSchema | None = None) -> None:
        registered = registered or self._subjects.get(subject, {}).get(version)
        for target in [] if registered is None else _targets(registered):
            referrers = self._referrers.get(target, set())
            referrers.discard((subject, version))
            if not referrers:
                self._referrers.pop(target, None)

    # Questions

    @property
    def highest_ids(self) -> Mapping[str, int]:
        """The highest id that was ever given in each context."""
        return self._highest_ids

    @property
    def contexts(self) -> list[str]:
        """All contexts, the default one first."""
        return [DEFAULT_CONTEXT, *sorted(self._contexts - {DEFAULT_CONTEXT})]

    @property
    def subjects(self) -> list[str]:
        """All subjects with a version, also a soft-deleted one, sorted."""
        return sorted(self._subjects)

    @property
    def version_count(self) -> int:
        """Versions of all subjects, live and soft-deleted."""
        return sum(len(versions) for versions in self._subjects.values())

    def versions(self, subject: str, *, is_deleted: bool | None = False) -> list[RegisteredSchema]:
        """Return versions of a subject, oldest first.

        ``is_deleted``: False for live ones, True for soft-deleted ones, None for all.
        """
        found = self._subjects.get(subject, {})
        ordered = [found[version] for version in sorted(found)]
        return [each for each in ordered if is_deleted is None or each.is_deleted is is_deleted]

    def version(self, subject: str, version: int) -> RegisteredSchema | None:
        """Return one version, live or soft-deleted."""
        return self._subjects.get(subject, {}).get(version)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest live version."""
        live = self.versions(subject)
        return live[-1] if live else None

    def subjects_in(self, scope: str) -> Iterator[str]:
        """Return the subjects of a scope: the subject itself, those of a context, or all."""
        parsed = Subject.parse(scope)
        for subject in self._subjects:
            is_inside = not parsed.name and context_of(subject) == parsed.context
            if not scope or subject == scope or is_inside:
                yield subject

    def has_subjects(self, scope: str, *, is_deleted_included: bool) -> bool:
        """Return whether a scope has a version, live or, if asked for, soft-deleted."""
        wanted = None if is_deleted_included else False
        return any(self.versions(each, is_deleted=wanted) for each in self.subjects_in(scope))

    def users_of_id(self, context: str, schema_id: int) -> list[RegisteredSchema]:
        """Return the versions that have an id, live and soft-deleted, one for each subject."""
        users = self._users_of_id.get(context, {}).get(schema_id, {})
        found = (self.version(subject, version) for subject, version in users.items())
        return [each for each in found if each is not None]

    def content_of_id(self, context: str, schema_id: int) -> SchemaContent | None:
        """Return the content of an id, or None where the context has no such id."""
        users = self.users_of_id(context, schema_id)
        return users[0].content if users else None

    def id_of_guid(self, context: str, guid: str) -> int | None:
        """Return the id of a content in a context. Removed contents have none."""
        schema_id = self._id_of_guid.get(context, {}).get(guid)
        if schema_id is None or not self.users_of_id(context, schema_id):
            return None
        return schema_id

    def referrers(self, subject: str, version: int) -> list[RegisteredSchema]:
        """Return the live versions that refer to a version."""
        found = (self.version(*each) for each in self._referrers.get((subject, version), ()))
        return [each for each in found if each is not None]

    def deleted_referrers(self, subject: str, version: int) -> list[RegisteredSchema]:
        """Return the soft-deleted versions that refer to a version. This looks at all versions."""
        deleted = (each for versions in self._subjects.values() for each in versions.values() if each.is_deleted)
        return [each for each in deleted if (subject, version) in _targets(each)]

    def own_settings(self, scope: str) -> Settings | None:
        """Return the settings of exactly this scope. The default context is an empty scope."""
        return self._settings.get(scope)

    def settings(self, subject: str) -> Settings:
        """Return a subject's settings: its own over those of its context and of all contexts."""
        found = self._defaults
        for scope in _scopes(subject):
            found = self._settings.get(scope, Settings()).over(found)
        return found

    def own_mode(self, scope: str) -> Mode | None:
        """Return the mode of exactly this scope."""
        return self._modes.get(scope)

    def mode(self, subject: str) -> Mode:
        """Return a subject's mode: its own, else that of its context, else that of all contexts."""
        found = [self._modes[scope] for scope in _scopes(subject) if scope in self._modes]
        if Mode.READONLY_OVERRIDE in found[:-1]:
            return Mode.READONLY_OVERRIDE
        return found[-1] if found else Mode.READWRITE

    def aliased(self, subject: str) -> str:
        """Return the subject that an alias stands for, else the subject itself."""
        own = self._settings.get(subject)
        return within(own.alias, subject) if own is not None and own.alias else subject

    def aliases(self) -> dict[str, list[str]]:
        """Return the aliases of each subject that has some, sorted."""
        found: dict[str, list[str]] = {}
        for scope in sorted(self._settings):
            target = self.aliased(scope)
            if target != scope:
                found.setdefault(target, []).append(scope)
        return found

    def encoded(self, records: list[RegistryRecord]) -> list[tuple[bytes, bytes | None]]:
        """Return records as bytes.

        A key that the topic has in another order of properties is removed first, because
        compaction would keep it beside the new one.
        """
        lines: list[tuple[bytes, bytes | None]] = []
        for record in records:
            lines += [(other, None) for other in sorted(self._other_keys.get(record.key, ()))]
            lines.append((record.key.encode(), record.value))
        return lines

    def versions_with_id(self, subject: str, schema_id: int) -> list[RegistryKey]:
        """Return the keys of a subject's soft-deleted versions with an id."""
        deleted = self.versions(subject, is_deleted=True)
        return [schema_key(subject, each.version) for each in deleted if each.schema_id == schema_id]


def _targets(registered: RegisteredSchema) -> list[SubjectVersion]:
    """Return the subjects and versions that a version refers to."""
    references = registered.content.references
    return [(within(each.subject, registered.subject), each.version) for each in references]


def _scopes(subject: str) -> list[str]:
    """Return the scopes that a subject is in, the widest first."""
    return list(dict.fromkeys([GLOBAL_SCOPE, scope_of(subject), subject]))


def _put(store: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        store.pop(key, None)
    else:
        store[key] = value
