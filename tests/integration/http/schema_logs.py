"""One registry's access to the topic of schemas, opened for a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from log_service.client import Admin, real_env
from log_service.http.schema_registry.log.reader import LogRecord
from log_service.http.schema_registry.log.schemas_log import LogSettings, SchemasLog

TIMEOUT_MS = 30_000


class Collected:
    """A listener that keeps all records."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.is_begun_again = trio.Event()
        self._is_begun = False

    def begin_anew(self) -> None:
        """Forget all records."""
        self.records = []
        if self._is_begun:
            self.is_begun_again.set()
        self._is_begun = True

    def apply(self, record: LogRecord) -> None:
        """Keep a record."""
        self.records.append(record)

    async def settled(self) -> None:
        """Take more records at once."""

    @property
    def keys(self) -> list[bytes | None]:
        """The keys in the order of offsets, without those of new writers."""
        return [
            record.key for record in self.records if record.key is None or b"NOOP" not in record.key
        ]


class OpenLog(SchemasLog):
    """The log with its listener."""

    def __init__(self, settings: LogSettings, admin: Admin) -> None:
        self.seen = Collected()
        super().__init__(settings, admin, self.seen, real_env())

    async def put(self, *keys: bytes) -> int:
        """Write one batch with these keys."""
        return await self.write([(key, b"value of " + key) for key in keys], TIMEOUT_MS)


@asynccontextmanager
async def open_log(servers: str, topic: str, **client: Any) -> AsyncIterator[OpenLog]:
    """Open the topic, and read it to its end."""
    settings = LogSettings(bootstrap_servers=servers, topic=topic, client=client)
    async with Admin(servers, **client) as admin, trio.open_nursery() as nursery:
        log = OpenLog(settings, admin)
        await nursery.start(log.run)
        await log.read_to_end(TIMEOUT_MS)
        yield log
        nursery.cancel_scope.cancel()
