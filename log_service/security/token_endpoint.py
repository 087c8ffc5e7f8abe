"""Tokens from an issuer's endpoint, by client credentials (RFC 6749, KIP-768, KIP-1139).

A token is fetched for the first login, and again for the first login after four fifths of its
lifetime, as Apache Kafka's clients do. Logins in between share the token, and wait for the same
fetch. Id, secret and scope come from their own keys or from the JAAS text. The keys take
precedence. The endpoint's TLS is that of ``issuer_requests``.

Invariant: no error and no ``repr`` shows a secret, a token or the endpoint's response, except the
error names of RFC 6749.
"""

import base64
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote_plus

import trio

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.common.urls import shown_url
from log_service.config.client_security import TokenEndpointConfig
from log_service.config.tls import tls_config
from log_service.security.issuer_errors import IssuerError
from log_service.security.issuer_requests import IssuerTls, Response, exchange, issuer_tls
from log_service.security.sasl.jaas import JaasEntry
from log_service.security.sasl.oauthbearer import MAX_TOKEN_LENGTH

RENEWAL_SHARE: Final = 0.8
"""Kafka's ``sasl.login.refresh.window.factor``."""
MAX_ERROR_LENGTH: Final = 200
CLIENT_ID_OPTION, CLIENT_SECRET_OPTION, SCOPE_OPTION = "clientId", "clientSecret", "scope"

logger = logging.getLogger(__name__)

Exchange = Callable[..., Response]
"""``issuer_requests.exchange``. Blocks."""
RunInThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class TokenEndpoint:
    """Fetches and caches one client's tokens.

    One object serves all connections of a client.

    Raises:
        ConfigError: id or secret is missing, or certificates cannot be used.
    """

    def __init__(
        self,
        config: TokenEndpointConfig,
        entry: JaasEntry | None,
        run_in_thread: RunInThread | None = None,
        ask: Exchange = exchange,
    ) -> None:
        self._config = _completed(config, entry)
        self._tls = _tls(config, entry)
        if config.url.startswith("https:"):
            self._tls.context()  # report unusable certificates before anything is connected
        else:
            text = (
                "The secret of this client goes to %s in the clear, and its tokens come back so;"
                " use an https URL"
            )
            logger.warning(text, shown_url(config.url))
        self._run_in_thread = run_in_thread or _run_in_thread
        self._ask = ask
        self._lock = trio.Lock()
        self._token: SecretText | None = None
        self._renew_at = 0.0

    def __repr__(self) -> str:
        return f"<TokenEndpoint {shown_url(self._config.url)} of client {self._config.client_id}>"

    async def token(self) -> tuple[SecretText, bool]:
        """Return a token that should still be valid, and whether it was fetched just now.

        Raises:
            IssuerError: the endpoint returns no token.
        """
        async with self._lock:
            is_old = self._token is not None and trio.current_time() < self._renew_at
            if self._token is None or not is_old:
                began = trio.current_time()
                self._token, lifetime_s = await self._run_in_thread(self._fetch)
                self._renew_at = began + lifetime_s * RENEWAL_SHARE
            return self._token, not is_old

    def forget(self, token: SecretText) -> None:
        """Drop a token that a broker refused, so that the next login fetches another."""
        if self._token == token:
            self._token = None

    def _fetch(self) -> tuple[SecretText, float]:
        """Return a token, and its lifetime in seconds. It blocks, and raises IssuerError."""
        response = self._ask(
            self._config.url, self._tls, body=self._body(), headers=self._headers()
        )
        where = shown_url(self._config.url)
        if response.status not in {HTTPStatus.OK, HTTPStatus.CREATED}:
            text = (
                f"{where} responded with status {response.status}{self._reason_of(response.body)}"
            )
            raise IssuerError(text, may_pass=response.may_pass)
        document = _document(response.body)
        token = document.get("access_token") or document.get("id_token")
        if not isinstance(token, str) or not token.strip() or len(token) > MAX_TOKEN_LENGTH:
            text = (
                f"{where} responded with no access_token, as JSON, of at most {MAX_TOKEN_LENGTH}"
                " characters"
            )
            raise IssuerError(text, may_pass=False)
        return SecretText(token.strip()), _lifetime_s(document, token.strip())

    def _reason_of(self, body: bytes) -> str:
        """Return an endpoint's reason for a refusal (RFC 6749, 5.2) without an echoed secret."""
        assert self._config.client_secret is not None
        document = _document(body)
        parts = [
            document[name]
            for name in ("error", "error_description")
            if isinstance(document.get(name), str)
        ]
        text = ": ".join(parts).replace(self._config.client_secret.reveal(), "***")
        text = "".join(letter if letter.isprintable() else "?" for letter in text)[
            :MAX_ERROR_LENGTH
        ]
        return f" ({text})" if text else ""

    def _body(self) -> bytes:
        scope = self._config.scope
        return (
            "grant_type=client_credentials" + (f"&scope={quote_plus(scope)}" if scope else "")
        ).encode()

    def _headers(self) -> dict[str, str]:
        assert self._config.client_id is not None
        assert self._config.client_secret is not None
        pair = (self._config.client_id, self._config.client_secret.reveal())
        text = ":".join(map(quote_plus, pair) if self._config.is_header_encoded else pair)
        return {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(text.encode()).decode()}",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }


