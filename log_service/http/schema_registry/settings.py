"""The settings of a registry, under the keys of Confluent's ``schema-registry.properties``.

This module decides the meaning of the registry's own keys and refuses invalid values. Keys of
Kafka clients have the prefix ``kafkastore.``. ``service_settings`` has the keys of all services.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_BROKER_PORT, DEFAULT_REGISTRY_PORT
from log_service.http.schema_registry.values import CompatibilityLevel
from log_service.http.service_settings import (
    ANY_LOGIN,
    SCHEMES,
    ListenAddress,
    ServiceSettings,
    SettingsFile,
)

STORE: Final = "kafkastore."
SERVERS: Final = "kafkastore.bootstrap.servers"
AUTHORIZERS: Final = ("none", "acl")
USUAL_ADDRESS: Final = f"http://127.0.0.1:{DEFAULT_REGISTRY_PORT}"
DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "listeners": USUAL_ADDRESS,
        "host.name": "",
        "inter.instance.protocol": "",
        SERVERS: f"127.0.0.1:{DEFAULT_BROKER_PORT}",
        "kafkastore.topic": "_schemas",
        "kafkastore.topic.replication.factor": "-1",
        "schema.registry.group.id": "schema-registry",
        "leader.eligibility": "true",
        "session.timeout.ms": "10000",
        "schema.compatibility.level": "backward",
        "mode.mutability": "true",
        "authentication.method": "none",
        "authorizer": "none",
        "super.users": "",
    }
)
"""The keys with their defaults. Those of TLS and of Kafka clients come on top."""
SAME_KEYS = MappingProxyType(
    {
        "master.eligibility": "leader.eligibility",
        "avro.compatibility.level": "schema.compatibility.level",
    }
)
"""Older names of keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings(ServiceSettings):
    """The settings of one instance.

    ``advertised`` is the address under which other instances reach this one. A leader without a
    heartbeat for ``session_timeout_ms`` is replaced.
    """

    advertised: ListenAddress
    topic: str
    replication_factor: int | None
    group: str
    is_eligible: bool
    session_timeout_ms: int
    level: CompatibilityLevel
    is_mode_mutable: bool
    is_authorized: bool
    super_users: frozenset[str]


def read_registry_settings(
    text: str,
    name: str,
    over: Mapping[str, str] | None = None,
    client: Mapping[str, Any] | None = None,
) -> RegistrySettings:
    """Read the settings from the text of a properties file. ``over`` overrides the text.

    ``client`` has settings of Kafka clients that the file does not name. ``name`` is the file's
    name in errors.

    Raises:
        ConfigError: a value is not valid for its key.
    """
    file = SettingsFile.read(
        text,
        name,
        over,
        service="registry",
        prefix=STORE,
        servers_key=SERVERS,
        defaults=DEFAULTS,
        same_keys=SAME_KEYS,
    )
    service = file.fields_of_service(client, usual_address=USUAL_ADDRESS, allowed_logins=ANY_LOGIN)
    found = file.found
    return RegistrySettings(
        **service,
        advertised=_advertised(service["listeners"], file),
        topic=found["kafkastore.topic"],
        replication_factor=_replication_factor(file),
        group=found["schema.registry.group.id"],
        is_eligible=file.flag("leader.eligibility"),
        session_timeout_ms=file.number("session.timeout.ms", 500, 300_000),
        level=_level(file),
        is_mode_mutable=file.flag("mode.mutability"),
        is_authorized="acl" in file.several("authorizer", AUTHORIZERS),
        super_users=frozenset(filter(None, map(str.strip, found["super.users"].split(";")))),
    )


def _advertised(listeners: tuple[ListenAddress, ...], file: SettingsFile) -> ListenAddress:
    """Return the address for other instances.

    It has the scheme and port of the last listener with the configured scheme, and ``host.name``.
    """
    key = "inter.instance.protocol"
    scheme = file.found[key].lower()
    if scheme and scheme not in SCHEMES:
        raise ConfigError(f"{file.name}: {key} is {scheme!r}; it may be http or https")
    fitting = [each for each in listeners if not scheme or each.scheme == scheme]
    if not fitting:
        raise ConfigError(f"{file.name}: {key} is {scheme}, and no listener speaks it")
    chosen = fitting[-1]
    host = file.found["host.name"] or chosen.host
    return ListenAddress(scheme=chosen.scheme, host=host, port=chosen.port)


def _replication_factor(file: SettingsFile) -> int | None:
    key = "kafkastore.topic.replication.factor"
    text = file.found[key]
    if text == "-1":
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 32_767):
        reason = "it has to be a number from 1 to 32767, or -1"
        raise ConfigError(f"{file.name}: {key} is {text!r}; {reason}")
    return int(text)


def _level(file: SettingsFile) -> CompatibilityLevel:
    key = "schema.compatibility.level"
    try:
        return CompatibilityLevel(file.found[key].upper())
    except ValueError:
        levels = ", ".join(level.value for level in CompatibilityLevel)
        text = f"{key} is {file.found[key]!r}; it may be {levels}"
        raise ConfigError(f"{file.name}: {text}") from None
