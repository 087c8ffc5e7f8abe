"""The ``sasl.*`` keys of a listener, as one ``SaslConfig``.

This module decides which text applies to a listener and to each of its mechanisms
(``config.security.effective_text``), and which mechanisms can be enabled. ``security.sasl`` parses
JAAS texts. An empty text counts as unset, as in Apache Kafka.

``sasl.jaas.config`` counts only with the prefix of a listener and a mechanism
(``listener.name.<listener>.<mechanism>.``), because the general key is the client's.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.client_security import LoginConfig
from log_service.config.definition import split_list
from log_service.config.oauth import CLASSES_OF_LOGINS, node_token, oauth_config
from log_service.config.security import (
    KERBEROS,
    MECHANISMS,
    MechanismConfig,
    SaslConfig,
    effective_text,
)
from log_service.config.server_keys import SERVER_KEYS

KERBEROS_REFUSAL: Final = (
    "GSSAPI (Kerberos) is not there; use SCRAM-SHA-512, OAUTHBEARER or TLS with client certificates"
)
JAAS_KEY: Final = "sasl.jaas.config"
JAVA_ONLY: Final = ("sasl.login.class", "sasl.login.callback.handler.class")


def sasl_config(texts: Mapping[str, str], listener: str) -> SaslConfig:
    """Return the SASL configuration of a listener.

    Raises:
        ConfigError: no mechanism is enabled, an enabled one does not exist or has no JAAS text, or
            a value is not valid for its key.
    """
    names = _mechanisms(texts, listener)
    delay_ms = _number(texts, "connection.failed.authentication.delay.ms", listener)
    idle_ms = _number(texts, "connections.max.idle.ms", listener)
    if 0 <= idle_ms <= delay_ms:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms is {delay_ms}; it must be below"
            f" connections.max.idle.ms, which is {idle_ms}"
        )
    return SaslConfig(
        mechanisms=MappingProxyType({name: _mechanism(texts, listener, name) for name in names}),
        max_receive_bytes=_number(texts, "sasl.server.max.receive.size", listener),
        failed_delay_ms=delay_ms,
    )


def node_login(
    texts: Mapping[str, str], listener: str, key: str, own: SaslConfig | None
) -> LoginConfig:
    """Return a node's login on a listener of other nodes, by the mechanism that ``key`` names.

    The node's user comes from its own JAAS text for the mechanism. Its OAUTHBEARER token comes from
    a file or an endpoint. ``own`` is the SASL configuration of this node's listener with the same
    name, or None if it has none.

    Raises:
        ConfigError: the mechanism does not exist, is not enabled, or has no JAAS text.
    """
    mechanism = texts.get(key, "").strip() or KERBEROS
    where = f"{key} is {mechanism}"
    if mechanism == KERBEROS:
        default = "" if key in texts else ", which is its default"
        raise ConfigError(
            f"{where}{default}, and nodes log in on listener {listener}:"
            f" {KERBEROS_REFUSAL.partition(' or ')[0]}"
        )
    if mechanism not in MECHANISMS:
        raise ConfigError(f"{where}; nodes log in to each other by {', '.join(MECHANISMS)}")
    if own is not None and mechanism not in own.mechanisms:
        raise ConfigError(
            f"{where}, but listener {listener} enables {', '.join(own.mechanisms)}; enable it"
            " there, too"
        )
    if mechanism == "OAUTHBEARER":
        return node_token(texts, listener, _jaas(texts, listener, mechanism))
    jaas = _jaas(texts, listener, mechanism)
    if jaas is None:
        raise ConfigError(
            f"{where}, but {jaas_key(listener, mechanism)} is missing; its username and password"
            " are this node's"
        )
    return LoginConfig(mechanism=mechanism, jaas=jaas)


def general_jaas_warning(texts: Mapping[str, str]) -> str | None:
    """Return a warning if a node's file has a JAAS text without effect, or None."""
    if not texts.get(JAAS_KEY, "").strip():
        return None
    return (
        f"{JAAS_KEY} has no effect on a node; set listener.name.<listener>.<mechanism>.{JAAS_KEY}"
    )


