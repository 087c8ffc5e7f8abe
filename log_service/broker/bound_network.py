"""Listeners that are bound before they serve.

A broker tells the controller the ports that it really bound, and must not answer before the controller has let it in. Until then the
operating system keeps new connections waiting, as many as the backlog allows. ``BoundNetwork`` hands such a listener to the server that
asks to listen.
"""

from log_service.common.env import Connection, Listener, Network


class BoundNetwork:
    """A network whose one ``listen`` returns what is bound already."""

    def __init__(self, network: Network, listener: Listener) -> None:
        self._network = network
        self._listener = listener

    async def listen(self, host: str, port: int, *, backlog: int = 128) -> Listener:  # noqa: ARG002 - decided when it was bound
        """Return the bound listener."""
        return self._listener

    async def connect(self, host: str, port: int) -> Connection:
        """Connect as the network does."""
        return await self._network.connect(host, port)
