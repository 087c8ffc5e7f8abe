"""The state that results from the records of the topic. Only ``replay`` changes it.

A soft-deleted version keeps its id, because consumers may still get records with this id. Ids
belong to a context. The users of an id are versions that have it, one for each subject. Invariants:
the content of an id never changes, and ``highest_ids`` only grows.
"""

from collections import Counter
from collections.abc import Mapping
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
from log_service.http.schema_registry.sorted_names import SortedNames
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

K = TypeVar("K")
T = TypeVar("T")
SubjectVersion = tuple[str, int]


class RegistryState:
    """Subjects, ids, settings and modes of a registry."""

    def __init__(self, defaults: Settings = DEFAULT_SETTINGS) -> None:
        self._defaults = defaults
        self._subjects: dict[str, dict[int, RegisteredSchema]] = {}
        self._names = SortedNames()
        self._contexts_of_name: dict[str, set[str]] = {}
        self._live_counts = Counter[str]()
        self._users_of_id: dict[str, dict[int, dict[str, int]]] = {}
        self._ids_of_guid: dict[str, dict[str, int]] = {}
        self._referrers: dict[SubjectVersion, set[SubjectVersion]] = {}
        self._deleted_referrers: dict[SubjectVersion, set[SubjectVersion]] = {}
        self._aliases: dict[str, set[str]] = {}
        self._settings: dict[str, Settings] = {}
        self._modes: dict[str, Mode] = {}
        self._contexts = SortedNames()
        self._other_keys: dict[RegistryKey, set[bytes]] = {}
        self._highest_ids: dict[str, int] = {}
        self.version_count = 0
        """Versions of all subjects, live and soft-deleted."""

    def __repr__(self) -> str:
        return f"<RegistryState subjects={len(self._subjects)}>"

    # Replay

    def clear(self) -> None:
        """Remove everything. ``replay`` then gets the records from the first one on."""
        for store in (self._subjects, self._users_of_id, self._ids_of_guid):
            store.clear()
        for links in (self._referrers, self._deleted_referrers, self._aliases):
            links.clear()
        for values in (self._settings, self._modes, self._other_keys, self._highest_ids):
            values.clear()
        for names in (self._names, self._contexts_of_name, self._live_counts, self._contexts):
            names.clear()
        self.version_count = 0

    def replay(
        self, key: bytes | None, value: bytes | None, *, timestamp_ms: int | None = None
    ) -> None:
        """Apply one record of the topic.

        Raises:
            UnreadableRecordError: the record cannot be understood. It changes nothing.
        """
        parsed = read_key(key)
        if key is not None and key != parsed.encode():
            self._other_keys.setdefault(parsed, set()).add(key)
        if parsed.key_type is KeyType.SCHEMA:
            self._replay_schema(parsed, value, timestamp_ms)
        elif parsed.key_type is KeyType.CONFIG:
            self._put_settings(
                parsed.subject, None if value is None else read_stored_settings(value)
            )
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

    def _replay_schema(
        self, key: RegistryKey, value: bytes | None, timestamp_ms: int | None
    ) -> None:
        if value is None:
            self._remove(key.subject, key.version)
            return
        stored = read_stored_schema(value)
        if (stored.subject, stored.version) != (key.subject, key.version):
            raise UnreadableRecordError("the key and the value name different versions")
        known = self.content_of_id(context_of(stored.subject), stored.schema_id)
        if known is not None and known.text != stored.content.text:
            raise UnreadableRecordError(
                f"id {stored.schema_id} belongs to another schema already, so {stored.subject}"
                f" version {stored.version} is left out"
            )
        self._store(stored, timestamp_ms)

    def _store(self, stored: StoredSchema, timestamp_ms: int | None) -> None:
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
        older = self.version(stored.subject, stored.version)
        if older is not None:
            self._forget_references(older)
        self._keep(registered)
        if older is not None and older.schema_id != stored.schema_id:
            self._forget_user(older)
        users = self._users_of_id.setdefault(context, {}).setdefault(stored.schema_id, {})
        users[stored.subject] = stored.version
        self._ids_of_guid.setdefault(registered.guid, {})[context] = stored.schema_id
        self._raise_highest_ids({context: stored.schema_id})
        self._note_references(registered)

    def _keep(self, registered: RegisteredSchema) -> None:
        """Store a version. It replaces a version with the same number."""
        subject = registered.subject
        if subject not in self._subjects:
            self._subjects[subject] = {}
            self._names.add(subject)
            parsed = Subject.parse(subject)
            self._contexts_of_name.setdefault(parsed.name, set()).add(parsed.context)
        versions = self._subjects[subject]
        older = versions.get(registered.version)
        versions[registered.version] = registered
        self.version_count += older is None
        self._live_counts[subject] += (not registered.is_deleted) - (
            older is not None and not older.is_deleted
        )

    def _remove(self, subject: str, version: int) -> None:
        registered = self._subjects.get(subject, {}).pop(version, None)
        if registered is None:
            return
        self.version_count -= 1
        self._live_counts[subject] -= not registered.is_deleted
        self._forget_references(registered)
        self._forget_user(registered)
        if not self._subjects[subject]:
            self._remove_name(subject)

    def _forget_user(self, gone: RegisteredSchema) -> None:
        """Remove a version from the users of its id, because the version was removed.

        If another version of the subject has the id, too, it becomes the subject's user of the id.
        """
        context, subject = context_of(gone.subject), gone.subject
        users = self._users_of_id[context].get(gone.schema_id, {})
        if users.get(subject) != gone.version:
            return
        del users[subject]
        others = (
            each for each in self._subjects[subject].values() if each.schema_id == gone.schema_id
        )
        other = next(others, None)
        if other is not None:
            users[subject] = other.version
        elif not users:
            del self._users_of_id[context][gone.schema_id]
            self._forget_guid(gone, context)

    def _forget_guid(self, gone: RegisteredSchema, context: str) -> None:
        ids = self._ids_of_guid.get(gone.guid, {})
        if ids.get(context) == gone.schema_id:
            del ids[context]
        if not ids:
            self._ids_of_guid.pop(gone.guid, None)

    def _remove_name(self, subject: str) -> None:
        """Remove a subject that has no versions any more from all indexes of names."""
        del self._subjects[subject], self._live_counts[subject]
        self._names.discard(subject)
        parsed = Subject.parse(subject)
        contexts = self._contexts_of_name[parsed.name]
        contexts.discard(parsed.context)
        if not contexts:
            del self._contexts_of_name[parsed.name]

    def _soft_delete(self, subject: str, last_version: int) -> None:
        for version, registered in list(self._subjects.get(subject, {}).items()):
            if version <= last_version and not registered.is_deleted:
                deleted = replace(registered, is_deleted=True)
                self._forget_references(registered)
                self._keep(deleted)
                self._note_references(deleted)

    def _clear(self, scope: str) -> None:
        for subject in list(self.subjects_in(scope)):
            for version in [each.version for each in self.versions(subject, is_deleted=True)]:
                self._remove(subject, version)

    def _raise_highest_ids(self, ids: Mapping[str, int]) -> None:
        for context, highest in ids.items():
            self._highest_ids[context] = max(self._highest_ids.get(context, 0), highest)

    def _note_references(self, registered: RegisteredSchema) -> None:
        links = self._deleted_referrers if registered.is_deleted else self._referrers
        for target in _targets(registered):
            links.setdefault(target, set()).add((registered.subject, registered.version))

    def _forget_references(self, registered: RegisteredSchema) -> None:
        links = self._deleted_referrers if registered.is_deleted else self._referrers
        for target in _targets(registered):
            _unlink(links, target, (registered.subject, registered.version))

    def _put_settings(self, scope: str, settings: Settings | None) -> None:
        _unlink(self._aliases, self.aliased(scope), scope)
        _put(self._settings, scope, settings)
        target = self.aliased(scope)
        if target != scope:
            self._aliases.setdefault(target, set()).add(scope)

    # Questions

    @property
    def highest_ids(self) -> Mapping[str, int]:
        """The highest id that was ever assigned in each context."""
        return self._highest_ids

    @property
    def contexts(self) -> list[str]:
        """All contexts, the default one first."""
        return [DEFAULT_CONTEXT, *(each for each in self._contexts if each != DEFAULT_CONTEXT)]

    def has_context(self, context: str) -> bool:
        """Return whether a context is known. The default context always is."""
        return context == DEFAULT_CONTEXT or context in self._contexts

    @property
    def subject_count(self) -> int:
        """The number of subjects with a version, live or soft-deleted."""
        return len(self._names)

    @property
    def subjects(self) -> list[str]:
        """All subjects with a version, live or soft-deleted, in order."""
        return list(self._names)

    def subjects_beginning_with(self, prefix: str) -> list[str]:
        """Return the subjects with a prefix, in order."""
        return self._names.beginning_with(prefix)

    def contexts_of(self, name: str) -> list[str]:
        """Return the contexts that have a subject of a name, the default one first."""
        return sorted(self._contexts_of_name.get(name, ()))

    def is_live(self, subject: str) -> bool:
        """Return whether a subject has a live version."""
        return self._live_counts.get(subject, 0) > 0

    def versions(self, subject: str, *, is_deleted: bool | None = False) -> list[RegisteredSchema]:
        """Return versions of a subject, oldest first.

        ``is_deleted`` False selects live versions, True soft-deleted versions, and None all.
        """
        found = self._subjects.get(subject, {})
        ordered = [found[version] for version in sorted(found)]
        return [each for each in ordered if is_deleted is None or each.is_deleted is is_deleted]

    def version(self, subject: str, version: int) -> RegisteredSchema | None:
        """Return one version, live or soft-deleted, or None."""
        return self._subjects.get(subject, {}).get(version)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest live version, or None."""
        found = self._subjects.get(subject, {}).values()
        return max(
            (each for each in found if not each.is_deleted),
            key=lambda each: each.version,
            default=None,
        )

    def subjects_in(self, scope: str) -> list[str]:
        """Return the subjects in a scope in order: one subject, those of a context, or all."""
        if Subject.parse(scope).name:
            return [scope] if scope in self._subjects else []
        return self.subjects_beginning_with(scope)

    def has_subjects(self, scope: str, *, is_deleted_included: bool) -> bool:
        """Return whether a scope has live versions, or with ``is_deleted_included`` any version."""
        return any(is_deleted_included or self.is_live(each) for each in self.subjects_in(scope))

    def subjects_of_id(self, context: str, schema_id: int) -> list[str]:
        """Return the subjects that have a version with an id, live or soft-deleted."""
        return list(self._users_of_id.get(context, {}).get(schema_id, ()))

    def user_of_id(self, context: str, schema_id: int, subject: str) -> RegisteredSchema | None:
        """Return a version of a subject that has an id, live or soft-deleted, or None."""
        version = self._users_of_id.get(context, {}).get(schema_id, {}).get(subject)
        return None if version is None else self.version(subject, version)

    def first_user_of_id(self, context: str, schema_id: int) -> RegisteredSchema | None:
        """Return an arbitrary version that has an id, live or soft-deleted, or None.

        It takes constant time, because it does not go through all versions.
        """
        users = self._users_of_id.get(context, {}).get(schema_id, {})
        subject = next(iter(users), None)
        return None if subject is None else self.version(subject, users[subject])

    def users_of_id(self, context: str, schema_id: int) -> list[RegisteredSchema]:
        """Return the versions that have an id, live and soft-deleted, one for each subject."""
        users = self._users_of_id.get(context, {}).get(schema_id, {})
        found = (self.version(subject, version) for subject, version in users.items())
        return [each for each in found if each is not None]

    def content_of_id(self, context: str, schema_id: int) -> SchemaContent | None:
        """Return the content of an id, or None if the context has no such id."""
        users = self._users_of_id.get(context, {}).get(schema_id, {})
        found = next((self.version(subject, version) for subject, version in users.items()), None)
        return None if found is None else found.content

    def id_of_guid(self, context: str, guid: str) -> int | None:
        """Return the id of a content in a context, or None for an unknown or removed content."""
        return self._ids_of_guid.get(guid, {}).get(context)

    def ids_of_guid(self, guid: str) -> dict[str, int]:
        """Return the ids of a content by context, the default context first."""
        return dict(sorted(self._ids_of_guid.get(guid, {}).items()))

    def has_referrers(self, subject: str, version: int) -> bool:
        """Return whether a live version refers to a version."""
        return (subject, version) in self._referrers

    def referrers(
        self, subject: str, version: int, *, is_deleted: bool = False
    ) -> list[SubjectVersion]:
        """Return the live or the soft-deleted versions that refer to a version."""
        links = self._deleted_referrers if is_deleted else self._referrers
        return list(links.get((subject, version), ()))

    def own_settings(self, scope: str) -> Settings | None:
        """Return the settings of exactly this scope, or None. The default context is ``""``."""
        return self._settings.get(scope)

    def settings(self, subject: str) -> Settings:
        """Return a subject's settings: its own, else those of its context, else the global ones."""
        found = self._defaults
        for scope in _scopes(subject):
            found = self._settings.get(scope, Settings()).over(found)
        return found

    def own_mode(self, scope: str) -> Mode | None:
        """Return the mode of exactly this scope, or None."""
        return self._modes.get(scope)

    def mode(self, subject: str) -> Mode:
        """Return a subject's mode: its own, else that of its context, else that of all contexts."""
        found = [self._modes[scope] for scope in _scopes(subject) if scope in self._modes]
        if Mode.READONLY_OVERRIDE in found[:-1]:
            return Mode.READONLY_OVERRIDE
        return found[-1] if found else Mode.READWRITE

    def aliased(self, subject: str) -> str:
        """Return the subject to which an alias refers, and any other subject unchanged."""
        own = self._settings.get(subject)
        return within(own.alias, subject) if own is not None and own.alias else subject

    @property
    def aliased_subjects(self) -> list[str]:
        """The subjects that have an alias."""
        return list(self._aliases)

    def aliases_of(self, subject: str) -> list[str]:
        """Return the aliases of a subject, sorted."""
        return sorted(self._aliases.get(subject, ()))

    def encoded(self, records: list[RegistryRecord]) -> list[tuple[bytes, bytes | None]]:
        """Encode records as pairs of key and value.

        If the topic has the same key with its properties in another order, a tombstone for that key
        comes first, because compaction would keep both.
        """
        lines: list[tuple[bytes, bytes | None]] = []
        for record in records:
            lines += [(other, None) for other in sorted(self._other_keys.get(record.key, ()))]
            lines.append((record.key.encode(), record.value))
        return lines

    def versions_with_id(self, subject: str, schema_id: int) -> list[RegistryKey]:
        """Return the record keys of a subject's soft-deleted versions that have ``schema_id``."""
        deleted = self.versions(subject, is_deleted=True)
        return [
            schema_key(subject, each.version) for each in deleted if each.schema_id == schema_id
        ]


def _targets(registered: RegisteredSchema) -> list[SubjectVersion]:
    """Return the versions, each with its subject, that a version refers to."""
    references = registered.content.references
    return [(within(each.subject, registered.subject), each.version) for each in references]


def _scopes(subject: str) -> list[str]:
    """Return the scopes that contain a subject, the widest first."""
    return list(dict.fromkeys([GLOBAL_SCOPE, scope_of(subject), subject]))


def _unlink(links: dict[K, set[T]], target: K, origin: T) -> None:
    """Remove ``origin`` from the links to ``target``, if it is there."""
    origins = links.get(target)
    if origins is not None:
        origins.discard(origin)
        if not origins:
            del links[target]


def _put(store: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        store.pop(key, None)
    else:
        store[key] = value
