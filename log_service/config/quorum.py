"""The roles of a node and its quorum, from ``process.roles`` and the ``controller.*`` keys.

This module decides whether a node is broker, controller or both, who is in its quorum, and whether
a fresh directory begins a cluster of its own. The checks are Apache Kafka's (KafkaConfig). A node
whose file names no quorum is a quorum of one, while Kafka refuses such a file.

A combination that cannot work is a ``ConfigError``: a controller that is not among the voters, a
broker that is, a broker without a quorum, controllers without a listener.
"""

from collections.abc import Sequence

from log_service.common.errors import ConfigError
from log_service.config.listeners import EVERY_ADDRESS
from log_service.config.quorum_keys import BOOTSTRAP_SERVER, VOTER
from log_service.config.server_values import ServerValues
from log_service.config.views import ListenerConfig, QuorumConfig, QuorumServer

VOTERS, SERVERS, NAMES = (
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "controller.listener.names",
)
FIRST_BOOTSTRAP_ID = -2
"""The id of the first server whose node id is unknown, numbered downwards as in Kafka."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def roles(values: ServerValues) -> frozenset[str]:
    """Return the node's roles: ``broker``, ``controller``, or both.

    Raises:
        ConfigError: a role is named twice.
    """
    named = values.items("process.roles")
    if len(set(named)) != len(named):
        raise ConfigError(
            f"process.roles names a role twice: {','.join(named)}; write broker, controller, or"
            " broker,controller"
        )
    return frozenset(named)


def quorum_config(values: ServerValues, listener_name: str) -> QuorumConfig:
    """Return the quorum's members, times and sizes.

    Controllers talk to each other on ``listener_name``.

    Raises:
        ConfigError: a voter is named twice.
    """
    return values.view(
        QuorumConfig,
        voters=_voters(values),
        bootstrap_servers=_bootstrap_servers(values),
        listener_name=listener_name,
    )


def _voters(values: ServerValues) -> tuple[QuorumServer, ...]:
    voters: dict[int, QuorumServer] = {}
    for text in values.items(VOTERS):
        match = VOTER.fullmatch(text)
        assert match is not None, "its key accepted the value"
        voter = QuorumServer(
            int(match["id"]), _host(match["host"]), _port(VOTERS, text, match["port"])
        )
        if voters.setdefault(voter.node_id, voter) is not voter:
            raise ConfigError(f"{VOTERS} names node {voter.node_id} twice; name each voter once")
    return tuple(sorted(voters.values()))


def _bootstrap_servers(values: ServerValues) -> tuple[QuorumServer, ...]:
    servers = []
    for place, text in enumerate(values.items(SERVERS)):
        match = BOOTSTRAP_SERVER.fullmatch(text)
        assert match is not None, "its key accepted the value"
        servers.append(
            QuorumServer(
                FIRST_BOOTSTRAP_ID - place,
                _host(match["host"]),
                _port(SERVERS, text, match["port"]),
            )
        )
    return tuple(servers)


def _host(text: str) -> str:
    return text.removeprefix("[").removesuffix("]")


def _port(key: str, text: str, port: str) -> int:
    if int(port) > 65_535:
        raise ConfigError(f"{key} names {text!r}, whose port is above 65535")
    return int(port)


def validate_roles(
    node_id: int,
    node_roles: frozenset[str],
    quorum: QuorumConfig,
    names: Sequence[str],
    controller_listeners: Sequence[ListenerConfig],
) -> None:
    """Check roles, voters and controller listeners together.

    ``names`` is ``controller.listener.names``.

    Raises:
        ConfigError: the node could not take part in its quorum.
    """
    voter_ids = [voter.node_id for voter in quorum.voters]
    if "controller" in node_roles:
        _validate_controller(node_id, quorum, voter_ids, controller_listeners)
        if node_roles == {"controller"} and not controller_listeners:
            raise ConfigError(
                f"listeners names no listener of the controller; add {names[0]}://host:port, as"
                f" {NAMES} says"
            )
        return
    if controller_listeners:
        raise ConfigError(
            f"listeners names {controller_listeners[0].name}, a listener of the controller, but"
            " process.roles is broker; remove the listener, or add the role controller"
        )
    if quorum.is_auto_join_enabled:
        raise ConfigError(
            "controller.quorum.auto.join.enable makes this node a voter, but process.roles is"
            " broker; remove it, or add the role controller"
        )
    if node_id in voter_ids:
        raise ConfigError(
            f"{VOTERS} names node {node_id}, this node, but process.roles is broker; remove it"
            " there, or add the role controller"
        )
    if not quorum.voters and not quorum.bootstrap_servers:
        raise ConfigError(
            f"process.roles is broker, and no controller is named; set {SERVERS} to where"
            " controllers are, host:port"
        )


def _validate_controller(
    node_id: int,
    quorum: QuorumConfig,
    voter_ids: Sequence[int],
    controller_listeners: Sequence[ListenerConfig],
) -> None:
    if voter_ids and node_id not in voter_ids:
        named = ", ".join(map(str, voter_ids))
        raise ConfigError(
            f"{VOTERS} names node {named}, but this is node {node_id}, a controller; add this node,"
            " or remove the key"
        )
    if controller_listeners:
        return
    has_several = len(voter_ids) > 1 or len(quorum.bootstrap_servers) > 1
    others = [
        f"{server.host}:{server.port}"
        for server in quorum.bootstrap_servers
        if server.host not in LOOPBACK
    ]
    if has_several or others:
        key = VOTERS if len(voter_ids) > 1 else SERVERS
        named = "several controllers" if has_several else f"a controller at {others[0]}"
        raise ConfigError(
            f"{key} names {named}, but listeners has no listener for controllers to talk on; "
            f"add {quorum.listener_name}://host:port to listeners"
        )


def begins_alone(
    node_roles: frozenset[str], quorum: QuorumConfig, controller_listeners: Sequence[ListenerConfig]
) -> bool:
    """Whether a fresh node is a cluster of its own: both roles, and no other node in its quorum."""
    if len(node_roles) < 2:
        return False
    if quorum.voters:
        return len(quorum.voters) == 1
    if not controller_listeners:
        return True  # validate_roles ensured that its servers name only this host
    return all(
        any(_is_at(server, listener) for listener in controller_listeners)
        for server in quorum.bootstrap_servers
    )


def _is_at(server: QuorumServer, listener: ListenerConfig) -> bool:
    if server.port not in {listener.port, listener.advertised_port}:
        return False
    hosts = {listener.host, listener.advertised_host}
    return server.host in hosts or (
        server.host in LOOPBACK and bool(hosts & (LOOPBACK | EVERY_ADDRESS))
    )
