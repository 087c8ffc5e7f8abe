"""The settings of a registry, under the keys of Confluent's ``schema-registry.properties``.

This module decides the meaning of each key and refuses invalid values. Keys of Kafka clients stand
behind ``kafkastore.``, and those of the listener that checks passwords behind ``login.``. The
caller passes in the file's text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from log_service.common.addresses import is_loopback
from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_REGISTRY_PORT
from log_service.common.secrets import SecretText
from log_service.config.client_properties import settings_of_properties
from log_service.config.definition import split_list
from log_service.config.oauth import oauth_config
from log_service.config.properties import parse_properties
from log_service.config.security import OAuthConfig, TlsConfig
from log_service.config.tls import tls_config
from log_service.http.schema_registry.values import CompatibilityLevel

STORE, LOGIN = "kafkastore.", "login."
OAUTH = "sasl.oauthbearer."
JAAS = "sasl.jaas.config"
"""Its options ``ssl.*`` say which authorities of a token issuer are trusted, as for a broker."""
OAUTH_JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
SCHEMES = ("http", "https")
LOGINS = ("none", "basic", "bearer", "mtls")
AUTHORIZERS = ("none", "acl")
BOOLEANS = {"true": True, "false": False}

DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "listeners": f"http://127.0.0.1:{DEFAULT_REGISTRY_PORT}",
        "host.name": "",
        "inter.instance.protocol": "",
        "kafkastore.bootstrap.servers": "127.0.0.1:9092",
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
        "ssl.client.authentication": "ssl.client.auth",
    }
)
"""Older names of keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """One address that the registry listens on."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The settings of one instance.

    ``advertised`` is the address under which other instances reach this one. They elect a new
    leader when it was silent for ``session_timeout_ms``. ``logins`` are the ways to log in; none of
    them is no login. Passwords are checked at ``login_servers``. ``unused`` are keys without a
    meaning here.
    """

    listeners: tuple[ListenAddress, ...]
    advertised: ListenAddress
    bootstrap_servers: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    topic: str = "_schemas"
    replication_factor: int | None = None
    group: str = "schema-registry"
    is_eligible: bool = True
    session_timeout_ms: int = 10_000
    level: CompatibilityLevel = CompatibilityLevel.BACKWARD
    is_mode_mutable: bool = True
    tls: TlsConfig | None = field(default=None, repr=False)
    login_servers: str = ""
    login_client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    oauth: OAuthConfig | None = None
    oauth_jaas: SecretText = field(default=SecretText(OAUTH_JAAS), repr=False)
    logins: frozenset[str] = frozenset()
    is_authorized: bool = False
    super_users: frozenset[str] = frozenset()
    unused: tuple[str, ...] = ()


def read_registry_settings(
    text: str,
    name: str,
    over: Mapping[str, str] | None = None,
    client: Mapping[str, Any] | None = None,
) -> RegistrySettings:
    """Return the settings of a properties file's text. ``over`` has properties that win over it.

    ``client`` has settings of Kafka clients that the file does not name.

    Raises:
        ConfigError: a value is none of its key. ``name`` stands for the file.
    """
    given = {**parse_properties(text), **(over or {})}
    given = {SAME_KEYS.get(key, key): value.strip() for key, value in given.items()}
    found = {**DEFAULTS, **{key: value for key, value in given.items() if key in DEFAULTS}}
    listeners = tuple(_address(each, name) for each in split_list(found["listeners"]))
    if not listeners:
        raise ConfigError(
            f"{name}: listeners names no address; write http://127.0.0.1:{DEFAULT_REGISTRY_PORT}"
        )
    store = {
        key.removeprefix(STORE): value for key, value in given.items() if key.startswith(STORE)
    }
    login = {
        key.removeprefix(LOGIN): value for key, value in given.items() if key.startswith(LOGIN)
    }
    logins = _several(found, "authentication.method", LOGINS, name) - {"none"}
    _refuse_open_passwords(listeners, logins, name)
    is_encrypted = any(each.scheme == "https" for each in listeners)
    tls = tls_config(given) if is_encrypted else None
    if "mtls" in logins and tls is not None and tls.client_auth == "none":
        raise ConfigError(
            f"{name}: authentication.method=mtls needs ssl.client.auth=required or requested: no"
            " certificate is asked for"
        )
    return RegistrySettings(
        listeners=listeners,
        advertised=_advertised(listeners, found, name),
        bootstrap_servers=_servers(found["kafkastore.bootstrap.servers"]),
        client={**(client or {}), **settings_of_properties(store, name)},
        topic=found["kafkastore.topic"],
        replication_factor=_replication_factor(found, name),
        group=found["schema.registry.group.id"],
        is_eligible=_flag(found, "leader.eligibility", name),
        session_timeout_ms=_session_timeout_ms(found, name),
        level=_level(found, name),
        is_mode_mutable=_flag(found, "mode.mutability", name),
        tls=tls,
        login_servers=_servers(
            login.pop("bootstrap.servers", found["kafkastore.bootstrap.servers"])
        ),
        login_client=_without_login(settings_of_properties(login or store, name)),
        oauth=oauth_config(given, "registry") if "bearer" in logins else None,
        oauth_jaas=SecretText(given.get(JAAS, OAUTH_JAAS)),
        logins=logins,
        is_authorized="acl" in _several(found, "authorizer", AUTHORIZERS, name),
        super_users=frozenset(filter(None, map(str.strip, found["super.users"].split(";")))),
        unused=tuple(sorted(key for key in given if _is_unused(key))),
    )


