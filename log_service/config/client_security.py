"""What a client was told about encryption and logins: the settings ``security_protocol``, ``ssl_*`` and ``sasl_*``, checked together.

The names are Kafka's in snake_case; ``sasl_username`` and ``sasl_password`` are librdkafka's, for those who have no JAAS text. Decides
which combinations contradict each other, and says so before anything is connected. Opens no file and reads no JAAS text: that is for
``security.outgoing``.

Invariant: no error and no ``repr`` shows a secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.security import KERBEROS, MECHANISMS, PROTOCOLS, TlsConfig
from log_service.config.tls import tls_config

SECRETS: Final = frozenset(
    {
        "sasl_jaas_config",
        "sasl_password",
        "ssl_key_password",
        "ssl_keystore_key",
        "ssl_keystore_password",
        "ssl_truststore_password",
    }
)
"""Settings whose values are never shown."""
SASL_SETTINGS: Final = ("sasl_mechanism", "sasl_jaas_config", "sasl_username", "sasl_password", "sasl_oauthbearer_token")
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
"""Where a client's OAuth token comes from: a function without arguments, or the path of a file, read anew for each login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginConfig:
    """How a client, or a node that connects to another one, proves who it is."""

    mechanism: str
    jaas: SecretText | None = None
    username: str | None = None
    password: SecretText | None = None
    token: TokenSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """What a client does with a fresh connection: nothing, TLS, a login, or both."""

    protocol: str = "PLAINTEXT"
    tls: TlsConfig | None = None
    login: LoginConfig | None = None


def client_security(given: Mapping[str, Any]) -> ClientSecurity:
    """Return what the security settings say together; settings that are None were not given.

    Raises:
        ConfigError: settings contradict each other, or one is missing that another needs.
    """
    texts = {name: value for name in SECURITY_SETTINGS if (value := given.get(name)) is not None}
    protocol = str(texts.pop("security_protocol", "PLAINTEXT"))
    if protocol not in PROTOCOLS:
        raise ConfigError(f"security_protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    _refuse_unused(protocol, texts)
    return ClientSecurity(
        protocol=protocol,
        tls=_tls(texts) if protocol.endswith("SSL") else None,
        login=_login(protocol, texts) if protocol.startswith("SASL") else None,
    )


def _refuse_unused(protocol: str, texts: Mapping[str, Any]) -> None:
    """Refuse settings that the protocol does not heed: a password that is given and not used is a mistake that nothing else would tell."""
    for names, is_heeded, better in (
        (SASL_SETTINGS, protocol.startswith("SASL"), "SASL_SSL"),
        (SSL_SETTINGS, protocol.endswith("SSL"), "SASL_SSL" if protocol.startswith("SASL") else "SSL"),
    ):
        unused = [name for name in names if name in texts]
        if unused and not is_heeded:
            raise ConfigError(
                f"{unused[0]} means nothing with security_protocol={protocol}: set security_protocol={better}, or leave it out"
            )


def _tls(texts: Mapping[str, Any]) -> TlsConfig:
    named = {name.replace("_", "."): _revealed(texts[name]) for name in SSL_SETTINGS if name in texts and name != "ssl_ca"}
    if "ssl_ca" in texts:
        clashing = [name for name in SSL_SETTINGS if name.startswith("ssl_truststore") and name in texts]
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
        raise ConfigError(f"sasl_mechanism is missing: security_protocol={protocol} needs one of {', '.join(MECHANISMS)}")
    if mechanism not in MECHANISMS:
        advice = "; Kerberos is not there, use SCRAM-SHA-512, OAUTHBEARER or TLS with client certificates" if mechanism == KERBEROS else ""
        raise ConfigError(f"sasl_mechanism must be one of {', '.join(MECHANISMS)}, not {mechanism!r}{advice}")
    login = LoginConfig(
        mechanism=mechanism,
        jaas=texts.get("sasl_jaas_config"),
        username=texts.get("sasl_username"),
        password=texts.get("sasl_password"),
        token=texts.get("sasl_oauthbearer_token"),
    )
    _validate_token(login) if mechanism == "OAUTHBEARER" else _validate_password(login)
    return login


def _validate_password(login: LoginConfig) -> None:
    if login.token is not None:
        raise ConfigError(f"sasl_oauthbearer_token means nothing with sasl_mechanism={login.mechanism}: set OAUTHBEARER, or leave it out")
    if login.jaas is not None:
        if login.username is not None or login.password is not None:
            raise ConfigError("sasl_jaas_config holds the user and the password: leave out sasl_username and sasl_password")
        return
    for name, value in (("sasl_username", login.username), ("sasl_password", login.password)):
        if value is None or value in {"", SecretText("")}:
            state = "missing" if value is None else "empty"
            raise ConfigError(f"{name} is {state}: {login.mechanism} needs sasl_username and sasl_password, or sasl_jaas_config")


def _validate_token(login: LoginConfig) -> None:
    if login.username is not None or login.password is not None:
        raise ConfigError("OAUTHBEARER logs in with a token: leave out sasl_username and sasl_password")
    if login.token is None:
        raise ConfigError("sasl_oauthbearer_token is missing: a function that returns the token, or the path of the file that it lies in")
    if not callable(login.token) and not isinstance(login.token, str):
        raise ConfigError("sasl_oauthbearer_token is a function without arguments, or the path of a file")