def clear_text_warnings(
    protocol: str, listener: str, mechanisms: Mapping[str, MechanismConfig]
) -> list[str]:
    """Return a warning for each mechanism of a listener whose logins an observer can exploit."""
    if protocol != "SASL_PLAINTEXT":
        return []
    shown = {
        "PLAIN": "passwords travel in the clear",
        "SCRAM-SHA-256": "an observer of a login can guess its password offline",
        "SCRAM-SHA-512": "an observer of a login can guess its password offline",
        "OAUTHBEARER": "tokens travel in the clear",
    }
    return [
        f"listener {listener} offers {name} without TLS: {shown[name]}; use SASL_SSL"
        for name in mechanisms
    ]


def _mechanisms(texts: Mapping[str, str], listener: str) -> tuple[str, ...]:
    key = "sasl.enabled.mechanisms"
    text = effective_text(texts, key, listener)
    names = split_list(KERBEROS if text is None else text)
    offered = f"it must be some of {', '.join(MECHANISMS)}"
    if not names:
        raise ConfigError(f"{key} of listener {listener} is empty; {offered}")
    for name in names:
        if name == KERBEROS:
            origin = "which is the default of" if text is None else "which stands in"
            raise ConfigError(
                f"listener {listener} asks for {KERBEROS}, {origin} {key}: {KERBEROS_REFUSAL}"
            )
        if name not in MECHANISMS:
            raise ConfigError(f"{key} of listener {listener} names {name!r}; {offered}")
        if names.count(name) > 1:
            raise ConfigError(f"{key} of listener {listener} names {name} twice")
    return names


def _mechanism(texts: Mapping[str, str], listener: str, name: str) -> MechanismConfig:
    jaas = _jaas(texts, listener, name)
    if jaas is None:
        raise ConfigError(
            f"listener {listener} enables {name}, but {jaas_key(listener, name)} is missing; set it"
            f" to a login module, for example {_example(name)}"
        )
    for key in JAVA_ONLY:
        text = effective_text(texts, key, listener, name)
        if text and not (
            name == "OAUTHBEARER"
            and text.strip().rpartition(".")[2] in CLASSES_OF_LOGINS.get(key, ())
        ):
            raise ConfigError(
                f"{key} of listener {listener} names a Java class, which cannot run here; remove"
                " the key"
            )
    return MechanismConfig(
        jaas=jaas,
        max_reauth_ms=_number(texts, "connections.max.reauth.ms", listener, name),
        oauth=oauth_config(texts, listener) if name == "OAUTHBEARER" else None,
    )


def _jaas(texts: Mapping[str, str], listener: str, mechanism: str) -> SecretText | None:
    text = texts.get(jaas_key(listener, mechanism), "")
    return SecretText(text) if text.strip() else None


def jaas_key(listener: str, mechanism: str) -> str:
    """Return the key of the JAAS text of a mechanism of a listener."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS_KEY}"


def _example(mechanism: str) -> str:
    package = "org.apache.kafka.common.security"
    if mechanism == "PLAIN":
        return f'{package}.plain.PlainLoginModule required user_alice="...";'
    if mechanism == "OAUTHBEARER":
        return f"{package}.oauthbearer.OAuthBearerLoginModule required;"
    return f"{package}.scram.ScramLoginModule required;"


def _number(texts: Mapping[str, str], key: str, listener: str, mechanism: str | None = None) -> int:
    text = effective_text(texts, key, listener, mechanism)
    if text is None:
        text = SERVER_KEYS[key].default or ""
    stripped = text.strip()
    if not stripped.removeprefix("-").isdecimal() or not stripped.isascii() or len(stripped) > 19:
        raise ConfigError(f"{key} of listener {listener} is {text!r}, which is not a whole number")
    return int(stripped)
