"""The listener keys have a meaning together."""

import pytest

from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig


def parse(text: str) -> NodeConfig:
    return parse_server_properties("node.id=1\n" + text, host_name="this-host")[0]


def test_a_listener_on_every_address_is_advertised_by_the_hosts_name() -> None:
    (listener,) = parse("listeners=PLAINTEXT://:9092").listeners
    assert (listener.host, listener.advertised_host, listener.advertised_port) == (
        "",
        "this-host",
        9092,
    )


def test_clients_are_told_what_advertised_listeners_says() -> None:
    (listener,) = parse(
        "listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://broker.example:19092"
    ).listeners
    assert (listener.host, listener.port) == ("0.0.0.0", 9092)
    assert (listener.advertised_host, listener.advertised_port) == ("broker.example", 19092)


def test_several_listeners_keep_their_order_and_names() -> None:
    node = parse(
        "listeners=INSIDE://10.0.0.1:9092,OUTSIDE://127.0.0.1:9093\n"
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT\n"
        "inter.broker.listener.name=outside"
    )
    assert [listener.name for listener in node.listeners] == ["INSIDE", "OUTSIDE"]
    assert node.inter_broker_listener_name == "OUTSIDE"


def test_an_ipv6_address_stands_in_brackets() -> None:
    (listener,) = parse("listeners=PLAINTEXT://[::1]:9092").listeners
    assert listener.host == "::1"


def test_port_zero_may_be_asked_for_more_than_once() -> None:
    node = parse(
        "listeners=A://127.0.0.1:0,B://127.0.0.1:0\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    )
    assert [listener.port for listener in node.listeners] == [0, 0]


def test_the_same_port_on_two_addresses_is_fine() -> None:
    node = parse(
        "listeners=A://127.0.0.1:9092,B://127.0.0.2:9092\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    )
    assert len(node.listeners) == 2


def test_a_node_without_a_controller_listener_has_none() -> None:
    assert parse("listeners=PLAINTEXT://127.0.0.1:9092").controller_listener is None


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_speaks_the_protocol_of_its_name(protocol: str) -> None:
    login = f"sasl.enabled.mechanisms=SCRAM-SHA-256\nlistener.name.{protocol.lower()}.scram-sha-256.sasl.jaas.config=x\n"
    (listener,) = parse(
        f"{login}listeners={protocol}://127.0.0.1:1\nsecurity.inter.broker.protocol={protocol}"
    ).listeners
    assert listener.security.protocol == protocol
    assert (listener.security.tls is not None) == protocol.endswith("SSL")
    assert (listener.security.sasl is not None) == protocol.startswith("SASL")


def test_nodes_talk_on_the_listener_that_speaks_the_protocol_between_them() -> None:
    listeners = "listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2\n"
    assert parse(listeners).inter_broker_listener_name == "PLAINTEXT"
    assert (
        parse(listeners + "security.inter.broker.protocol=SSL").inter_broker_listener_name == "SSL"
    )


def test_a_listeners_own_key_wins_over_the_general_one() -> None:
    node = parse(
        "listeners=PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2\n"
        "ssl.client.auth=required\nlistener.name.ssl.ssl.client.auth=none\nssl.keystore.type=PEM\nssl.keystore.location=/k.pem"
    )
    tls = node.listeners[1].security.tls
    assert tls is not None
    assert (tls.client_auth, tls.keystore_type, tls.keystore_location) == ("none", "PEM", "/k.pem")


def test_the_general_client_auth_does_not_count_on_a_listener_with_sasl() -> None:
    text = (
        "listeners=SASL_SSL://127.0.0.1:1\nsecurity.inter.broker.protocol=SASL_SSL\nssl.client.auth=required\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-256\nlistener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=x\n"
    )
    (listener,) = parse(text).listeners
    assert listener.security.tls is not None
    assert listener.security.tls.client_auth == "none"
    (listener,) = parse(text + "listener.name.sasl_ssl.ssl.client.auth=required").listeners
    assert listener.security.tls is not None
    assert listener.security.tls.client_auth == "required"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("listeners=PLAINTEXT//h:1", "PLAINTEXT//h:1"),
        ("listeners=PLAINTEXT://h:99999", "65535"),
        ("listeners=", "must not be empty"),
        ("listeners=PLAINTEXT://a:1,PLAINTEXT://b:2", "PLAINTEXT twice"),
        ("listeners=A://:1,B://127.0.0.1:1\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "both use port 1"),
        ("listeners=CONTROLLER://127.0.0.1:1", "no listener for clients"),
        ("listeners=SSL://127.0.0.1:1", "the listeners are SSL (SSL); set inter.broker.listener.name"),
        ("listeners=HOME://127.0.0.1:1", "HOME has no security protocol"),
        ("listeners=PLAINTEXT://0.0.0.0:1", "advertised.listeners"),
        ("listeners=PLAINTEXT://:1\nadvertised.listeners=PLAINTEXT://0.0.0.0:1", "which is not an address"),
        ("listeners=PLAINTEXT://:1\nadvertised.listeners=PLAINTEXT://:1", "an empty host"),
        ("listeners=PLAINTEXT://:1\nadvertised.listeners=OTHER://h:1", "must name the same ones"),
        ("inter.broker.listener.name=OTHER", "name one of them"),
        ("security.inter.broker.protocol=SSL", "security.inter.broker.protocol is SSL"),
        ("listeners=SSL://127.0.0.1:1\nsecurity.inter.broker.protocol=SSL\nssl.enabled.protocols=TLSv1.1", "names 'TLSv1.1'"),
        ("listener.security.protocol.map=PLAINTEXT:ROT13", "PLAINTEXT:ROT13"),
    ],
)  # fmt: skip
def test_a_listener_that_cannot_be_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    assert named in str(raised.value)
