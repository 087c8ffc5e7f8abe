"""What a listener that offers OAUTHBEARER takes as a token: made from its keys, checked before the node starts.

Decides which combinations a node does not start with: no keys to check signatures with, a URL that is not allowed, a Java class. Tokens
without signatures are taken only where ``sasl.oauthbearer.unsecured.tokens.allowed`` says so, which is for trials: Apache Kafka takes them
by default.
"""

from collections.abc import Mapping
from typing import Any, Final

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import ConfigError
from log_service.config.definition import split_list
from log_service.security.jwks import Jwks, JwksConfig, fetch_document, validate_url
from log_service.security.sasl.jaas import JaasEntry
from log_service.security.sasl.oauthbearer import Validate, ValidToken
from log_service.security.sasl.web_tokens import WebTokenRules, check_claims, unsigned_claims

HANDLERS: Final = ("OAuthBearerValidatorCallbackHandler", "OAuthBearerUnsecuredValidatorCallbackHandler")
VALIDATORS: Final = ("DefaultJwtValidator", "BrokerJwtValidator")
CLAIM_OPTION, SCOPE_OPTION = "unsecuredValidatorPrincipalClaimName", "unsecuredValidatorScopeClaimName"
SKEW_OPTION = "unsecuredValidatorAllowableClockSkewMs"


class OAuthOffer:
    """How tokens of one listener are checked. ``jwks`` are the issuer's keys, None where tokens need no signature."""

    def __init__(self, listener: str, texts: Mapping[str, str], entry: JaasEntry, env: NodeEnv) -> None:
        self.listener = listener
        self.jwks: Jwks | None = None
        self._clock = env.clock
        where = f"OAUTHBEARER on listener {listener}"
        _validate_class(texts, "sasl.server.callback.handler.class", HANDLERS, where)
        _validate_class(texts, "sasl.oauthbearer.jwt.validator.class", VALIDATORS, where)
        url = texts.get("sasl.oauthbearer.jwks.endpoint.url")
        is_unsecured = texts.get("sasl.oauthbearer.unsecured.tokens.allowed", "false").lower() == "true"
        if url is not None and is_unsecured:
            raise ConfigError(f"{where} has a JWKS URL, and sasl.oauthbearer.unsecured.tokens.allowed; remove one of them")
        if url is None and not is_unsecured:
            raise ConfigError(
                f"{where} has no keys to check tokens with; set sasl.oauthbearer.jwks.endpoint.url. To take tokens without signatures, "
                "for trials alone, set sasl.oauthbearer.unsecured.tokens.allowed=true"
            )
        self._rules = _unsecured_rules(entry) if url is None else _rules(texts)
        if url is not None:
            validate_url(url, split_list(texts.get("sasl.oauthbearer.allowed.urls", "")))
            limiter = trio.CapacityLimiter(1)

            async def run_in_thread(work: Any) -> Any:
                return await trio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)

            config = JwksConfig(
                url=url,
                refresh_ms=_number(texts, "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000),
                retry_backoff_ms=_number(texts, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100),
                retry_backoff_max_ms=_number(texts, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000),
            )
            self.jwks = Jwks(config, self._rules, env.clock, fetch=fetch_document, run_in_thread=run_in_thread)

    def __repr__(self) -> str:
        return f"<OAuthOffer {self.listener} {self.jwks or 'takes tokens without signatures'}>"

    @property
    def validate(self) -> Validate:
        """What checks a token."""
        return self._validate_unsecured if self.jwks is None else self.jwks.validate

    async def fetch_keys(self) -> None:
        """Fetch the keys for the first time.

        Raises:
            ConfigError: they cannot be had; the node must not start.
        """
        if self.jwks is None:
            return
        try:
            await self.jwks.refresh()
        except (OSError, ValueError) as error:
            raise ConfigError(f"the keys of OAUTHBEARER on listener {self.listener} cannot be fetched: {error}") from error

    def _validate_unsecured(self, token: str) -> ValidToken:
        return check_claims({"iat": 0, **unsigned_claims(token)}, self._rules, self._clock.wall_ms() / 1_000)


def _validate_class(texts: Mapping[str, str], key: str, known: tuple[str, ...], where: str) -> None:
    name = texts.get(key)
    if name is not None and name.rpartition(".")[2] not in known:
        raise ConfigError(f"{key} of {where} names a Java class, which cannot run here; remove it, or name one of {', '.join(known)}")


def _rules(texts: Mapping[str, str]) -> WebTokenRules:
    return WebTokenRules(
        issuer=texts.get("sasl.oauthbearer.expected.issuer"),
        audiences=split_list(texts.get("sasl.oauthbearer.expected.audience", "")),
        skew_s=_number(texts, "sasl.oauthbearer.clock.skew.seconds", 30),
        scope_claim=texts.get("sasl.oauthbearer.scope.claim.name", "scope"),
        subject_claim=texts.get("sasl.oauthbearer.sub.claim.name", "sub"),
    )


def _unsecured_rules(entry: JaasEntry) -> WebTokenRules:
    skew = entry.option(SKEW_OPTION) or "0"
    if not skew.isascii() or not skew.isdecimal() or len(skew) > 12:
        raise ConfigError(f"{SKEW_OPTION} is not a number of milliseconds")
    return WebTokenRules(
        skew_s=int(skew) / 1_000, subject_claim=entry.option(CLAIM_OPTION) or "sub", scope_claim=entry.option(SCOPE_OPTION) or "scope"
    )


def _number(texts: Mapping[str, str], key: str, default: int) -> int:
    text = texts.get(key, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ConfigError(f"{key} is {text!r}; it must be a whole number, at least 0")
    return int(text)
