"""TLS for the connections that we open: a client's, and those between nodes.

Decides that a stream is spoken on only after a handshake in which the other side has proved to be the host that was dialled. The context is
a reference that ``replace`` changes: connections that are open keep theirs.
"""

from log_service.common.env import Connection
from log_service.config.security import TlsConfig
from log_service.rpc.connection import Destination, RpcConnection
from log_service.security.tls.connection import TlsConnection
from log_service.security.tls.contexts import Contexts, client_context
from log_service.security.tls.failures import TlsError
from log_service.security.tls.material import Read


class OutgoingTls:
    """One side's connections with TLS: an ``rpc.Security`` without a login.

    Raises:
        ConfigError: the configuration cannot be honoured.
    """

    def __init__(self, config: TlsConfig, read: Read) -> None:
        self.contexts = client_context(config, read)

    def __repr__(self) -> str:
        return f"<OutgoingTls key={self.contexts.key is not None}>"

    def replace(self, contexts: Contexts) -> None:
        """Have connections from now on use these contexts."""
        self.contexts = contexts

    async def secure(self, destination: Destination, stream: Connection) -> Connection:
        """Shake hands with a node, and return the stream to speak on. The caller sets the deadline, and closes the stream on failure.

        Raises:
            TlsError: the node does not speak TLS, or is not the host that was dialled, or does not accept us.
            OSError: the node is gone.
        """
        secured = TlsConnection(stream, self.contexts.context, server_hostname=destination.host)
        try:
            await secured.handshake()
        except TlsError as error:
            raise TlsError(f"{destination.host}:{destination.port}: {error.strerror}") from error
        return secured

    async def authenticate(self, connection: RpcConnection) -> None:
        """Do nothing: the certificate has said who we are."""
