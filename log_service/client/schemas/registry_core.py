"""The calls of a registry's API as plain generators, and the caches of their responses.

Decides which request a call sends, what is cached, and for how long. The schema of an id or a guid
never changes, so it is cached until the cache is full. Errors are not cached, because a missing
schema may be registered in the next moment. The latest version of a subject is cached for at most
``cache_latest_ttl_sec``, and dropped when this client changes the subject.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

from log_service.client.schemas.cache import BoundedCache
from log_service.client.schemas.exchange import Exchange, Request, Steps
from log_service.client.schemas.settings import RegistryClientSettings
from log_service.client.schemas.values import LATEST, CompatibilityResult, RegisteredSchema, Schema

PAGE_SCHEMAS: Final = 1_000
Version = int | Literal["latest"]


class RegistryCore:
    """The calls of a registry's API, with their caches. ``now`` is a clock in seconds.

    Each call is a generator of requests and pauses, which a client executes; see ``exchange``. With
    ``deleted`` a call also finds what was deleted without ``permanent``. With ``normalize`` the
    registry normalizes the schema before it compares. ``fmt`` is a format of the registry, such as
    ``serialized`` for the descriptor of a Protobuf schema.
    """

    def __init__(
        self,
        settings: RegistryClientSettings,
        *,
        now: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._ask = Exchange(settings, random).ask
        self._now = now
        self._capacity = count = settings.cache_capacity
        self._by_id: BoundedCache[tuple[str, int, str | None], Schema] = BoundedCache(count, now)
        self._by_guid: BoundedCache[tuple[str, str | None], Schema] = BoundedCache(count, now)
        self._registered: BoundedCache[tuple[str, str, Schema], RegisteredSchema] = BoundedCache(
            count, now
        )
        self._versions: BoundedCache[tuple[str, int, str | None], RegisteredSchema] = BoundedCache(
            count, now
        )
        ttl_s = settings.cache_latest_ttl_sec
        self._latest: BoundedCache[tuple[str, str | None], RegisteredSchema] = BoundedCache(
            count, now, ttl_s
        )

    def new_cache(self, ttl_s: float) -> BoundedCache[Any, Any]:
        """Return an empty cache with the client's capacity and clock."""
        return BoundedCache(self._capacity, self._now, ttl_s)

    def clear_caches(self) -> None:
        """Forget all schemas, so that the next calls ask the registry."""
        for cache in (self._by_id, self._by_guid, self._registered, self._versions, self._latest):
            cache.clear()

    def register_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False
    ) -> Steps[RegisteredSchema]:
        """Register a schema under a subject, and return it with its id.

        A schema that the subject has already keeps its id. Old registries return neither version
        nor guid.

        Raises:
            SchemaRegistryError: the schema is invalid (422), or incompatible (409).
        """
        path = ("subjects", subject, "versions")
        found = yield from self._registered_schema(
            path, subject, schema, {"normalize": normalize or None}
        )
        self._latest.discard(lambda key: key[0] == subject)
        return found

    def lookup_schema(
        self, subject: str, schema: Schema, *, normalize: bool = False, deleted: bool = False
    ) -> Steps[RegisteredSchema]:
        """Look up a schema in a subject, and return it with its id and version.

        Raises:
            SchemaRegistryError: 40401, there is no such subject; 40403, it lacks the schema.
        """
        query = {"normalize": normalize or None, "deleted": deleted or None}
        return (yield from self._registered_schema(("subjects", subject), subject, schema, query))

    def get_schema(
        self, schema_id: int, subject: str | None = None, *, fmt: str | None = None
    ) -> Steps[Schema]:
        """Return the schema with an id.

        The id is looked up in the context of ``subject``.

        Raises:
            SchemaRegistryError: 40403, there is no such id.
        """
        key = (context_of(subject), schema_id, fmt)
        found = self._by_id.get(key)
        if found is None:
            query = {"subject": subject, "format": fmt}
            path = ("schemas", "ids", str(schema_id))
            found = yield from self._ask(
                _get(path, query, subject=subject, is_shared=True), Schema.of
            )
            self._by_id.put(key, found)
        return found

    def get_schema_by_guid(self, guid: str, *, fmt: str | None = None) -> Steps[Schema]:
        """Return the schema with a guid.

        Raises:
            SchemaRegistryError: 40403, there is no such guid.
        """
        found = self._by_guid.get((guid, fmt))
        if found is None:
            found = yield from self._ask(
                _get(("schemas", "guids", guid), {"format": fmt}, is_shared=True), Schema.of
            )
            self._by_guid.put((guid, fmt), found)
        return found

    def get_latest_version(
        self, subject: str, *, fmt: str | None = None
    ) -> Steps[RegisteredSchema]:
        """Return the latest version of a subject, which may be ``cache_latest_ttl_sec`` old.

        Raises:
            SchemaRegistryError: 40401, there is no such subject.
        """
        found = self._latest.get((subject, fmt))
        if found is None:
            found = yield from self._version(subject, LATEST, {"format": fmt}, is_shared=True)
            self._latest.put((subject, fmt), found)
        return found

    def get_version(
        self, subject: str, version: Version, *, deleted: bool = False, fmt: str | None = None
    ) -> Steps[RegisteredSchema]:
        """Return a version of a subject, as the registry has it now.

        Raises:
            SchemaRegistryError: 40401, there is no such subject; 40402, no such version.
        """
        query = {"deleted": deleted or None, "format": fmt}
        return (yield from self._version(subject, version, query, is_shared=False))

    def get_versions(self, subject: str, *, deleted: bool = False) -> Steps[list[int]]:
        """Return the numbers of a subject's versions. Raises SchemaRegistryError."""
        request = _get(
            ("subjects", subject, "versions"), {"deleted": deleted or None}, subject=subject
        )
        return (yield from self._ask(request, _numbers))

    def get_subjects(self, prefix: str | None = None, *, deleted: bool = False) -> Steps[list[str]]:
        """Return the subjects whose names begin with a prefix. Raises SchemaRegistryError."""
        request = _get(("subjects",), {"subjectPrefix": prefix, "deleted": deleted or None})
        return (yield from self._ask(request, _texts))

    def get_schemas(
        self, prefix: str | None = None, *, latest_only: bool = False, deleted: bool = False
    ) -> Steps[list[RegisteredSchema]]:
        """Return all versions of the subjects whose names begin with a prefix.

        With ``latest_only`` return only the latest version of each. Several requests fetch them in
        pages. Raises SchemaRegistryError.
        """
        found: list[RegisteredSchema] = []
        while True:
            query = {
                "subjectPrefix": prefix,
                "latestOnly": latest_only or None,
                "deleted": deleted or None,
                "offset": len(found),
                "limit": PAGE_SCHEMAS,
            }
            page = yield from self._ask(_get(("schemas",), query), _registered_schemas)
            found += page
            if len(page) != PAGE_SCHEMAS:  # a registry that knows no pages returns all at once
                return found

    def get_schema_versions(self, schema_id: int) -> Steps[list[tuple[str, int]]]:
        """Return the subjects and versions that contain the schema with an id.

        Raises SchemaRegistryError.
        """
        request = _get(("schemas", "ids", str(schema_id), "versions"))
        return (
            yield from self._ask(
                request, lambda found: [(each["subject"], each["version"]) for each in found]
            )
        )

    def get_referenced_by(self, subject: str, version: Version) -> Steps[list[int]]:
        """Return the ids of the schemas that reference a version. Raises SchemaRegistryError."""
        request = _get(
            ("subjects", subject, "versions", str(version), "referencedby"), subject=subject
        )
        return (yield from self._ask(request, _numbers))

    def get_contexts(self) -> Steps[list[str]]:
        """Return the names of the contexts. Raises SchemaRegistryError."""
        return (yield from self._ask(_get(("contexts",)), _texts))

    def check_compatibility(
        self,
        subject: str,
        schema: Schema,
        version: Version | None = None,
        *,
        normalize: bool = False,
        verbose: bool = True,
    ) -> Steps[CompatibilityResult]:
        """Check whether a schema is compatible with a version of a subject.

        Without ``version`` check it with all versions that the subject's compatibility level names.
        With ``verbose`` the result has the reasons against it.

        Raises:
            SchemaRegistryError: there is no such version, or the schema is invalid.
        """
        path = (
            "compatibility",
            "subjects",
            subject,
            "versions",
            *(() if version is None else (str(version),)),
        )
        query = {"normalize": normalize or None, "verbose": verbose or None}
        request = Request(
            method="POST", path=path, query=query, body=schema.as_json(), subject=subject
        )
        return (yield from self._ask(request, _compatibility))

    def get_config(
        self, subject: str | None = None, *, default_to_global: bool = True
    ) -> Steps[dict[str, Any]]:
        """Return the configuration of a subject, or the global one.

        The compatibility level has the key ``compatibilityLevel``.

        Raises:
            SchemaRegistryError: 40408, the subject has no configuration of its own, and
                ``default_to_global`` is False.
        """
        query = {"defaultToGlobal": default_to_global or None} if subject is not None else {}
        return (
            yield from self._ask(_get(_scope("config", subject), query, subject=subject), _fields)
        )

    def set_config(
        self, config: Mapping[str, Any], subject: str | None = None
    ) -> Steps[dict[str, Any]]:
        """Change the configuration of a subject, or the global one.

        ``config`` is, for example, ``{"compatibility": "FULL"}``.

        Raises:
            SchemaRegistryError: 42203, there is no such compatibility level.
        """
        return (
            yield from self._ask(_put(_scope("config", subject), dict(config), subject), _fields)
        )

    def delete_config(self, subject: str | None = None) -> Steps[dict[str, Any]]:
        """Remove the configuration of a subject, or the global one. Raises SchemaRegistryError."""
        return (yield from self._ask(_delete(_scope("config", subject), subject), _fields))

    def get_mode(self, subject: str | None = None, *, default_to_global: bool = True) -> Steps[str]:
        """Return the mode of a subject, or the global one, such as ``READWRITE``.

        Raises SchemaRegistryError.
        """
        query = {"defaultToGlobal": default_to_global or None} if subject is not None else {}
        return (yield from self._ask(_get(_scope("mode", subject), query, subject=subject), _mode))

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> Steps[str]:
        """Change the mode of a subject, or the global one.

        Raises:
            SchemaRegistryError: 42204, there is no such mode; 42205, the mode may not be changed.
        """
        request = _put(_scope("mode", subject), {"mode": mode}, subject, {"force": force or None})
        return (yield from self._ask(request, _mode))

    def delete_mode(self, subject: str) -> Steps[str]:
        """Remove the mode of a subject, and return it. Raises SchemaRegistryError."""
        return (yield from self._ask(_delete(("mode", subject), subject), _mode))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> Steps[list[int]]:
        """Delete the versions of a subject, and return their numbers.

        Deletion with ``permanent`` must follow one without it.

        Raises:
            SchemaRegistryError: 40401, there is no such subject; 40405, it was not deleted without
                ``permanent`` yet; 42206, a schema references it.
        """
        path = ("subjects", subject)
        versions = yield from self._ask(
            _delete(path, subject, {"permanent": permanent or None}), _numbers
        )
        self._forget(subject)
        return versions

    def delete_version(
        self, subject: str, version: Version, *, permanent: bool = False
    ) -> Steps[int]:
        """Delete a version of a subject, and return its number. Raises as ``delete_subject``."""
        path = ("subjects", subject, "versions", str(version))
        number = yield from self._ask(_delete(path, subject, {"permanent": permanent or None}), int)
        self._forget(subject)
        return number

    def referenced_texts(self, schema: Schema, *, fmt: str | None = None) -> Steps[dict[str, str]]:
        """Return the texts of the schemas that a schema references, by their names.

        Indirect references are included. Each text comes after the texts that it references itself.

        Raises:
            SchemaRegistryError: a referenced version does not exist.
        """
        texts: dict[str, str] = {}
        for reference in schema.references:
            if reference.name in texts:
                continue
            key = (reference.subject, reference.version, fmt)
            found = self._versions.get(key)
            if found is None:
                query = {"deleted": True, "format": fmt}
                found = yield from self._version(
                    reference.subject, reference.version, query, is_shared=True
                )
                if reference.version > 0:
                    self._versions.put(key, found)
            texts |= yield from self.referenced_texts(found.schema, fmt=fmt)
            texts[reference.name] = found.schema.text
        return texts

    def _registered_schema(
        self, path: tuple[str, ...], subject: str, schema: Schema, query: Mapping[str, Any]
    ) -> Steps[RegisteredSchema]:
        """Post a schema to a path of a subject, and return it with its id.

        An earlier response is returned from the cache.
        """
        request = Request(
            method="POST",
            path=path,
            query=query,
            body=schema.as_json(),
            subject=subject,
            is_shared=True,
        )
        key = (subject, request.target, schema)
        found = self._registered.get(key)
        if found is None:
            found = yield from self._ask(
                request, lambda body: RegisteredSchema.of(body, schema, subject)
            )
            self._registered.put(key, found)
        return found

    def _version(
        self, subject: str, version: Version, query: Mapping[str, Any], *, is_shared: bool
    ) -> Steps[RegisteredSchema]:
        path = ("subjects", subject, "versions", str(version))
        request = _get(path, query, subject=subject, is_shared=is_shared)
        return (yield from self._ask(request, RegisteredSchema.of))

    def _forget(self, subject: str) -> None:
        self._registered.discard(lambda key: key[0] == subject)
        self._versions.discard(lambda key: key[0] == subject)
        self._latest.discard(lambda key: key[0] == subject)


