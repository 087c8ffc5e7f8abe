"""The listeners of a node, from its listener keys.

This module decides which listeners clients connect to, which addresses are advertised, and which
listeners are the controller's. It binds nothing. Other nodes of the cluster and admin clients
(KIP-919) connect to the controller's listeners.

An invalid combination is a ``ConfigError``: an unknown protocol, an advertised address that no
client can connect to, a name or a port given twice.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from log_service.common.errors import ConfigError
from log_service.config.sasl import sasl_config
from log_service.config.security import PLAINTEXT_SECURITY, PROTOCOLS, ListenerSecurity
from log_service.config.tls import tls_config
from log_service.config.views import ListenerConfig

ENDPOINT = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9_.-]*)):(?P<port>\d{1,5})"
)
EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - looked for, not bound


class EndPoint(NamedTuple):
    """One ``NAME://host:port``. Names are in upper case, as in Kafka."""

    name: str
    host: str
    port: int


def parse_end_points(key: str, texts: Iterable[str]) -> tuple[EndPoint, ...]:
    """Return the endpoints of a listener key.

    Raises:
        ConfigError: a text is not ``NAME://host:port``, or a name comes twice.
    """
    end_points = tuple(_parse_end_point(key, text) for text in texts)
    names = [end_point.name for end_point in end_points]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"{key} names listener {name} twice; give each listener a name of its own"
            )
    return end_points


def _parse_end_point(key: str, text: str) -> EndPoint:
    match = ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ConfigError(
            f"{key} holds {text!r}, which is not NAME://host:port with a port of at most 65535"
        )
    return EndPoint(match["name"].upper(), match["ipv6"] or match["host"], int(match["port"]))


