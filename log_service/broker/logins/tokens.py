"""Logins by delegation tokens: finds a token in the metadata and makes its SCRAM credential.

A credential takes milliseconds to make. It is made in a thread when its token first logs in, and
cached. An expired token is not found, so that its login is refused. Apache Kafka accepts the login
and closes the connection at the first request.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from log_service.common.env import Clock, RunInPool
from log_service.common.secrets import SecretText
from log_service.metadata.access import DelegationToken
from log_service.metadata.image import MetadataImage
from log_service.security.delegation import parse_principal, token_credential
from log_service.security.sasl.credentials import ScramCredential
from log_service.security.sasl.scram_server import TokenLogin, TokenWanted

MAX_KEPT_COUNT: Final = 1_000
"""Maximum of cached credentials. The least recently used one is dropped first."""


class TokenLogins:
    """Finds tokens for SCRAM logins. It finds none if the cluster has no ``secret``."""

    def __init__(
        self,
        secret: SecretText | None,
        image: Callable[[], MetadataImage],
        *,
        clock: Clock,
        run_in_pool: RunInPool,
    ) -> None:
        self._secret = secret
        self._image = image
        self._clock = clock
        self._run_in_pool = run_in_pool
        self._kept: OrderedDict[TokenWanted, ScramCredential] = OrderedDict()

    def __repr__(self) -> str:
        return f"<TokenLogins kept={len(self._kept)}>"

    async def find(self, wanted: object) -> TokenLogin | None:
        """Return a token for its login, or None if the id is unknown or the token has expired."""
        assert isinstance(wanted, TokenWanted), wanted
        token = self._unexpired(wanted.token_id)
        if self._secret is None or token is None:
            return None
        credential = await self._credential(self._secret, wanted)
        return TokenLogin(
            owner=parse_principal(token.owner),
            credential=credential,
            expires_at_ms=token.expiration_timestamp_ms,
            is_there=lambda: self._unexpired(wanted.token_id) is not None,
        )

    def _unexpired(self, token_id: str) -> DelegationToken | None:
        token = self._image().access.delegation_tokens.get(token_id)
        return (
            None
            if token is None or token.expiration_timestamp_ms <= self._clock.wall_ms()
            else token
        )

    async def _credential(self, secret: SecretText, wanted: TokenWanted) -> ScramCredential:
        kept = self._kept.get(wanted)
        if kept is None:
            kept = await self._run_in_pool(
                lambda: token_credential(secret, wanted.token_id, wanted.mechanism)
            )
            while len(self._kept) >= MAX_KEPT_COUNT:
                self._kept.popitem(last=False)
        self._kept[wanted] = kept
        self._kept.move_to_end(wanted)
        return kept