def context_of(subject: str | None) -> str:
    """Return the context in which a subject's schema ids are valid, such as ``:.staging:``.

    The default context is the empty text.
    """
    if subject is None or not subject.startswith(":."):
        return ""
    name, colon, _ = subject[1:].partition(":")
    return f":{name}{colon}"


def _get(
    path: tuple[str, ...],
    query: Mapping[str, str | int | bool | None] | None = None,
    *,
    subject: str | None = None,
    is_shared: bool = False,
) -> Request:
    return Request(method="GET", path=path, query=query or {}, subject=subject, is_shared=is_shared)


def _put(
    path: tuple[str, ...], body: Any, subject: str | None, query: Mapping[str, Any] | None = None
) -> Request:
    return Request(method="PUT", path=path, query=query or {}, body=body, subject=subject)


def _delete(
    path: tuple[str, ...], subject: str | None, query: Mapping[str, Any] | None = None
) -> Request:
    return Request(method="DELETE", path=path, query=query or {}, subject=subject)


def _scope(kind: str, subject: str | None) -> tuple[str, ...]:
    return (kind,) if subject is None else (kind, subject)


def _numbers(found: Iterable[int]) -> list[int]:
    return [int(each) for each in found]


def _texts(found: Iterable[str]) -> list[str]:
    return [str(each) for each in found]


def _registered_schemas(found: Iterable[Mapping[str, Any]]) -> list[RegisteredSchema]:
    return [RegisteredSchema.of(each) for each in found]


def _fields(found: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(found or {})


def _mode(found: Mapping[str, Any]) -> str:
    return str(found["mode"])


def _compatibility(found: Mapping[str, Any]) -> CompatibilityResult:
    return CompatibilityResult(
        is_compatible=bool(found["is_compatible"]), messages=tuple(found.get("messages") or ())
    )
