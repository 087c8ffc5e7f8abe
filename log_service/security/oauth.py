"""Validation of OAUTHBEARER tokens on a listener: the issuer's keys and the required claims.

The keys are fetched before the node starts. ``config.oauth`` reads the configuration keys, which
this module does not know. The options of the unsecured validator are in the JAAS text.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import trio

from log_service.common.env import Clock
from log_service.common.errors import ConfigError
from log_service.config.security import OAuthConfig
from log_service.security.issuer_requests import issuer_tls
from log_service.security.jwks import Jwks, JwksConfig, fetch_document
from log_service.security.sasl.jaas import JaasEntry
from log_service.security.sasl.oauthbearer import Validate, ValidToken
from log_service.security.sasl.web_tokens import WebTokenRules, check_claims, unsigned_claims

CLAIM_OPTION, SCOPE_OPTION = (
    "unsecuredValidatorPrincipalClaimName",
    "unsecuredValidatorScopeClaimName",
)
REQUIRED_OPTION: Final = "unsecuredValidatorRequiredScope"
SKEW_OPTION: Final = "unsecuredValidatorAllowableClockSkewMs"

logger = logging.getLogger(__name__)


class OAuthOffer:
    """Checks the tokens of one listener.

    ``jwks`` are the issuer's keys, or None if tokens need no signature.

    Options ``ssl.*`` of the JAAS text set the trust store for an issuer's URL, as in Apache Kafka.

    Raises:
        ConfigError: an option of the JAAS text has no meaning.
    """

    def __init__(self, listener: str, config: OAuthConfig, entry: JaasEntry, clock: Clock) -> None:
        self.listener = listener
        self._is_in_clear = (config.jwks_url or "").startswith("http:")
        self.jwks: Jwks | None = None
        self._clock = clock
        self._tls = issuer_tls(entry)
        self._rules = _unsecured_rules(entry) if config.jwks_url is None else _rules(config)
        if config.jwks_url is not None:
            self.jwks = self._new_jwks(config.jwks_url, config)

    def __repr__(self) -> str:
        return f"<OAuthOffer {self.listener} {self.jwks or 'takes tokens without signatures'}>"

    def _new_jwks(self, url: str, config: OAuthConfig) -> Jwks:
        limiter = trio.CapacityLimiter(1)

        async def run_in_thread(work: Any) -> Any:
            return await trio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)

        times = JwksConfig(
            url=url,
            refresh_ms=config.refresh_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
        )
        return Jwks(
            times,
            self._rules,
            self._clock,
            fetch=partial(fetch_document, tls=self._tls),
            run_in_thread=run_in_thread,
        )

    @property
    def validate(self) -> Validate:
        """The function that checks a token."""
        return self._validate_unsecured if self.jwks is None else self.jwks.validate

    async def fetch_keys(self) -> None:
        """Fetch the keys for the first time.

        Raises:
            ConfigError: the keys cannot be fetched, so the node or service must not start.
        """
        if self.jwks is None:
            return
        for warning in self._warnings():
            logger.warning("%s", warning)
        try:
            await self.jwks.refresh()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the keys of OAUTHBEARER on listener {self.listener} cannot be fetched: {error}"
            ) from error

    def _warnings(self) -> Iterator[str]:
        """Yield one sentence for each check that the configuration leaves out."""
        where = f"OAUTHBEARER on listener {self.listener}"
        if self._is_in_clear:
            text = "who stands between can name keys of his own, and be anyone; use an https URL"
            yield f"The keys of {where} are fetched without TLS: {text}"
        if self._rules.issuer is None:
            yield (
                f"{where} takes tokens of any issuer that one of the keys has signed; set"
                " sasl.oauthbearer.expected.issuer"
            )
        if not self._rules.audiences:
            yield (
                f"{where} takes tokens without an audience, for whatever service they were made;"
                " set sasl.oauthbearer.expected.audience"
            )

    def _validate_unsecured(self, token: str) -> ValidToken:
        return check_claims(
            {"iat": 0, **unsigned_claims(token)}, self._rules, self._clock.wall_ms() / 1_000
        )


def _rules(config: OAuthConfig) -> WebTokenRules:
    return WebTokenRules(
        issuer=config.issuer,
        audiences=config.audiences,
        algorithms=config.algorithms,
        skew_s=config.skew_s,
        scope_claim=config.scope_claim,
        subject_claim=config.subject_claim,
    )


def _unsecured_rules(entry: JaasEntry) -> WebTokenRules:
    skew = entry.option(SKEW_OPTION) or "0"
    if not skew.isascii() or not skew.isdecimal() or len(skew) > 12:
        raise ConfigError(f"{SKEW_OPTION} is not a number of milliseconds")
    return WebTokenRules(
        skew_s=int(skew) / 1_000,
        subject_claim=entry.option(CLAIM_OPTION) or "sub",
        scope_claim=entry.option(SCOPE_OPTION) or "scope",
        required_scopes=frozenset((entry.option(REQUIRED_OPTION) or "").split()),
    )
