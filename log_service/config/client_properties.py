"""A client's settings from a properties file (``--command-config``) or from environment variables.

This module maps keys and variables to settings. A variable is ``TIDELOG_`` and the setting in
capitals. The keys are Apache Kafka's, with a few aliases from librdkafka. Keys of other clients are
ignored, as Kafka's tools do. Keys that no client has are reported. No file is opened here, because
the text is passed in.

Invariant: errors name keys, never values.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from log_service.common.errors import ConfigError
from log_service.config.client import (
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
)
from log_service.config.client_security import SECURITY_SETTINGS
from log_service.config.definition import unknown_keys_warning
from log_service.config.properties import parse_properties

PREFIX: Final = "TIDELOG_"
FILE_VARIABLE: Final = "TIDELOG_CLIENT_CONFIG"
"""The variable that names a properties file for all clients of command line and platform."""
ALIASES: Final = {
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "https.ca.location": "sasl_oauthbearer_ca",
    "https.ca.pem": "sasl_oauthbearer_ca",
    "ssl.ca.location": "ssl_ca",
    "ssl.ca.pem": "ssl_ca",
    "ssl.key.pem": "ssl_keystore_key",
    "ssl.certificate.pem": "ssl_keystore_certificate_chain",
}
"""librdkafka's names for our settings."""
CLASSES_OF_LOGINS: Final = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    "sasl.oauthbearer.jwt.retriever.class": (
        "DefaultJwtRetriever",
        "FileJwtRetriever",
        "ClientCredentialsJwtRetriever",
    ),
}
"""Keys that name a Java class which gets the OAUTHBEARER token, and the classes known here."""
UNHEEDED_KEYS: Final = frozenset(
    {
        f"sasl.login.{name}.ms"
        for name in ("connect.timeout", "read.timeout", "retry.backoff", "retry.backoff.max")
    }
    | {
        f"sasl.login.refresh.{name}"
        for name in ("buffer.seconds", "min.period.seconds", "window.factor", "window.jitter")
    }
    | {"sasl.oauthbearer.method"}
)
"""Keys of logins that are ignored; their defaults apply here."""
CODE_KEYS: Final = frozenset(
    {f"{part}.{kind}" for part in ("key", "value") for kind in ("serializer", "deserializer")}
)
"""Keys of Apache Kafka's clients that name Java code for records. The commands do not need them."""
BOOLEANS: Final = {"true": True, "false": False}


def settings_of_file(text: str, name: str) -> dict[str, Any]:
    """Return the settings of every client that a properties file sets.

    Other keys are ignored.

    ``name`` is the name of the file in errors.

    Raises:
        ConfigError: the file is not a properties file, or a value is not valid for its key.
    """
    return settings_of_properties(parse_properties(text), name)


def settings_of_properties(properties: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the settings of every client among properties.

    Other keys are ignored.

    ``name`` is the name of the properties in errors.

    Raises:
        ConfigError: a value is not valid for its key.
    """
    kinds = _kinds()
    found: dict[str, Any] = {}
    for key, value in properties.items():
        setting = ALIASES.get(key, key.replace(".", "_"))
        if setting in kinds and not (
            value == "" and setting != "ssl_endpoint_identification_algorithm"
        ):
            found[setting] = _converted(
                key,
                value.strip() if isinstance(kinds[setting], int) else value,
                kinds[setting],
                name,
            )
    if found.get("sasl_mechanism") == "OAUTHBEARER":
        _validate_classes(properties, name)
    return found


def unknown_warning(text: str) -> str | None:
    """Return a warning that names the keys of a properties file that no client has, or None.

    Keys of producers and consumers, as in a client's own file, are known, and have no effect on
    other clients.
    """
    kinds = (AdminConfig, ProducerConfig, ConsumerConfig, ShareConsumerConfig)
    known = {
        declared.name.replace("_", ".") for kind in kinds for declared in fields(kind)
    } | ALIASES.keys()
    known |= CLASSES_OF_LOGINS.keys() | UNHEEDED_KEYS
    unknown = [
        key
        for key in parse_properties(text)
        if key.replace("_", ".") not in known and key not in CODE_KEYS
    ]
    return unknown_keys_warning(unknown, known)


def settings_of_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the security settings from variables such as ``TIDELOG_SECURITY_PROTOCOL``.

    Raises:
        ConfigError: a value is not valid for its setting.
    """
    kinds, variables = _kinds(), {name: f"{PREFIX}{name.upper()}" for name in SECURITY_SETTINGS}
    return {
        name: _converted(variable, environ[variable], kinds[name], "the environment")
        for name, variable in variables.items()
        if environ.get(variable)
    }


def servers_of_file(text: str) -> str | None:
    """Return the ``bootstrap.servers`` of a properties file, None if it names none."""
    return parse_properties(text).get("bootstrap.servers", "").strip() or None


def _converted(key: str, value: str, default: Any, name: str) -> Any:
    if isinstance(default, bool):
        if value.lower() not in BOOLEANS:
            raise ConfigError(f"{name}: {key} must be true or false")
        return BOOLEANS[value.lower()]
    if isinstance(default, int):
        if not value.isdecimal() or not value.isascii():
            raise ConfigError(f"{name}: {key} must be a whole number")
        return int(value)
    return value


def _kinds() -> dict[str, Any]:
    """Return the defaults of all settings that every client has."""
    return {
        declared.name: declared.default
        for declared in fields(ClientConfig)
        if declared.default is not MISSING
    }


def _validate_classes(properties: Mapping[str, str], name: str) -> None:
    """Refuse a Java class that would fetch the token, because it would be ignored here.

    The login would then differ from the one that the file describes.
    """
    for key, known in CLASSES_OF_LOGINS.items():
        named = properties.get(key, "").strip()
        if named and named.rpartition(".")[2] not in known:
            raise ConfigError(
                f"{name}: {key} names a Java class, which cannot run here; remove it, or name one"
                f" of {', '.join(known)}"
            )