def _is_set(secret: SecretText | None) -> bool:
    return secret is not None and bool(secret.reveal().strip())


async def _run_in_thread(work: Callable[[], Any]) -> Any:
    """Run in a thread. A cancelled caller does not wait for the exchange, which ends by itself."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def _completed(config: TokenEndpointConfig, entry: JaasEntry | None) -> TokenEndpointConfig:
    def option(name: str) -> str | None:
        return None if entry is None else (entry.option(name) or "").strip() or None

    secret = option(CLIENT_SECRET_OPTION)
    complete = replace(
        config,
        client_id=config.client_id or option(CLIENT_ID_OPTION),
        client_secret=(
            config.client_secret
            if _is_set(config.client_secret)
            else None
            if secret is None
            else SecretText(secret)
        ),
        scope=config.scope or option(SCOPE_OPTION),
    )
    prefix = "sasl.oauthbearer.client.credentials.client"
    for value, key, name in (
        (complete.client_id, f"{prefix}.id", CLIENT_ID_OPTION),
        (complete.client_secret, f"{prefix}.secret", CLIENT_SECRET_OPTION),
    ):
        if value is None:
            raise ConfigError(
                f"{key} is missing: {shown_url(config.url)} gives tokens to clients with an id and"
                f" a secret; or set {name} in sasl.jaas.config"
            )
    return complete


def _tls(config: TokenEndpointConfig, entry: JaasEntry | None) -> IssuerTls:
    tls = issuer_tls(entry)
    advice = (
        f"{tls.advice}, or in sasl_oauthbearer_ca; the ssl.truststore.* of the connections to"
        " brokers do not count here"
    )
    if config.ca is None:
        return replace(tls, advice=advice)
    if tls.config != tls_config({}):
        raise ConfigError(
            "sasl_oauthbearer_ca and the ssl.* options of sasl.jaas.config both speak of the token"
            " endpoint: keep one of them"
        )
    kind = "certificates" if config.ca.lstrip().startswith("-----BEGIN") else "location"
    trusted = "sasl_oauthbearer_ca" + (f"={config.ca}" if kind == "location" else "")
    texts = {"ssl.truststore.type": "PEM", f"ssl.truststore.{kind}": config.ca}
    return IssuerTls(config=tls_config(texts), trusted=trusted, advice=advice)


def _document(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a body, or an empty one if it has none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _lifetime_s(document: Mapping[str, Any], token: str) -> float:
    """Return a token's lifetime in seconds.

    The endpoint's figure comes first, then the token's own. 0 means that both are missing, and the
    token serves one login.
    """
    lifetime_s: Any = document.get("expires_in")
    if (
        isinstance(lifetime_s, str)
        and lifetime_s.isascii()
        and lifetime_s.isdecimal()
        and len(lifetime_s) < 10
    ):
        lifetime_s = int(lifetime_s)
    if not _is_seconds(lifetime_s):
        claims = _claims(token)
        if not _is_seconds(claims.get("exp")) or not _is_seconds(claims.get("iat")):
            return 0
        lifetime_s = claims["exp"] - claims["iat"]
    return max(float(lifetime_s), 0.0)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12


def _claims(token: str) -> Mapping[str, Any]:
    """Return the unverified claims of a JWT, or no claims for other text.

    Only the broker can check them.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _document(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
