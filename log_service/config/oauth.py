"""The ``sasl.oauthbearer.*`` keys of a listener that offers OAUTHBEARER, or of a node's own login.

No other module reads these keys. Some combinations prevent a node's start: signatures without keys
to check them, a URL that is not allowed, a Java class. Unsigned tokens are accepted only with
``sasl.oauthbearer.unsecured.tokens.allowed``, which is for test setups. Apache Kafka accepts them
by default. This module opens no file and fetches nothing.
"""

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.common.urls import shown_url
from log_service.config.client_security import (
    LoginConfig,
    TokenEndpointConfig,
    file_of_url,
    validate_web_url,
)
from log_service.config.sasl_keys import SASL_KEYS
from log_service.config.security import OAuthConfig, effective_text

MECHANISM: Final = "OAUTHBEARER"
PREFIX: Final = "sasl.oauthbearer."
ALLOWED_URLS: Final = f"{PREFIX}allowed.urls"
ALLOWED_ALGORITHMS: Final = f"{PREFIX}allowed.algorithms"
JWKS_URL: Final = f"{PREFIX}jwks.endpoint.url"
TOKEN_URL: Final = f"{PREFIX}token.endpoint.url"
UNSECURED: Final = f"{PREFIX}unsecured.tokens.allowed"
CREDENTIALS: Final = (
    f"{PREFIX}client.credentials.client.id",
    f"{PREFIX}client.credentials.client.secret",
    f"{PREFIX}scope",
)
"""The credentials that this node shows to the token endpoint."""
SCHEMES: Final = ("http", "https", "file")

CLASSES: Final = {
    "sasl.server.callback.handler.class": (
        "OAuthBearerValidatorCallbackHandler",
        "OAuthBearerUnsecuredValidatorCallbackHandler",
    ),
    f"{PREFIX}jwt.validator.class": ("DefaultJwtValidator", "BrokerJwtValidator"),
}
"""Keys of a listener that name a Java class, and the supported classes."""
CLASSES_OF_LOGINS: Final = {
    "sasl.login.callback.handler.class": ("OAuthBearerLoginCallbackHandler",),
    f"{PREFIX}jwt.retriever.class": (
        "DefaultJwtRetriever",
        "FileJwtRetriever",
        "ClientCredentialsJwtRetriever",
    ),
}
"""Keys of a node's own login that name a Java class, and the supported classes."""

_KEYS: Final = {key.name: key for key in SASL_KEYS}


def oauth_config(texts: Mapping[str, str], listener: str) -> OAuthConfig:
    """Return the configuration by which a listener checks tokens.

    Raises:
        ConfigError: there are no keys to check tokens with, or a value is not valid for its key.
    """
    where = f"OAUTHBEARER on listener {listener}"
    _validate_classes(texts, listener, CLASSES, where)
    values = {name: _value(texts, name, listener) for name in _KEYS if name.startswith(PREFIX)}
    url, is_unsecured = cast("str | None", values[JWKS_URL]), bool(values[UNSECURED])
    if url is not None and is_unsecured:
        raise ConfigError(f"{where} has a JWKS URL, and {UNSECURED}; remove one of them")
    if url is None and not is_unsecured:
        raise ConfigError(
            f"{where} has no keys to check tokens with; set {JWKS_URL}. To take tokens without"
            f" signatures, for trials alone, set {UNSECURED}=true"
        )
    if is_unsecured and values[ALLOWED_ALGORITHMS]:
        raise ConfigError(
            f"{where} takes tokens without signatures, and {ALLOWED_ALGORITHMS} says how they are"
            " signed; remove one of them"
        )
    if url is not None:
        _validate_url(url, values, JWKS_URL)
    return OAuthConfig(
        jwks_url=url,
        refresh_ms=cast("int", values[f"{PREFIX}jwks.endpoint.refresh.ms"]),
        retry_backoff_ms=cast("int", values[f"{PREFIX}jwks.endpoint.retry.backoff.ms"]),
        retry_backoff_max_ms=cast("int", values[f"{PREFIX}jwks.endpoint.retry.backoff.max.ms"]),
        issuer=cast("str | None", values[f"{PREFIX}expected.issuer"]),
        audiences=cast("tuple[str, ...]", values[f"{PREFIX}expected.audience"]),
        algorithms=cast("tuple[str, ...]", values[ALLOWED_ALGORITHMS]),
        skew_s=cast("int", values[f"{PREFIX}clock.skew.seconds"]),
        scope_claim=cast("str", values[f"{PREFIX}scope.claim.name"]),
        subject_claim=cast("str", values[f"{PREFIX}sub.claim.name"]),
    )


def node_token(texts: Mapping[str, str], listener: str, jaas: SecretText | None) -> LoginConfig:
    """Return a node's login to other nodes by a token, from a file or an endpoint.

    Raises:
        ConfigError: no source is named, the named source is not allowed, or an endpoint is named
            without credentials.
    """
    where = f"the OAUTHBEARER login of this node on listener {listener}"
    _validate_classes(texts, listener, CLASSES_OF_LOGINS, where)
    values = {
        name: _value(texts, name, listener) for name in (TOKEN_URL, ALLOWED_URLS, *CREDENTIALS)
    }
    url = cast("str | None", values[TOKEN_URL])
    if url is None:
        raise ConfigError(
            f"{where} has no token; set {TOKEN_URL} to the file: URL of the file that something"
            " keeps fresh, or to the URL of an endpoint"
        )
    _validate_url(url, values, TOKEN_URL)
    if urlsplit(url).scheme == "file":
        return LoginConfig(mechanism=MECHANISM, token=file_of_url(url), jaas=jaas)
    client_id, secret, scope = (values[name] for name in CREDENTIALS)
    return LoginConfig(
        mechanism=MECHANISM,
        jaas=jaas,
        endpoint=TokenEndpointConfig(
            url=url,
            client_id=cast("str | None", client_id),
            client_secret=None if secret is None else SecretText(str(secret)),
            scope=cast("str | None", scope),
        ),
    )


def _validate_url(url: str, values: Mapping[str, object], key: str) -> None:
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise ConfigError(
            f"{key} is {shown_url(url)}; it must begin with one of"
            f" {', '.join(f'{scheme}:' for scheme in SCHEMES)}"
        )
    if scheme != "file":
        validate_web_url(url, key)
    if url not in cast("tuple[str, ...]", values[ALLOWED_URLS]):
        raise ConfigError(
            f"{key} is {shown_url(url)}, which does not stand in {ALLOWED_URLS}; add it there if"
            " this node may read it"
        )


def _value(texts: Mapping[str, str], name: str, listener: str) -> object:
    """Return a key's value for OAUTHBEARER on a listener. An empty text counts as unset."""
    key = _KEYS[name]
    text = effective_text(texts, name, listener, MECHANISM)
    text = key.default if text is None or not text.strip() else text
    return None if text is None else key.parse(text)


def _validate_classes(
    texts: Mapping[str, str], listener: str, classes: Mapping[str, tuple[str, ...]], where: str
) -> None:
    for name, known in classes.items():
        found = (effective_text(texts, name, listener, MECHANISM) or "").strip()
        if found and found.rpartition(".")[2] not in known:
            raise ConfigError(
                f"{name} of {where} names a Java class, which cannot run here; remove it, or name"
                f" one of {', '.join(known)}"
            )
