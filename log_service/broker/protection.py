"""TLS and logins of a node's listeners, and of the connections that the node itself opens.

Decides the protection of each listener and of each own connection. Connections to brokers use the
settings of the listener between brokers. Connections to controllers use the settings of the first
controller listener. A protected listener or connection never speaks plaintext. ``config`` decides
the meaning of the keys. ``security.tls`` implements TLS, and a node without TLS does not import it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from log_service.common.access import ANONYMOUS
from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError
from log_service.config.client_security import LoginConfig
from log_service.config.security import ListenerSecurity
from log_service.config.views import ListenerConfig, NodeConfig
from log_service.network.server import Secure

if TYPE_CHECKING:
    from log_service.broker.certificates import Certificates
    from log_service.rpc.connection import Security
    from log_service.security.tls.listener import TlsListener
    from log_service.security.tls.outgoing import OutgoingTls


class Protection:
    """TLS and logins of one node's listeners and of its own connections.

    Raises:
        ConfigError: a listener cannot be protected as configured: a store cannot be read, a
            certificate has expired.
    """

    def __init__(self, env: NodeEnv, config: NodeConfig) -> None:
        self.tls_listeners: dict[str, TlsListener] = {}
        self.outgoing_tls: dict[str, OutgoingTls] = {}
        self._env = env
        self._config = config
        self.between_brokers = self._outgoing(
            config.inter_broker_security,
            config.inter_broker_listener_name,
            config.inter_broker_login,
        )
        self.to_controllers = self._outgoing(
            config.controller_security, config.quorum.listener_name, config.controller_login
        )
        for listener in (*config.listeners, *config.controller_listeners):
            if listener.security.tls is not None:
                self.tls_listeners[listener.name] = _tls_listener(env, listener)

    def __repr__(self) -> str:
        return f"<Protection TLS on {', '.join(self.tls_listeners) or 'no listener'}>"

    def secure_of(self, listener_name: str) -> Secure | None:
        """Return the function that secures a stream of a listener, None for plaintext."""
        tls = self.tls_listeners.get(listener_name)
        return None if tls is None else tls.secure

    def certificates(self, static_texts: Mapping[str, str]) -> "Certificates | None":
        """Return the updater of certificates, None for a node without TLS."""
        if not self.tls_listeners and not self.outgoing_tls:
            return None
        from log_service.broker.certificates import (  # noqa: PLC0415 - see the module's opening
            Certificates,
        )

        return Certificates(
            self._env, self._config, static_texts, self.tls_listeners, self.outgoing_tls
        )

    def _outgoing(
        self, security: ListenerSecurity, listener_name: str, login: LoginConfig | None
    ) -> "Security | None":
        """Return the security of connections to other nodes, None for plaintext without a login."""
        tls = self._outgoing_tls(security, listener_name)
        if login is None:
            return tls
        from log_service.security.login import (  # noqa: PLC0415 - see the module's opening
            ClientLogin,
        )
        from log_service.security.outgoing import OutgoingSecurity  # noqa: PLC0415 - as above

        try:
            files = self._env.files
            return OutgoingSecurity(
                tls, ClientLogin(login, self._env.rng, files.run_in_pool, files.read_bytes)
            )
        except ConfigError as error:
            raise ConfigError(
                f"logins on listener {listener_name} of other nodes: {error}"
            ) from error

    def _outgoing_tls(self, security: ListenerSecurity, listener_name: str) -> "OutgoingTls | None":
        if security.tls is None or (
            self._config.is_alone and not self._config.controller_listeners
        ):
            return None
        if listener_name not in self.outgoing_tls:
            from log_service.security.tls.outgoing import OutgoingTls  # noqa: PLC0415 - as above

            try:
                self.outgoing_tls[listener_name] = OutgoingTls(
                    security.tls, self._env.files.read_bytes
                )
            except ConfigError as error:
                raise ConfigError(
                    f"connections to listener {listener_name} of other nodes: {error}"
                ) from error
        return self.outgoing_tls[listener_name]


def own_name(config: NodeConfig) -> str:
    """Return this node's principal at controllers, by its configuration."""
    login = config.controller_login
    if login is not None and login.jaas is not None and login.mechanism != "OAUTHBEARER":
        from log_service.security.sasl.jaas import (  # noqa: PLC0415 - see the module's opening
            parse_jaas,
        )

        user = parse_jaas(login.jaas.reveal()).options.get("username")
        return f"User:{user.reveal()}" if user is not None else "the user of its login"
    if login is not None:
        return "the user that its token names"
    return (
        str(ANONYMOUS)
        if config.controller_security.tls is None
        else "the user that its certificate names"
    )


def _tls_listener(env: NodeEnv, listener: ListenerConfig) -> "TlsListener":
    from log_service.security.tls.listener import (  # noqa: PLC0415 - see the module's opening
        TlsListener,
    )

    security = listener.security
    assert security.tls is not None
    try:
        return TlsListener(
            security.tls,
            env.files.read_bytes,
            is_client_named=security.protocol == "SSL",
            run_in_pool=env.files.run_in_pool,
        )
    except ConfigError as error:
        raise ConfigError(f"listener {listener.name}: {error}") from error
