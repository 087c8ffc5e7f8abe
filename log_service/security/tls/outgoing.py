"""TLS for the connections that we open: a client's, and those between nodes.

A stream is used only after a handshake in which the other side has proved to be the dialled host.
``replace`` swaps the context. Open connections keep theirs.
"""

import logging

from log_service.common.env import Connection
from log_service.common.errors import ConfigError
from log_service.config.security import TlsConfig
from log_service.rpc.connection import Destination, RpcConnection
from log_service.security.file_digests import FileDigest, file_digest
from log_service.security.tls.connection import TlsConnection
from log_service.security.tls.contexts import Contexts, client_context
from log_service.security.tls.failures import TlsError
from log_service.security.tls.material import Read, files_of

logger = logging.getLogger(__name__)


class OutgoingTls:
    """TLS for outgoing connections: an ``rpc.Security`` without a login.

    Raises:
        ConfigError: the configuration cannot be applied.
    """

    def __init__(self, config: TlsConfig, read: Read) -> None:
        self.contexts = client_context(config, read)

    def __repr__(self) -> str:
        return f"<OutgoingTls key={self.contexts.key is not None}>"

    def replace(self, contexts: Contexts) -> None:
        """Use these contexts for new connections."""
        self.contexts = contexts

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        """Perform the handshake with a node, and return the stream to use.

        The caller sets the deadline, and closes the stream on failure.

        Raises:
            TlsError: the node does not speak TLS, or is not the host that was dialled, or does not
                accept us.
            OSError: the node is gone.
        """
        secured = TlsConnection(stream, self.contexts.context, server_hostname=destination.host)
        try:
            await secured.handshake()
        except TlsError as error:
            raise TlsError(f"{destination.host}:{destination.port}: {error.strerror}") from error
        return secured

    async def authenticate(self, connection: RpcConnection) -> None:
        """Do nothing, because the certificate has identified us."""


class RenewedTls(OutgoingTls):
    """TLS for a client's connections. Each connection uses the current content of the files.

    Certificates may therefore be renewed while the client runs. If the files are unusable, the old
    contexts stay in use, with a warning.

    Raises:
        ConfigError: the configuration cannot be applied.
    """

    def __init__(self, config: TlsConfig, read: Read) -> None:
        self._config, self._read = config, read
        self._digests = self._digests_now()
        super().__init__(config, read)

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        """Reload changed files and perform the handshake. Raises as ``OutgoingTls.secure``."""
        found = self._digests_now()
        if found != self._digests:
            self._digests = found
            try:
                self.replace(client_context(self._config, self._read))
            except ConfigError as error:
                logger.warning(
                    "The certificates of this client stay as they are, though their files have"
                    " changed: %s",
                    error,
                )
        return await super().secure(destination, stream)

    def _digests_now(self) -> list[FileDigest]:
        return [file_digest(path, self._read) for path in files_of(self._config)]
