"""A registry in memory behind its routes. Records of its topic are applied as soon as written."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from log_service.http.schema_registry.api.routes import registry_service
from log_service.http.schema_registry.authorization import Access, open_access
from log_service.http.schema_registry.log.reader import LogRecord
from log_service.http.schema_registry.records import RegistryRecord, StoredSchema, schema_record
from log_service.http.schema_registry.registry import Registry, RegistryIdentity
from log_service.http.schema_registry.state_keeper import StateKeeper
from log_service.http.server.metrics import HttpMeter
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse
from tests.sim import VirtualClock

ANN = "User:ann"


class MemoryLog:
    """The topic as a list. ``pause`` is awaited before each write."""

    def __init__(self, keeper: StateKeeper) -> None:
        self._keeper = keeper
        self.records: list[LogRecord] = []
        self.pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    async def prepare_write(self, timeout_ms: int) -> None:
        """Know the end already."""
        await self.pause()

    async def write(self, records: list[tuple[bytes, bytes | None]], timeout_ms: int) -> int:
        """Keep records, and let the registry read them."""
        for key, value in records:
            self.append(key, value)
        return len(self.records) - 1

    async def read_to(self, offset: int, timeout_ms: int) -> None:
        """Have read everything already."""

    def append(self, key: bytes | None, value: bytes | None) -> None:
        """Add a record of somebody else."""
        record = LogRecord(offset=len(self.records), timestamp_ms=1, key=key, value=value)
        self.records.append(record)
        self._keeper.apply(record)


@dataclass(kw_only=True)
class Served:
    """A registry that writes, and its routes."""

    access: Access = open_access
    keeper: StateKeeper = field(default_factory=StateKeeper)

    def __post_init__(self) -> None:
        self.log = MemoryLog(self.keeper)
        self.registry = Registry(
            self.keeper, self.log, RegistryIdentity(cluster_id="c", group="g"), self.access
        )
        self.registry.is_writer = True
        self.registry.note_loaded()
        self.service = registry_service(self.registry, None, HttpMeter(VirtualClock()))

    def have(self, *records: RegistryRecord | StoredSchema) -> None:
        """Let the topic have records."""
        for each in records:
            record = schema_record(each) if isinstance(each, StoredSchema) else each
            self.log.append(record.key.encode(), record.value)

    async def ask(
        self, method: str, target: str, body: Any = None, *, principal: str = ANN, **headers: str
    ) -> tuple[int, Any]:
        """Return the status of a response, and its body as a value."""
        response = await self.respond(method, target, body, principal=principal, **headers)
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body or b"null")

    async def respond(
        self, method: str, target: str, body: Any = None, *, principal: str = ANN, **headers: str
    ) -> HttpResponse:
        """Return a response, whose pieces are joined."""
        path, _, query = target.partition("?")
        content = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        pairs = (pair.partition("=") for pair in query.split("&") if pair)
        try:
            route, values = self.service.router.find(method, path)
            request = HttpRequest(
                method=method,
                path=path,
                query=tuple((name, value) for name, _, value in pairs),
                headers={name.replace("_", "-"): value for name, value in headers.items()},
                body=content,
                path_values=values,
                principal=principal,
                peer="192.0.2.1",
            )
            response = await route.handler(request)
        except HttpError as error:
            response = self.service.error_response(error)
        if isinstance(response.body, bytes):
            return response
        whole = b"".join([piece async for piece in response.body])
        return HttpResponse(status=response.status, body=whole, content_type=response.content_type)


def tell(story: Callable[[Served], Awaitable[None]], served: Served | None = None) -> None:
    """Run a story of one registry."""
    trio.run(story, served or Served())
