"""The settings of a registry client: Confluent's names in snake case, and TLS as for other clients.

Decides which values are valid. Opens no file and no connection.

Invariant: no error and no ``repr`` shows a secret. User and password are removed from the URLs.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.client_security import SSL_SETTINGS, client_security
from log_service.config.security import TlsConfig

NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "timeout": (0.001, 3600),
    "max_retries": (0, 100),
    "retries_wait_ms": (1, 3_600_000),
    "retries_max_wait_ms": (1, 3_600_000),
    "cache_capacity": (1, 10_000_000),
    "cache_latest_ttl_sec": (0, 31_536_000),
    "max_response_bytes": (1024, 1 << 30),
}
"""The lowest and the highest value of each number."""

Token = Callable[[], str] | str
"""A bearer token, or a function that returns it. It is called for each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryClientSettings:
    """The settings of one registry client.

    ``urls`` are tried one after the other. ``timeout`` limits one request, in seconds. ``user`` is
    ``name:password``.
    """

    urls: tuple[str, ...]
    user: SecretText | None = None
    bearer_auth_token: Token | None = field(default=None, repr=False)
    bearer_auth_logical_cluster: str | None = None
    bearer_auth_identity_pool_id: str | None = None
    tls: TlsConfig | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    timeout: float = 10.0
    max_retries: int = 3
    retries_wait_ms: int = 1_000
    retries_max_wait_ms: int = 20_000
    cache_capacity: int = 1_000
    cache_latest_ttl_sec: float = 300.0
    max_response_bytes: int = 64 << 20

    @classmethod
    def of(cls, url: str | Iterable[str], given: Mapping[str, Any]) -> Self:
        """Make settings from keywords. Several URLs are a list, or one text with commas.

        Raises:
            ConfigError: there is no such setting, or a value is not valid.
        """
        own = [each.name for each in fields(cls) if each.name not in {"urls", "user", "tls"}]
        known = [*own, "basic_auth_user_info", *SSL_SETTINGS]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise ConfigError(f"a schema registry client has no setting {name!r}; {hint}")
        for name, (lowest, highest) in NUMBERS.items():
            _validate_number(name, given.get(name), lowest, highest)
        urls, user = _urls(url)
        user = _user(user, given.get("basic_auth_user_info"))
        if user is not None and given.get("bearer_auth_token") is not None:
            raise ConfigError(
                "basic_auth_user_info and bearer_auth_token both log in: keep one of them"
            )
        plain = {name: value for name, value in given.items() if name in own and value is not None}
        return cls(urls=urls, user=user, tls=_tls(urls, given), **plain)

    def login_headers(self) -> dict[str, str]:
        """Return the HTTP headers that authenticate a request."""
        if self.user is not None:
            return {"Authorization": f"Basic {b64encode(self.user.reveal().encode()).decode()}"}
        token = self.bearer_auth_token
        headers = {
            "Authorization": (
                None if token is None else f"Bearer {token if isinstance(token, str) else token()}"
            ),
            "target-sr-cluster": self.bearer_auth_logical_cluster,
            "Confluent-Identity-Pool-Id": self.bearer_auth_identity_pool_id,
        }
        return {name: value for name, value in headers.items() if value is not None}


def _validate_number(name: str, value: Any, lowest: float, highest: float) -> None:
    if value is None:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not lowest <= value <= highest
    ):
        raise ConfigError(
            f"{name} is {value!r}; it has to be a number from {lowest:g} to {highest:g}"
        )


def _urls(given: str | Iterable[str]) -> tuple[tuple[str, ...], SecretText | None]:
    """Return the URLs without logins, and the ``name:password`` of the first URL that has one."""
    texts = given.split(",") if isinstance(given, str) else list(given)
    found, user = [], None
    for text in filter(None, (each.strip() for each in texts)):
        url, own = _url(text)
        found.append(url)
        user = user or own
    if not found:
        raise ConfigError("url names no schema registry; write http://127.0.0.1:8081")
    return tuple(found), user


def _url(text: str) -> tuple[str, SecretText | None]:
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment or not text.isascii() or " " in text:
        # A user's password may stand before the @.
        shown = "" if "@" in text else f" and is {text!r}"
        raise ConfigError(f"url has to look like http://127.0.0.1:8081{shown}")
    user = (
        None
        if parts.username is None
        else SecretText(unquote(f"{parts.username}:{parts.password or ''}"))
    )
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")), user


def _user(in_url: SecretText | None, given: str | SecretText | None) -> SecretText | None:
    if given is None:
        return in_url
    if in_url is not None:
        raise ConfigError("url and basic_auth_user_info both name a user: keep one of them")
    user = given if isinstance(given, SecretText) else SecretText(given)
    if ":" not in user.reveal():
        raise ConfigError(
            "basic_auth_user_info has to be a name and a password, with a colon in between"
        )
    return user


def _tls(urls: tuple[str, ...], given: Mapping[str, Any]) -> TlsConfig | None:
    texts = {name: given[name] for name in SSL_SETTINGS if given.get(name) is not None}
    if any(url.startswith("https") for url in urls):
        return client_security({"security_protocol": "SSL", **texts}).tls
    if texts:
        raise ConfigError(
            f"{next(iter(texts))} means nothing without an https URL: change url, or leave it out"
        )
    return None
