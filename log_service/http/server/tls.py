"""TLS of an HTTP listener, with the same keys and rules as a broker's listener.

If the files of keys and authorities change, new connections use the new files. Files that cannot
be used, or with which clients could not connect any more, are ignored.
"""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from log_service.common.env import Connection
from log_service.common.errors import ConfigError
from log_service.config.security import TlsConfig
from log_service.network.responses import ConnectionContext
from log_service.security.file_digests import FileDigest, file_digest
from log_service.security.tls.contexts import Contexts, server_context
from log_service.security.tls.listener import TlsListener
from log_service.security.tls.material import Read, files_of
from log_service.security.tls.replacement import validate_replacement

FILE_CHECK_INTERVAL_S: Final = 30.0
OnChange = Callable[[], Awaitable[None]]

logger = logging.getLogger(__name__)


class HttpTls:
    """TLS of one listener. ``run`` checks its files for changes.

    ``secure`` is the ``HttpServer.secure`` of the listener. ``on_change`` is awaited once changed
    files are used.

    Raises:
        ConfigError: the configuration cannot be used.
    """

    def __init__(
        self, config: TlsConfig, read: Read = Path.read_bytes, on_change: OnChange | None = None
    ) -> None:
        self._config, self._read, self._on_change = config, read, on_change
        self._digests = self._digests_now()
        self._listener = TlsListener(config, read)

    def __repr__(self) -> str:
        return f"<HttpTls {self._listener!r}>"

    async def secure(self, stream: Connection, context: ConnectionContext) -> Connection:
        """Perform the handshake, and set the principal of ``context``.

        Raises:
            TlsError, OSError: the handshake failed, as ``TlsListener.secure`` describes.
        """
        return await self._listener.secure(stream, context)

    async def run(self) -> None:
        """Check the files for changes and use new ones, until cancelled."""
        while True:
            await trio.sleep(FILE_CHECK_INTERVAL_S)
            try:
                contexts = await trio.to_thread.run_sync(self._changed)
            except ConfigError as error:
                logger.error("The listener keeps its certificates, though files changed: %s", error)
                continue
            if contexts is not None:
                self._listener.replace(contexts)
                logger.info("The listener has new certificates, because files changed")
                if self._on_change is not None:
                    await self._on_change()

    def _changed(self) -> Contexts | None:
        """Return new TLS contexts if files have changed, otherwise None. Blocks."""
        digests = self._digests_now()
        if digests == self._digests:
            return None
        self._digests = digests
        contexts = server_context(self._config, self._read)
        validate_replacement(self._listener.contexts, contexts)
        return contexts

    def _digests_now(self) -> list[FileDigest]:
        return [file_digest(path, self._read) for path in files_of(self._config)]
