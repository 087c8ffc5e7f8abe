"""The settings that all HTTP services share: listeners, TLS, logins and the cluster's client.

This module decides the meaning of these keys and refuses invalid values. Keys of the service's own
Kafka client have a prefix, which the service chooses. Keys of the listener that checks passwords
have the prefix ``login.``, and keys of a schema registry's client ``schema.registry.``. The caller
passes in the properties.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from log_service.common.addresses import is_loopback
from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.common.urls import is_readable_by_others, shown_url
from log_service.config.client_properties import settings_of_properties
from log_service.config.client_security import SSL_SETTINGS
from log_service.config.definition import split_list
from log_service.config.oauth import oauth_config
from log_service.config.properties import parse_properties
from log_service.config.security import OAuthConfig, TlsConfig
from log_service.config.tls import tls_config

LOGIN: Final = "login."
REGISTRY: Final = "schema.registry."
REGISTRY_URL: Final = f"{REGISTRY}url"
REGISTRY_SETTINGS: Final = frozenset({"basic_auth_user_info", "bearer_auth_token", *SSL_SETTINGS})
OAUTH: Final = "sasl.oauthbearer."
JAAS: Final = "sasl.jaas.config"
"""Its options ``ssl.*`` say which authorities of a token issuer are trusted, as for a broker."""
OAUTH_JAAS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
SCHEMES: Final = ("http", "https")
ANY_LOGIN: Final = ("none", "basic", "bearer", "mtls")
PASSED_ON: Final = ("none", "basic", "bearer")
"""Logins that a service can pass on to the cluster. Only a client has its certificate's key."""
BOOLEANS: Final = MappingProxyType({"true": True, "false": False})
SAME_KEYS: Final = MappingProxyType({"ssl.client.authentication": "ssl.client.auth"})
"""Older names of keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """One address that a service listens on."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings of one instance of a service.

    ``logins`` are the accepted ways to log in. If it is empty, no login is needed. Passwords are
    checked at the brokers ``login_servers``, by a client with the settings ``login_client``.
    ``unused`` are the keys of the file that have no meaning for the service.
    """

    listeners: tuple[ListenAddress, ...]
    bootstrap_servers: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tls: TlsConfig | None = field(default=None, repr=False)
    login_servers: str = ""
    login_client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    oauth: OAuthConfig | None = None
    oauth_jaas: SecretText = field(default=SecretText(OAUTH_JAAS), repr=False)
    logins: frozenset[str] = frozenset()
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """The properties of a service's settings file, before their values are checked.

    Errors call the file ``name`` and the service ``service``. Keys with ``prefix`` are for the
    service's own Kafka client, and the key ``servers_key`` names the cluster. ``given`` are all
    properties of the file. ``found`` are those of the service's own keys, with defaults.
    """

    name: str
    service: str
    prefix: str
    servers_key: str
    given: Mapping[str, str] = field(repr=False)
    found: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(
        cls,
        text: str,
        name: str,
        over: Mapping[str, str] | None,
        *,
        service: str,
        prefix: str,
        servers_key: str,
        defaults: Mapping[str, str],
        same_keys: Mapping[str, str] = MappingProxyType({}),
    ) -> "SettingsFile":
        """Parse the text of a properties file. Properties in ``over`` override those in it."""
        raw = {**parse_properties(text), **(over or {})}
        names = {**SAME_KEYS, **same_keys}
        given = {names.get(key, key): value.strip() for key, value in raw.items()}
        own = {key: value for key, value in given.items() if key in defaults}
        found = {**defaults, **own}
        return cls(
            name=name,
            service=service,
            prefix=prefix,
            servers_key=servers_key,
            given=given,
            found=found,
        )

    def behind(self, prefix: str) -> dict[str, str]:
        """Return the properties whose keys have a prefix, by key without the prefix."""
        return {
            key.removeprefix(prefix): value
            for key, value in self.given.items()
            if key.startswith(prefix)
        }

    def flag(self, key: str) -> bool:
        """Return the boolean value of a key.

        Raises:
            ConfigError: the value is neither true nor false.
        """
        text = self.found[key]
        if text.lower() not in BOOLEANS:
            raise ConfigError(f"{self.name}: {key} is {text!r}; it may be true or false")
        return BOOLEANS[text.lower()]

    def number(self, key: str, at_least: int, at_most: int) -> int:
        """Return the value of a key, a whole number within bounds.

        Raises:
            ConfigError: the value is not a whole number, or is out of bounds.
        """
        text = self.found[key]
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(at_most))
        if not is_number or not at_least <= int(text) <= at_most:
            bounds = f"it has to be from {at_least} to {at_most}"
            raise ConfigError(f"{self.name}: {key} is {text!r}; {bounds}")
        return int(text)

    def several(self, key: str, allowed: Iterable[str]) -> frozenset[str]:
        """Return the words in a key's comma-separated value, in lower case.

        Raises:
            ConfigError: a word is not in ``allowed``.
        """
        names = tuple(allowed)
        chosen = frozenset(each.lower() for each in split_list(self.found[key]))
        if chosen - set(names):
            text = f"{key} is {self.found[key]!r}; it may be {', '.join(names)}"
            raise ConfigError(f"{self.name}: {text}")
        return chosen

    def registry_settings(self) -> dict[str, str]:
        """Return the settings of the service's client of a schema registry.

        Raises:
            ConfigError: a key does not belong to such a client.
        """
        own = {key.replace(".", "_"): value for key, value in self.behind(REGISTRY).items()}
        own.pop("url", None)
        unknown = sorted(own.keys() - REGISTRY_SETTINGS)
        if unknown:
            key = REGISTRY + unknown[0].replace("_", ".")
            raise ConfigError(f"{self.name}: {key} is no key of the schema registry's client")
        return {setting: value for setting, value in own.items() if value}

    def fields_of_service(
        self,
        client: Mapping[str, Any] | None,
        *,
        usual_address: str,
        allowed_logins: tuple[str, ...],
    ) -> dict[str, Any]:
        """Return the values of the fields of ``ServiceSettings``, for an instance of a subclass.

        ``client`` has settings of Kafka clients that apply unless the file sets them.

        Raises:
            ConfigError: a value is not valid for its key, or two values contradict each other.
        """
        listeners = self._listeners(usual_address)
        own = self.behind(self.prefix)
        own.pop("bootstrap.servers", None)
        login = self.behind(LOGIN)
        servers = self.found[self.servers_key]
        logins = self.several("authentication.method", allowed_logins) - {"none"}
        _refuse_open_passwords(listeners, logins, self.name)
        tls = self._tls(listeners, logins)
        made = ServiceSettings(
            listeners=listeners,
            bootstrap_servers=_servers(servers),
            client={**(client or {}), **settings_of_properties(own, self.name)},
            tls=tls,
            login_servers=_servers(login.pop("bootstrap.servers", servers)),
            login_client=_without_login(settings_of_properties(login or own, self.name)),
            oauth=oauth_config(self.given, self.service) if "bearer" in logins else None,
            oauth_jaas=SecretText(self.given.get(JAAS, OAUTH_JAAS)),
            logins=logins,
            unused=tuple(sorted(key for key in self.given if self._is_unused(key))),
        )
        return {each.name: getattr(made, each.name) for each in fields(made)}

    def _listeners(self, usual_address: str) -> tuple[ListenAddress, ...]:
        texts = split_list(self.found["listeners"])
        if not texts:
            raise ConfigError(f"{self.name}: listeners names no address; write {usual_address}")
        return tuple(_address(each, self.name, usual_address) for each in texts)

    def _tls(
        self, listeners: tuple[ListenAddress, ...], logins: frozenset[str]
    ) -> TlsConfig | None:
        if all(each.scheme == "http" for each in listeners):
            return None
        tls = tls_config(self.given)
        if "mtls" in logins and tls.client_auth == "none":
            text = "ssl.client.auth=required or requested: no certificate is asked for"
            raise ConfigError(f"{self.name}: authentication.method=mtls needs {text}")
        return tls

    def _is_unused(self, key: str) -> bool:
        is_own = key in self.found or key == JAAS
        of_registry = (REGISTRY,) if REGISTRY_URL in self.found else ()
        return not is_own and not key.startswith((self.prefix, LOGIN, OAUTH, "ssl.", *of_registry))


def refuse_open_registry(urls: str, name: str) -> None:
    """Refuse a schema registry that would get logins in clear text over the network.

    Raises:
        ConfigError: one of ``urls`` has no TLS and is on another machine.
    """
    for url in split_list(urls):
        if is_readable_by_others(url):
            reason = "the registry gets the passwords and tokens of requests in clear text"
            advice = "use https, or an address of this machine alone"
            text = f"{REGISTRY_URL}={shown_url(url)} has no TLS, and {reason}: {advice}"
            raise ConfigError(f"{name}: {text}")


def _refuse_open_passwords(
    listeners: tuple[ListenAddress, ...], logins: frozenset[str], name: str
) -> None:
    """Refuse listeners that get passwords in clear text, or that cannot get a certificate.

    Raises:
        ConfigError: a listener for the network has passwords or tokens but no TLS, or a listener
            has no TLS although certificates are the only logins.
    """
    for each in listeners:
        is_open = each.scheme == "http" and not is_loopback(each.host)
        if is_open and logins & {"basic", "bearer"}:
            reason = "passwords and tokens could be read on the way"
            advice = "use https, or an address of this machine alone"
            text = f"authentication.method needs TLS on {each}, because {reason}: {advice}"
            raise ConfigError(f"{name}: {text}")
        if each.scheme == "http" and logins == {"mtls"}:
            text = f"authentication.method=mtls needs https, and {each} has none"
            raise ConfigError(f"{name}: {text}")


def _servers(text: str) -> str:
    """Return the servers of a comma-separated list without their protocols, such as ``SSL://``.

    Settings of Confluent's services have the protocol before each server.
    """
    return ",".join(each.rpartition("://")[2] for each in split_list(text))


def _without_login(client: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a client without its own login, so that it can log in as others."""
    own = ("sasl_jaas_config", "sasl_username", "sasl_password")
    return {name: value for name, value in client.items() if name not in own}


def _address(text: str, name: str, usual_address: str) -> ListenAddress:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        text = f"listeners has {text!r}, which is no address: {error}"
        raise ConfigError(f"{name}: {text}") from error
    if parts.scheme not in SCHEMES or not host or port is None or parts.path.strip("/"):
        text = f"listeners has {text!r}; an address looks like {usual_address}"
        raise ConfigError(f"{name}: {text}")
    return ListenAddress(scheme=parts.scheme, host=host, port=port)