def parse_protocol_map(text: str) -> dict[str, str]:
    """Return the security protocol of each listener name of ``listener.security.protocol.map``.

    Raises:
        ConfigError: an item is not ``NAME:PROTOCOL`` with one of Kafka's four protocols.
    """
    protocols: dict[str, str] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        name, _, protocol = item.partition(":")
        if protocol.strip().upper() not in PROTOCOLS:
            known = ", ".join(PROTOCOLS)
            raise ConfigError(
                f"listener.security.protocol.map holds {item!r}; each item is NAME:PROTOCOL with"
                f" one of {known}"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_metrics_listener(text: str) -> tuple[str, int] | None:
    """Return host and port of ``metrics.listener``, or None for an empty text.

    An empty host means all addresses of the machine.

    Raises:
        ConfigError: the value is not ``host:port``.
    """
    if not text.strip():
        return None
    match = ENDPOINT.fullmatch(f"METRICS://{text.strip()}")
    if match is None or int(match["port"]) > 65_535:
        raise ConfigError(
            f"metrics.listener is {text!r}, which is not host:port with a port of at most 65535,"
            " for example 127.0.0.1:9404"
        )
    return match["ipv6"] or match["host"], int(match["port"])


class ListenerKeys(NamedTuple):
    """The parsed listener keys of one node."""

    listeners: tuple[EndPoint, ...]
    advertised: tuple[EndPoint, ...] | None
    protocols: Mapping[str, str]
    controller_names: tuple[str, ...]
    inter_broker_name: str | None
    inter_broker_protocol: str
    host_name: str
    texts: Mapping[str, str]
    """All keys as given. Some of them protect a listener."""

    def __repr__(self) -> str:
        return (  # omits the texts, which include passwords
            f"<ListenerKeys {', '.join(endpoint.name for endpoint in self.listeners)}>"
        )


def broker_listeners(keys: ListenerKeys, *, is_broker: bool = True) -> tuple[ListenerConfig, ...]:
    """Return the listeners for clients and other brokers in file order, none without a broker.

    Raises:
        ConfigError: a broker names no listener, a node that is only a controller names one, a port
            is given twice, a listener cannot be protected as its keys say, or clients cannot
            connect to an advertised address.
    """
    _validate_ports(keys.listeners)
    brokers = [
        end_point for end_point in keys.listeners if end_point.name not in keys.controller_names
    ]
    if not is_broker:
        if brokers:
            text = (
                f"listeners names {brokers[0].name}, which controller.listener.names does not, but"
                " process.roles is controller"
            )
            raise ConfigError(f"{text}; remove the listener, or add the role broker")
        return ()
    if not brokers:
        raise ConfigError(
            "listeners names no listener for clients; add one such as PLAINTEXT://127.0.0.1:9092"
        )
    advertised = _advertised(keys, brokers)
    return tuple(
        ListenerConfig(
            name=end_point.name,
            host=end_point.host,
            port=end_point.port,
            advertised_host=advertised[end_point.name].host,
            advertised_port=advertised[end_point.name].port,
            security=_protection(end_point.name, keys),
        )
        for end_point in brokers
    )


def controller_listeners(keys: ListenerKeys) -> tuple[ListenerConfig, ...]:
    """Return the controller's listeners, in the order of ``controller.listener.names``.

    Raises:
        ConfigError: a listener cannot be protected as its keys say.
    """
    bound = {end_point.name: end_point for end_point in keys.listeners}
    advertised = {end_point.name: end_point for end_point in keys.advertised or ()}
    return tuple(
        _controller_listener(keys, bound[name], advertised.get(name, bound[name]))
        for name in keys.controller_names
        if name in bound
    )


def _controller_listener(
    keys: ListenerKeys, bound: EndPoint, advertised: EndPoint
) -> ListenerConfig:
    return ListenerConfig(
        name=bound.name,
        host=bound.host,
        port=bound.port,
        advertised_host=keys.host_name if advertised.host in EVERY_ADDRESS else advertised.host,
        advertised_port=advertised.port,
        security=_protection(bound.name, keys),
    )


def inter_broker_listener(keys: ListenerKeys, listeners: tuple[ListenerConfig, ...]) -> str:
    """Return the name of the listener on which nodes connect to each other.

    Raises:
        ConfigError: no listener has the configured name or security protocol.
    """
    names = [listener.name for listener in listeners]
    if not names:
        return (keys.inter_broker_name or keys.inter_broker_protocol).upper()
    if keys.inter_broker_name is not None:
        name = keys.inter_broker_name.upper()
        if name in keys.controller_names:
            raise ConfigError(
                f"inter.broker.listener.name is {name}, a listener of the controller; name one of"
                f" {', '.join(names)}"
            )
        if name not in names:
            raise ConfigError(
                f"inter.broker.listener.name is {name}, but the listeners are {', '.join(names)};"
                " name one of them"
            )
        return name
    protocol = keys.inter_broker_protocol
    speaking = [listener.name for listener in listeners if listener.security.protocol == protocol]
    if not speaking:
        listed = ", ".join(
            f"{listener.name} ({listener.security.protocol})" for listener in listeners
        )
        raise ConfigError(
            f"security.inter.broker.protocol is {protocol}, but the listeners are {listed}; set"
            " inter.broker.listener.name"
        )
    return protocol if protocol in speaking else speaking[0]


def _validate_ports(listeners: tuple[EndPoint, ...]) -> None:
    taken: dict[int, EndPoint] = {}
    for listener in listeners:
        other = taken.setdefault(listener.port, listener)
        if listener.port and other is not listener and (_overlaps(listener.host, other.host)):
            raise ConfigError(
                f"listeners {other.name} and {listener.name} both use port {listener.port}; give"
                " each its own port"
            )


def _overlaps(one: str, other: str) -> bool:
    return one == other or one in EVERY_ADDRESS or other in EVERY_ADDRESS


def _advertised(keys: ListenerKeys, brokers: list[EndPoint]) -> dict[str, EndPoint]:
    if keys.advertised is None:
        advertised = {
            end_point.name: end_point._replace(host=end_point.host or keys.host_name)
            for end_point in brokers
        }
    else:
        advertised = {
            end_point.name: end_point
            for end_point in keys.advertised
            if end_point.name not in keys.controller_names
        }
        names = {end_point.name for end_point in brokers}
        for name in advertised.keys() ^ names:
            where = "advertised.listeners" if name in advertised else "listeners"
            raise ConfigError(
                f"listener {name} stands only in {where}; listeners and advertised.listeners must"
                " name the same ones"
            )
    for name, end_point in advertised.items():
        if end_point.host in EVERY_ADDRESS:
            raise ConfigError(
                f"clients would be told to connect to {end_point.host or 'an empty host'} for"
                f" listener {name}, which is not an address; set advertised.listeners to a host"
                " name or address that clients reach"
            )
    return advertised


def _protection(name: str, keys: ListenerKeys, *, is_bound: bool = True) -> ListenerSecurity:
    """Return the security of a listener.

    If ``is_bound`` is false, another node binds the listener and decides its SASL mechanisms.
    """
    protocol = protocol_of(name, keys.protocols)
    if protocol == "PLAINTEXT":
        return PLAINTEXT_SECURITY
    is_sasl = protocol.startswith("SASL")
    return ListenerSecurity(
        protocol=protocol,
        tls=tls_config(keys.texts, name, is_sasl=is_sasl) if protocol.endswith("SSL") else None,
        sasl=sasl_config(keys.texts, name) if is_sasl and is_bound else None,
    )


def controller_security(
    keys: ListenerKeys, listeners: tuple[ListenerConfig, ...]
) -> ListenerSecurity:
    """Return the security of this node's connections to controllers.

    It follows the first of ``controller.listener.names``, even if this node is not a controller.

    Raises:
        ConfigError: the listener of controllers has no protocol, though others are protected; or
            its keys contradict each other.
    """
    name = keys.controller_names[0]
    if name not in keys.protocols and all(
        listener.security is PLAINTEXT_SECURITY for listener in listeners
    ):
        return PLAINTEXT_SECURITY
    return _protection(name, keys, is_bound=False)


def protocol_of(name: str, protocols: Mapping[str, str]) -> str:
    """Return the security protocol of a listener.

    Raises:
        ConfigError: ``protocols`` does not contain the listener.
    """
    protocol = protocols.get(name)
    if protocol is None:
        raise ConfigError(
            f"listener {name} has no security protocol; add {name}:PLAINTEXT to"
            " listener.security.protocol.map"
        )
    return protocol
