"""How the listeners of a node are protected, and the connections that the node itself opens.

Decides that nothing is served in the clear that was asked to be protected. What the keys mean is decided in ``config``.
"""

from log_service.common.errors import ConfigError
from log_service.config.views import NodeConfig

SERVED = ("PLAINTEXT", "SASL_PLAINTEXT")


def refuse_unprotected(config: NodeConfig) -> None:
    """Refuse listeners whose protection this version does not have.

    Raises:
        ConfigError: one of them asks for TLS.
    """
    for listener in (*config.listeners, *config.controller_listeners):
        if listener.security.protocol not in SERVED:
            raise ConfigError(
                f"listener {listener.name} asks for {listener.security.protocol}; only {' and '.join(SERVED)} are there in this version, "
                "listen on loopback or a private network"
            )
