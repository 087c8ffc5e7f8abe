"""A login key holds for a listener and a mechanism. A node does not start with some texts."""

import pytest

from log_service.common.errors import ConfigError
from log_service.config.dynamic_keys import base_name
from log_service.config.sasl import clear_text_warnings, general_jaas_warning, sasl_config
from log_service.config.server import parse_server_properties

OWN = "listener.name.sasl_ssl."
JAAS = {
    f"{OWN}{mechanism}.sasl.jaas.config": f"module of {mechanism}"
    for mechanism in ("plain", "scram-sha-512", "oauthbearer")
}
BOTH = {**JAAS, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}


def test_each_mechanism_has_its_own_jaas_text() -> None:
    config = sasl_config(BOTH, "SASL_SSL")
    texts = {
        name: mechanism.jaas.reveal()
        for name, mechanism in config.mechanisms.items()
        if mechanism.jaas is not None
    }
    assert texts == {"PLAIN": "module of plain", "SCRAM-SHA-512": "module of scram-sha-512"}
    assert (config.max_receive_bytes, config.failed_delay_ms) == (524_288, 100)


def test_the_listeners_key_wins_and_the_mechanisms_over_it() -> None:
    texts = {
        **BOTH,
        f"{OWN}sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "connections.max.reauth.ms": "1",
        f"{OWN}connections.max.reauth.ms": "2",
        f"{OWN}plain.connections.max.reauth.ms": "3",
        f"{OWN}sasl.server.max.receive.size": "4",
        f"{OWN}connection.failed.authentication.delay.ms": "5",
    }
    config = sasl_config(texts, "SASL_SSL")
    assert {name: mechanism.max_reauth_ms for name, mechanism in config.mechanisms.items()} == {
        "SCRAM-SHA-512": 2,
        "PLAIN": 3,
    }
    assert (config.max_receive_bytes, config.failed_delay_ms) == (4, 5)


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (
            JAAS,
            "GSSAPI, which is the default of sasl.enabled.mechanisms: GSSAPI \\(Kerberos\\) is not there",
        ),
        (
            {**JAAS, "sasl.enabled.mechanisms": "PLAIN,GSSAPI"},
            "GSSAPI, which stands in sasl.enabled.mechanisms",
        ),
        ({**JAAS, "sasl.enabled.mechanisms": ""}, "is empty"),
        ({**JAAS, "sasl.enabled.mechanisms": "PLAIN,PLAIN"}, "PLAIN twice"),
        ({**JAAS, "sasl.enabled.mechanisms": "plain"}, "names 'plain'"),
        (
            {**JAAS, "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config is missing",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": "general"},
            "plain.sasl.jaas.config is missing",
        ),
        (
            {**BOTH, f"{OWN}plain.connections.max.reauth.ms": "soon"},
            "connections.max.reauth.ms .* not a whole number",
        ),
        ({**BOTH, f"{OWN}plain.sasl.login.class": "com.example.Login"}, "Java class"),
        (
            {**BOTH, "connection.failed.authentication.delay.ms": "600000"},
            "must be below connections.max.idle.ms",
        ),
    ],
)
def test_what_a_node_does_not_start_with(texts: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        sasl_config(texts, "SASL_SSL")


def test_no_error_shows_a_password() -> None:
    config = sasl_config({**BOTH, f"{OWN}plain.sasl.jaas.config": "planted"}, "SASL_SSL")
    assert "planted" not in repr(config)


def test_general_jaas_text_is_warned_of() -> None:
    assert general_jaas_warning(BOTH) is None
    _, settings = parse_server_properties(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "log.dirs": "d",
            "sasl.jaas.config": "planted",
        }
    )
    warning = settings.jaas_warning
    assert warning is not None
    assert "no effect" in warning
    assert "planted" not in warning


def test_mechanisms_without_tls_are_warned_of() -> None:
    mechanisms = sasl_config(BOTH, "SASL_SSL").mechanisms
    assert clear_text_warnings("SASL_SSL", "A", mechanisms) == []
    assert len(clear_text_warnings("SASL_PLAINTEXT", "A", mechanisms)) == 2


def test_keys_of_listeners_and_mechanisms_are_known() -> None:
    for name in (
        "listener.name.a.plain.sasl.jaas.config",
        "listener.name.a.scram-sha-512.sasl.jaas.config",
        "sasl.jaas.config",
    ):
        assert base_name(name) == "sasl.jaas.config"
    text = (
        "node.id=1\nlisteners=A://h:1,B://h:2\nlistener.security.protocol.map=A:PLAINTEXT,B:SASL_PLAINTEXT\n"
        "inter.broker.listener.name=A\nsasl.enabled.mechanisms=PLAIN\nlistener.name.b.plain.sasl.jaas.config=x\n"
        "listener.name.b.plain.connections.max.reauth.ms=5\n"
    )
    _, settings = parse_server_properties(text)
    assert (settings.unknown_keys, settings.idle_keys) == ((), ())
