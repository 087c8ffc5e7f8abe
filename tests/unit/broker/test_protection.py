"""What a node does with listeners that ask for protection."""

import pytest

from log_service.broker.protection import refuse_unprotected
from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties


def test_a_node_does_not_serve_in_the_clear_what_asks_for_protection() -> None:
    for protocol in ("SSL", "SASL_SSL"):
        login = "sasl.enabled.mechanisms=PLAIN\nlistener.name.sasl_ssl.plain.sasl.jaas.config=x\n"
        text = f"{login}node.id=1\nlisteners={protocol}://127.0.0.1:1\nsecurity.inter.broker.protocol={protocol}"
        config, _ = parse_server_properties(text)
        with pytest.raises(ConfigError, match=f"listener {protocol} asks for {protocol}"):
            refuse_unprotected(config)
    refuse_unprotected(parse_server_properties("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:1")[0])


def test_a_controllers_listener_is_not_served_in_the_clear_either() -> None:
    text = (
        "node.id=1\nlisteners=PLAINTEXT://h:1,CONTROLLER://h:2\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL\n"
        "controller.quorum.voters=1@h:2"
    )
    with pytest.raises(ConfigError, match="listener CONTROLLER asks for SSL"):
        refuse_unprotected(parse_server_properties(text)[0])
