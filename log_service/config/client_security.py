"""A client's settings of encryption and logins: ``security_protocol``, ``ssl_*`` and ``sasl_*``.

The names are Kafka's in snake_case. ``sasl_username`` and ``sasl_password`` are librdkafka's, for
use without a JAAS text. This module refuses contradictory combinations before any connection is
opened. It opens no file and parses no JAAS text, because ``security.outgoing`` does that.

Invariant: no error and no ``repr`` shows a secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.security import KERBEROS, MECHANISMS, PROTOCOLS, TlsConfig
from log_service.config.tls import tls_config

ENDPOINT: Final = "sasl_oauthbearer_token_endpoint_url"
CREDENTIALS: Final = (
    "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_credentials_client_secret",
    "sasl_oauthbearer_scope",
    "sasl_oauthbearer_header_urlencode",
    "sasl_oauthbearer_ca",
)
"""The settings of the token endpoint: the client's credentials, and whom to trust."""
OAUTH_SETTINGS: Final = ("sasl_oauthbearer_token", ENDPOINT, *CREDENTIALS)
SASL_SETTINGS: Final = (
    "sasl_mechanism",
    "sasl_jaas_config",
    "sasl_username",
    "sasl_password",
    *OAUTH_SETTINGS,
)
SSL_SETTINGS: Final = (
    "ssl_ca",
    "ssl_truststore_type",
    "ssl_truststore_location",
    "ssl_truststore_password",
    "ssl_truststore_certificates",
    "ssl_keystore_type",
    "ssl_keystore_location",
    "ssl_keystore_password",
    "ssl_keystore_key",
    "ssl_keystore_certificate_chain",
    "ssl_key_password",
    "ssl_enabled_protocols",
    "ssl_cipher_suites",
    "ssl_endpoint_identification_algorithm",
)
SECURITY_SETTINGS: Final = ("security_protocol", *SASL_SETTINGS, *SSL_SETTINGS)
PEM_BEGINNING: Final = "-----BEGIN"

