"""How the listeners of a node are protected, and the connections that the node itself opens.

Decides that nothing is served in the clear that was asked to be protected. What the keys mean is decided in ``config``.
"""

from log_service.common.errors import ConfigError
from log_service.config.views import NodeConfig


def refuse_unprotected(config: NodeConfig) -> None:
    """Refuse listeners whose protection this version does not have.

    Raises:
        ConfigError: one of them asks for TLS or SASL.
    """
    for listener in (*config.listeners, *config.controller_listeners):
        if listener.security.protocol != "PLAINTEXT":
            raise ConfigError(
                f"listener {listener.name} asks for {listener.security.protocol}; only PLAINTEXT is there in this version, "
                "listen on loopback or a private network"
            )
