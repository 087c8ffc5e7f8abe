"""The listeners of one side of a node, bound, served and drained together.

A side is the broker or the controller. Decides nothing. Listeners are bound before they are served,
because a node has to advertise the ports that it got. The system keeps connections that arrive
meanwhile.
"""

from collections.abc import Callable, Sequence

import trio

from log_service.broker.protection import Protection
from log_service.common.env import Listener, NodeEnv
from log_service.config.security import PROTOCOL_NUMBERS
from log_service.config.views import ListenerConfig, NetworkLimits
from log_service.metadata.image import Endpoint
from log_service.network.server import FrameHandler, Server, ServerBudget


class ListenerGroup:
    """The listeners of ``configs``.

    ``budget`` has the limits that all listeners of the node share. ``servers`` is empty until
    ``serve`` is called.
    """

    def __init__(
        self,
        env: NodeEnv,
        configs: Sequence[ListenerConfig],
        limits: NetworkLimits,
        budget: ServerBudget,
        protection: Protection,
    ) -> None:
        self.servers: list[Server] = []
        self._env = env
        self._configs = configs
        self._limits = limits
        self._budget = budget
        self._protection = protection
        self._bound: list[Listener] = []

    def __repr__(self) -> str:
        return (
            f"<ListenerGroup {[config.name for config in self._configs]} bound={len(self._bound)}"
            f" served={len(self.servers)}>"
        )

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Advertised host and port of each bound listener by name."""
        return {
            config.name: (config.advertised_host, config.advertised_port or listener.port)
            for config, listener in zip(self._configs, self._bound, strict=False)
        }

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """Advertised host, port and protocol of each bound listener, as in the metadata."""
        numbers = {
            config.name: PROTOCOL_NUMBERS[config.security.protocol] for config in self._configs
        }
        return {
            name: Endpoint(host=host, port=port, security_protocol=numbers[name])
            for name, (host, port) in self.addresses.items()
        }

    async def bind(self) -> None:
        """Bind the addresses.

        Raises:
            OSError: an address cannot be bound.
        """
        for config in self._configs:
            self._bound.append(
                await self._env.network.listen(
                    config.host, config.port, backlog=self._limits.backlog
                )
            )

    async def serve(
        self, handler_of: Callable[[ListenerConfig], FrameHandler], nursery: trio.Nursery
    ) -> None:
        """Serve connections in ``nursery``.

        ``handler_of`` returns the frame handler of a listener.
        """
        for config, bound in zip(self._configs, self._bound, strict=True):
            handler = handler_of(config)
            server = Server(
                env=self._env,
                listener=config,
                limits=self._limits,
                handler=handler,
                shared=self._budget,
                bound=bound,
                secure=self._protection.secure_of(config.name),
            )
            await nursery.start(server.run)
            self.servers.append(server)

    async def drain(self, deadline_ms: int) -> None:
        """Accept no more connections, respond to the received requests, and close all connections.

        This takes ``deadline_ms`` at most.
        """
        async with trio.open_nursery() as draining:
            for server in self.servers:
                draining.start_soon(server.drain, deadline_ms)

    def close(self) -> None:
        """Release the addresses at once."""
        for listener in self._bound:
            listener.close()
