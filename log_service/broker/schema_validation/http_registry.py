"""A schema registry that is reached over HTTP, by Confluent's REST API.

Decides which requests are sent, and which responses are used. A response that does not come from a
registry is ignored, so a wrong URL refuses no record.

Invariants: a request runs in a thread, and its time and size are bounded. No error text has
the login.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import trio

from log_service.broker.schema_validation.record_names import record_names
from log_service.broker.schema_validation.registry import Registered, RegistryUnavailableError
from log_service.common.registry_errors import NO_OWN_CONFIG, NOT_FOUND
from log_service.config.schema_registry import SchemaRegistryConfig
from log_service.records.rules import SchemaName
from log_service.security.issuer_errors import IssuerError
from log_service.security.issuer_requests import IssuerTls, Response, exchange

REQUEST_TIMEOUT_S: Final = 3.0
MAX_THREADS: Final = 4
"""Threads that may wait for the registry at once, also those whose callers gave up."""
MAX_SUBJECTS: Final = 1_000
DEFAULT_CONTEXT: Final = "."
ACCEPTED: Final = "application/vnd.schemaregistry.v1+json, application/json"

Exchange = Callable[..., Response]


class HttpRegistry:
    """The registry at the URLs of a configuration. The one that responded last is asked first."""

    def __init__(self, config: SchemaRegistryConfig, ask: Exchange = exchange) -> None:
        self._config = config
        self._ask = ask
        self._tls = _tls(config)
        self._first = 0
        self._threads = trio.CapacityLimiter(MAX_THREADS)
        self._headers = {"Accept": ACCEPTED, "User-Agent": "tidelog"}
        if config.user is not None:
            login = b64encode(config.user.reveal().encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def __repr__(self) -> str:
        return f"<HttpRegistry {', '.join(self._config.urls)}>"

    async def registered(self, name: SchemaName, *, has_record_names: bool) -> Registered:
        """Return the subjects under which a schema is registered.

        Raises:
            RegistryUnavailableError: no registry gave a usable response.
        """
        find = partial(self._registered, name, has_record_names=has_record_names)
        return await trio.to_thread.run_sync(find, abandon_on_cancel=True, limiter=self._threads)

    async def aliased(self, subject: str) -> str:
        """Return the subject that an alias refers to, or the subject itself.

        If this broker may not read the settings of a subject, the subject is not taken as an alias.

        Raises:
            RegistryUnavailableError: no registry gave a usable response.
        """
        path = f"/config/{quote(subject, safe='')}"
        find = partial(self._get, path, _alias, is_optional=True)
        found = await trio.to_thread.run_sync(find, abandon_on_cancel=True, limiter=self._threads)
        return found or subject

    def _registered(self, name: SchemaName, *, has_record_names: bool) -> Registered:
        schema_id = name if isinstance(name, int) else self._id_of(name)
        if schema_id is None:
            return Registered()
        subjects = self._get(f"/schemas/ids/{schema_id}/subjects?limit={MAX_SUBJECTS}", _texts)
        if not subjects:
            return Registered()
        names: frozenset[str] = frozenset()
        if has_record_names:
            names = self._get(f"/schemas/ids/{schema_id}", _record_names) or frozenset()
        return Registered(subjects=frozenset(subjects), record_names=names)

    def _id_of(self, guid: bytes) -> int | None:
        """Return the id of a schema by its guid, in the default context. None if there is none."""
        found = self._get(f"/schemas/guids/{quote(str(UUID(bytes=guid)))}/ids", _default_ids)
        return found[0] if found else None

    def _get(self, path: str, read: Callable[[Any], Any], *, is_optional: bool = False) -> Any:
        """Return the result of ``read`` for the response to a GET request.

        None if there is no such schema. With ``is_optional`` also None if this broker may not read
        it.
        """
        count, failures = len(self._config.urls), []
        for step in range(count):
            index = (self._first + step) % count
            url = self._config.urls[index]
            try:
                found = self._ask_one(url, path, read, is_optional=is_optional)
            except RegistryUnavailableError as error:
                failures.append(str(error))
            else:
                self._first = index
                return found
        raise RegistryUnavailableError("; ".join(failures))

    def _ask_one(
        self, url: str, path: str, read: Callable[[Any], Any], *, is_optional: bool
    ) -> Any:
        timeout_s = REQUEST_TIMEOUT_S / len(self._config.urls)
        try:
            response = self._ask(url + path, self._tls, headers=self._headers, timeout_s=timeout_s)
        except IssuerError as error:
            raise RegistryUnavailableError(f"the schema registry: {error}") from error
        try:
            content = json.loads(response.body)
            if response.status == HTTPStatus.OK:
                return read(content)
            is_unknown = response.status == HTTPStatus.NOT_FOUND and content["error_code"] in {
                *NOT_FOUND,
                NO_OWN_CONFIG,
            }
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            is_unknown = False
        if is_unknown or (is_optional and response.status == HTTPStatus.FORBIDDEN):
            return None
        advice = ""
        if response.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            advice = "; look at confluent.basic.auth.user.info, confluent.ssl.* and the ACLs"
        text = f"the schema registry at {url} responded with status {response.status} to GET {path}"
        raise RegistryUnavailableError(text + advice)


def _tls(config: SchemaRegistryConfig) -> IssuerTls:
    advice = "name its authority as confluent.ssl.truststore.location"
    if config.tls is None:
        return IssuerTls(advice=advice)
    location = config.tls.truststore_location
    if location is not None:
        trusted = f"confluent.ssl.truststore.location={location}"
        return IssuerTls(config=config.tls, trusted=trusted, advice=advice)
    if config.tls.truststore_certificates is not None:
        trusted = "confluent.ssl.truststore.certificates"
        return IssuerTls(config=config.tls, trusted=trusted, advice=advice)
    return IssuerTls(config=config.tls, advice=advice)


def _texts(content: Any) -> list[str]:
    if not isinstance(content, list) or not all(isinstance(each, str) for each in content):
        raise TypeError
    return content


def _alias(content: Any) -> str:
    alias = content.get("alias") or ""
    if not isinstance(alias, str):
        raise TypeError
    return alias


def _default_ids(content: Any) -> list[int]:
    return [int(each["id"]) for each in content if each["context"] == DEFAULT_CONTEXT]


def _record_names(content: Any) -> frozenset[str]:
    return record_names(content["schema"], content.get("schemaType", "AVRO"))