TokenSource = Callable[[], str] | str
"""The source of a client's OAuth token: a function, or the path of a file, read at each login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpointConfig:
    """The endpoint that gives tokens for a client's id and secret.

    A field that is None may be set in the JAAS text instead, such as ``clientId``.
    """

    url: str
    client_id: str | None = None
    client_secret: SecretText | None = None
    scope: str | None = None
    is_header_encoded: bool = False
    """Whether id and secret are URL-encoded before they are joined (RFC 6749, 2.3.1)."""
    ca: str | None = None
    """The trusted certificates of the endpoint: PEM, or the path of a PEM file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginConfig:
    """The login of a client, or of a node that connects to another node."""

    mechanism: str
    jaas: SecretText | None = None
    username: str | None = None
    password: SecretText | None = None
    token: TokenSource | None = None
    endpoint: TokenEndpointConfig | None = None
    """Instead of ``token``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """The security of a new connection: none, TLS, a login, or both."""

    protocol: str = "PLAINTEXT"
    tls: TlsConfig | None = None
    login: LoginConfig | None = None


def client_security(given: Mapping[str, Any]) -> ClientSecurity:
    """Return the combined security settings.

    Settings that are None were not given.

    Raises:
        ConfigError: settings contradict each other, or one is missing that another needs.
    """
    texts = {
        name: value
        for name in SECURITY_SETTINGS
        if (value := given.get(name)) is not None and value is not False
    }
    protocol = str(texts.pop("security_protocol", "PLAINTEXT"))
    if protocol not in PROTOCOLS:
        raise ConfigError(
            f"security_protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}"
        )
    _refuse_unused(protocol, texts)
    return ClientSecurity(
        protocol=protocol,
        tls=_tls(texts) if protocol.endswith("SSL") else None,
        login=_login(protocol, texts) if protocol.startswith("SASL") else None,
    )


def _refuse_unused(protocol: str, texts: Mapping[str, Any]) -> None:
    """Refuse settings that the protocol ignores.

    An unused password, for example, is a mistake that would otherwise go unnoticed.
    """
    for names, is_heeded, better in (
        (SASL_SETTINGS, protocol.startswith("SASL"), "SASL_SSL"),
        (
            SSL_SETTINGS,
            protocol.endswith("SSL"),
            "SASL_SSL" if protocol.startswith("SASL") else "SSL",
        ),
    ):
        unused = [name for name in names if name in texts]
        if unused and not is_heeded:
            raise ConfigError(
                f"{unused[0]} means nothing with security_protocol={protocol}: set"
                f" security_protocol={better}, or leave it out"
            )


def _tls(texts: Mapping[str, Any]) -> TlsConfig:
    named = {
        name.replace("_", "."): _revealed(texts[name])
        for name in SSL_SETTINGS
        if name in texts and name != "ssl_ca"
    }
    if "ssl_ca" in texts:
        clashing = [
            name for name in SSL_SETTINGS if name.startswith("ssl_truststore") and name in texts
        ]
        if clashing:
            raise ConfigError(f"ssl_ca and {clashing[0]} both say whom to trust: keep one of them")
        ca = str(texts["ssl_ca"])
        kind = "certificates" if ca.lstrip().startswith(PEM_BEGINNING) else "location"
        named |= {"ssl.truststore.type": "PEM", f"ssl.truststore.{kind}": ca}
    return tls_config(named)


def _revealed(value: Any) -> str:
    if isinstance(value, SecretText):
        return value.reveal()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _login(protocol: str, texts: Mapping[str, Any]) -> LoginConfig:
    mechanism = texts.get("sasl_mechanism")
    if mechanism is None:
        raise ConfigError(
            f"sasl_mechanism is missing: security_protocol={protocol} needs one of"
            f" {', '.join(MECHANISMS)}"
        )
    if mechanism not in MECHANISMS:
        advice = (
            "; Kerberos is not there, use SCRAM-SHA-512, OAUTHBEARER or TLS with client"
            " certificates"
            if mechanism == KERBEROS
            else ""
        )
        raise ConfigError(
            f"sasl_mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism!r}{advice}"
        )
    login = LoginConfig(
        mechanism=mechanism,
        jaas=texts.get("sasl_jaas_config"),
        username=texts.get("sasl_username"),
        password=texts.get("sasl_password"),
    )
    if mechanism == "OAUTHBEARER":
        return _with_token(login, texts)
    if unused := [name for name in OAUTH_SETTINGS if name in texts]:
        raise ConfigError(
            f"{unused[0]} means nothing with sasl_mechanism={mechanism}: set OAUTHBEARER, or leave"
            " it out"
        )
    _validate_password(login)
    return login


def _validate_password(login: LoginConfig) -> None:
    if login.jaas is not None:
        if login.username is not None or login.password is not None:
            raise ConfigError(
                "sasl_jaas_config holds the user and the password: leave out sasl_username and"
                " sasl_password"
            )
        return
    for name, value in (("sasl_username", login.username), ("sasl_password", login.password)):
        if value is None or value in {"", SecretText("")}:
            state = "missing" if value is None else "empty"
            raise ConfigError(
                f"{name} is {state}: {login.mechanism} needs sasl_username and sasl_password, or"
                " sasl_jaas_config"
            )


def _with_token(login: LoginConfig, texts: Mapping[str, Any]) -> LoginConfig:
    """Return the login with its source of tokens: a function, a file or an endpoint."""
    if login.username is not None or login.password is not None:
        raise ConfigError(
            "OAUTHBEARER logs in with a token: leave out sasl_username and sasl_password"
        )
    token, url = texts.get("sasl_oauthbearer_token"), texts.get(ENDPOINT)
    if token is not None and url is not None:
        raise ConfigError(
            f"sasl_oauthbearer_token and {ENDPOINT} both say where tokens are: keep one of them"
        )
    is_fetched = url is not None and not str(url).startswith("file:")
    if not is_fetched and (unused := [name for name in CREDENTIALS if name in texts]):
        raise ConfigError(
            f"{unused[0]} means nothing without the http or https URL of an endpoint: set"
            f" {ENDPOINT}, or leave it out"
        )
    if url is not None:
        return (
            replace(login, endpoint=_endpoint(url, login, texts))
            if is_fetched
            else replace(login, token=file_of_url(url))
        )
    if token is None:
        raise ConfigError(
            "sasl_oauthbearer_token is missing: a function that returns the token, or the path of"
            f" the file that it lies in; or set {ENDPOINT}, where tokens are given for a client's"
            " id and secret"
        )
    if not callable(token) and not isinstance(token, str):
        raise ConfigError(
            "sasl_oauthbearer_token is a function without arguments, or the path of a file"
        )
    return replace(login, token=token)


def _endpoint(url: str, login: LoginConfig, texts: Mapping[str, Any]) -> TokenEndpointConfig:
    validate_web_url(url, ENDPOINT)
    for name in CREDENTIALS[:2]:
        if texts.get(name) in {None, "", SecretText("")} and login.jaas is None:
            option = "clientId" if name.endswith("id") else "clientSecret"
            raise ConfigError(
                f"{name} is missing: the endpoint gives tokens to clients with an id and a secret;"
                f" or set {option} in sasl_jaas_config"
            )
    client_id, client_secret, scope, is_encoded, ca = (texts.get(name) for name in CREDENTIALS)
    return TokenEndpointConfig(
        url=url,
        client_id=client_id,
        client_secret=client_secret,
        scope=scope,
        is_header_encoded=bool(is_encoded),
        ca=ca,
    )


def validate_web_url(url: str, key: str) -> None:
    """Refuse a URL from which no document can be fetched.

    The URL is not shown, as it may hold a secret.

    Raises:
        ConfigError: the URL is not an http or https URL of a host, or contains a user.
    """
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(
            f"{key} must be a URL that begins with http://, https:// or file:// and names a host or"
            " a file"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            f"{key} has a user in it, which is not heeded: name the client's id and secret in keys"
            " of their own"
        )


def file_of_url(url: str) -> str:
    """Return the path of a file URL."""
    return unquote(urlsplit(url).path)
