"""The schema registry that a node asks about schemas, from its keys.

This module decides which combinations are valid. It opens no file and no connection.

Invariant: no error and no ``repr`` shows a login.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.definition import split_list
from log_service.config.schema_registry_keys import LOGIN, PREFIX, REGISTRY_TLS_KEYS, URL
from log_service.config.security import TlsConfig
from log_service.config.tls import tls_config


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRegistryConfig:
    """The addresses of a registry, and this node's login. ``user`` is ``name:password``."""

    urls: tuple[str, ...]
    user: SecretText | None = None
    tls: TlsConfig | None = field(default=None, repr=False)


def has_schema_registry(texts: Mapping[str, str]) -> bool:
    """Return whether the properties of a node name a schema registry."""
    return bool(texts.get(URL, "").strip())


def schema_registry_config(texts: Mapping[str, str]) -> SchemaRegistryConfig | None:
    """Return the registry that properties name, or None if they name none.

    Raises:
        ConfigError: a URL or the login is not valid, or keys of TLS contradict each other.
    """
    if not has_schema_registry(texts):
        return None
    urls = tuple(map(_url, split_list(texts[URL])))
    login = texts.get(LOGIN) or None
    if login is not None and ":" not in login.strip(":"):
        raise ConfigError(f"{LOGIN} has to be a name and a password, with a colon in between")
    return SchemaRegistryConfig(
        urls=urls,
        user=None if login is None else SecretText(login),
        tls=_tls(texts) if any(url.startswith("https:") for url in urls) else None,
    )


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if "@" in text:
        raise ConfigError(f"{URL} has a user in it, and the key is shown to clients: set {LOGIN}")
    if not is_good or parts.query or parts.fragment or not text.isascii() or not text.isprintable():
        raise ConfigError(f"{URL} is {text!r}; it has to look like http://127.0.0.1:8081")
    return text.rstrip("/")


def _tls(texts: Mapping[str, str]) -> TlsConfig:
    names = (key.name for key in REGISTRY_TLS_KEYS)
    own = {name.removeprefix(PREFIX): texts[name] for name in names if name in texts}
    try:
        return tls_config(own)
    except ConfigError as error:
        raise ConfigError(f"of the keys that begin with {PREFIX}ssl: {error}") from None