def _refuse_open_passwords(
    listeners: tuple[ListenAddress, ...], logins: frozenset[str], name: str
) -> None:
    """Refuse logins that everybody on the way can read."""
    for each in listeners:
        is_open = each.scheme == "http" and not is_loopback(each.host)
        if is_open and logins & {"basic", "bearer"}:
            text = (
                "passwords and tokens could be read on the way: use https, or an address of this"
                " machine alone"
            )
            raise ConfigError(f"{name}: authentication.method needs TLS on {each}, because {text}")
        if each.scheme == "http" and logins == {"mtls"}:
            raise ConfigError(
                f"{name}: authentication.method=mtls needs https, and {each} has none"
            )


def _servers(text: str) -> str:
    """Return servers without the protocol that Confluent's registry has before each."""
    return ",".join(each.rpartition("://")[2] for each in split_list(text))


def _without_login(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a client for the logins of others."""
    own = ("sasl_jaas_config", "sasl_username", "sasl_password")
    return {name: value for name, value in client.items() if name not in own}


def _is_unused(key: str) -> bool:
    return key not in (*DEFAULTS, JAAS) and not key.startswith((STORE, LOGIN, OAUTH, "ssl."))


def _address(text: str, name: str) -> ListenAddress:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(
            f"{name}: listeners has {text!r}, which is no address: {error}"
        ) from error
    if parts.scheme not in SCHEMES or not host or port is None or parts.path.strip("/"):
        usual = f"http://127.0.0.1:{DEFAULT_REGISTRY_PORT}"
        raise ConfigError(f"{name}: listeners has {text!r}; an address looks like {usual}")
    return ListenAddress(scheme=parts.scheme, host=host, port=port)


def _advertised(
    listeners: tuple[ListenAddress, ...], found: Mapping[str, str], name: str
) -> ListenAddress:
    """Return the address for other instances: the listener of the wanted scheme, and the host."""
    scheme = found["inter.instance.protocol"].lower()
    if scheme and scheme not in SCHEMES:
        raise ConfigError(f"{name}: inter.instance.protocol is {scheme!r}; it may be http or https")
    fitting = [each for each in listeners if not scheme or each.scheme == scheme]
    if not fitting:
        raise ConfigError(f"{name}: inter.instance.protocol is {scheme}, and no listener speaks it")
    chosen = fitting[-1]
    return ListenAddress(
        scheme=chosen.scheme, host=found["host.name"] or chosen.host, port=chosen.port
    )


def _replication_factor(found: Mapping[str, str], name: str) -> int | None:
    key = "kafkastore.topic.replication.factor"
    text = found[key]
    if text == "-1":
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 32_767):
        raise ConfigError(
            f"{name}: {key} is {text!r}; it has to be a number from 1 to 32767, or -1"
        )
    return int(text)


def _session_timeout_ms(found: Mapping[str, str], name: str) -> int:
    text = found["session.timeout.ms"]
    if not (text.isascii() and text.isdigit() and 500 <= int(text) <= 300_000):
        raise ConfigError(
            f"{name}: session.timeout.ms is {text!r}; it has to be from 500 to 300000"
        )
    return int(text)


def _level(found: Mapping[str, str], name: str) -> CompatibilityLevel:
    key = "schema.compatibility.level"
    try:
        return CompatibilityLevel(found[key].upper())
    except ValueError:
        levels = ", ".join(level.value for level in CompatibilityLevel)
        raise ConfigError(f"{name}: {key} is {found[key]!r}; it may be {levels}") from None


def _flag(found: Mapping[str, str], key: str, name: str) -> bool:
    if found[key].lower() not in BOOLEANS:
        raise ConfigError(f"{name}: {key} is {found[key]!r}; it may be true or false")
    return BOOLEANS[found[key].lower()]


def _several(
    found: Mapping[str, str], key: str, allowed: tuple[str, ...], name: str
) -> frozenset[str]:
    chosen = frozenset(each.lower() for each in split_list(found[key]))
    if chosen - set(allowed):
        raise ConfigError(f"{name}: {key} is {found[key]!r}; it may be {', '.join(allowed)}")
    return chosen
