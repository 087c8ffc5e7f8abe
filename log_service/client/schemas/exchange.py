"""Decides to which URL of a registry a request goes, and when it is repeated.

A core is a generator: it yields a request or a pause, and the outcome of the request is sent into
it. A driver, which does the I/O, executes both. A request goes first to the URL that gave the last
final response, then to the others. If no URL gives a final response, a random pause follows. Its
upper limit doubles each time, up to ``retries_max_wait_ms``.

Invariant: one call sends at most ``(max_retries + 1) * len(urls)`` requests.
"""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from log_service.client.schemas.errors import NO_CODE, NO_RESPONSE, RETRIABLE, SchemaRegistryError
from log_service.client.schemas.settings import RegistryClientSettings

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
ACCEPTED: Final = f"{MEDIA_TYPE}, application/vnd.schemaregistry+json, application/json"
KNOWS_NEW_FIELDS: Final = "Confluent-Accept-Unknown-Properties"
"""The header without which Confluent's registry leaves out newer fields, such as the guid."""
MAX_SHOWN_BYTES: Final = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One HTTP request. With ``is_shared``, concurrent equal requests may share one response."""

    method: str
    url: str
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The response to a request."""

    status: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFailure:
    """The reason why a request got no response."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A wait before the next request."""

    seconds: float


Outcome = HttpResponse | HttpFailure
Steps = Generator[HttpCall | Pause, Outcome | None, T]
"""A core at work. Pauses are answered with None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of the registry's API, before one of the registry's URLs is chosen."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    body: Any = None
    subject: str | None = None
    is_shared: bool = False

    @property
    def target(self) -> str:
        """The path and query. Every segment of the path is percent-encoded, also slashes in it."""
        path = "/" + "/".join(quote(each, safe="") for each in self.path)
        query = {
            name: str(value).lower() if value is True else str(value)
            for name, value in self.query.items()
            if value is not None
        }
        return f"{path}?{urlencode(query)}" if query else path


class Exchange:
    """Chooses URLs and repeats requests for a core. ``random`` returns numbers from 0 to 1."""

    def __init__(self, settings: RegistryClientSettings, random: Callable[[], float]) -> None:
        self._settings = settings
        self._random = random
        self._first = 0

    def ask(self, request: Request, read: Callable[[Any], T]) -> Steps[T]:
        """Send a request, and return the value that ``read`` makes from the response's JSON.

        Raises:
            SchemaRegistryError: the registry refused the request, or none responded.
        """
        settings, outcome, url = self._settings, None, ""
        for attempt in range(settings.max_retries + 1):
            if attempt:
                yield Pause(seconds=self._pause_s(attempt - 1))
            for index in self._in_turn():
                url = settings.urls[index]
                outcome = yield self._call(request, url)
                if isinstance(outcome, HttpResponse) and outcome.status not in RETRIABLE:
                    self._first = index
                    return _read(request, url, outcome, read)
        if isinstance(outcome, HttpResponse):
            return _read(request, url, outcome, read)
        text = outcome.text if isinstance(outcome, HttpFailure) else "no outcome"
        address = ", ".join(settings.urls)
        raise SchemaRegistryError(
            NO_RESPONSE,
            NO_CODE,
            text,
            address=address,
            subject=request.subject,
            request=_shown(request),
        )

    def _in_turn(self) -> list[int]:
        count = len(self._settings.urls)
        return [(self._first + step) % count for step in range(count)]

    def _pause_s(self, retries: int) -> float:
        longest = min(
            self._settings.retries_wait_ms * (1 << retries), self._settings.retries_max_wait_ms
        )
        return self._random() * longest / 1000

    def _call(self, request: Request, url: str) -> HttpCall:
        content = None if request.body is None else json.dumps(request.body).encode()
        headers = {
            "Accept": ACCEPTED,
            "User-Agent": "tidelog",
            KNOWS_NEW_FIELDS: "true",
            **self._settings.login_headers(),
        }
        if content is not None:
            headers["Content-Type"] = MEDIA_TYPE
        return HttpCall(
            method=request.method,
            url=url + request.target,
            content=content,
            headers=headers,
            is_shared=request.is_shared,
        )


def _read(request: Request, url: str, response: HttpResponse, read: Callable[[Any], T]) -> T:
    """Return the value that ``read`` makes from a response's JSON.

    Raises:
        SchemaRegistryError: the registry refused the request, or the response is unreadable.
    """
    is_success = 200 <= response.status < 300
    try:
        body = json.loads(response.content) if response.content else None
        if is_success:
            return read(body)
    except (ValueError, LookupError, TypeError, AttributeError):
        shown = response.content[:MAX_SHOWN_BYTES].decode(errors="replace")
        body = {"message": f"the response is not one of a schema registry: {shown!r}"}
    found = body if isinstance(body, dict) else {}
    code, text = found.get("error_code"), found.get("message")
    raise SchemaRegistryError(
        response.status,
        code if isinstance(code, int) else NO_CODE,
        text if isinstance(text, str) and text else "the response gives no reason",
        address=url,
        subject=request.subject,
        request=_shown(request),
    )


def _shown(request: Request) -> str:
    return f"{request.method} {request.target}"
