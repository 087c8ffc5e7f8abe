"""Decides on delegation tokens: creates, renews and expires them, and removes expired ones.

A client logs in with a token as its owner, until the token expires. Owner and renewers may change
the expiry, but not beyond the token's longest life. Checks and error codes come in the order of
Apache Kafka. KIP-48, KIP-373, KIP-900.

Invariants: no record contains an HMAC. A client that logged in with a token may not create, renew
or expire one. Times are wall time in milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from log_service.common.access import Principal
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import METADATA_VERSION
from log_service.common.secrets import SecretText
from log_service.config.views import TokenConfig
from log_service.controller.caller import Caller
from log_service.metadata.access import DelegationToken
from log_service.metadata.access_records import token_record
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from log_service.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from log_service.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from log_service.protocol.stored.metadata_records import MetadataRecord, RemoveDelegationTokenRecord
from log_service.security.delegation import TokenIndex, token_hmac

FIRST_LEVEL: Final = 14
"""The metadata.version (3.6-IV2) from which on the metadata may hold delegation tokens."""
MAX_REMOVED_COUNT: Final = 1_000
"""Tokens that one sweep removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRules:
    """The arguments of rules about tokens, besides the metadata.

    They are the node's configuration, the caller, the wall-clock time, the id of a new token, and
    an index that finds tokens by HMAC.
    """

    config: TokenConfig
    caller: Caller
    wall_ms: int
    new_id: str
    index: TokenIndex | None
    """None if there are no tokens."""

    def validate(self, image: MetadataImage) -> SecretText:
        """Check that the caller may request tokens, and return the secret of the cluster.

        Raises:
            KafkaError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED,
                UNSUPPORTED_VERSION.
        """
        if self.caller.is_token_authenticated:
            raise KafkaError(
                ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
                "a login by a delegation token cannot ask for tokens",
            )
        if self.config.secret is None:
            raise KafkaError(
                ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set"
            )
        level = image.features.get(METADATA_VERSION, 0)
        if level < FIRST_LEVEL:
            text = f"metadata.version is {level}; delegation tokens are there from {FIRST_LEVEL} on"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return self.config.secret


def token_id_of(new_id: UUID) -> str:
    """Return a token's id from a UUID: 22 characters of URL-safe base64."""
    import base64  # noqa: PLC0415 - few clusters have tokens

    return base64.urlsafe_b64encode(new_id.bytes).rstrip(b"=").decode()


def create_token(
    image: MetadataImage, request: CreateDelegationTokenRequest, rules: DelegationTokenRules
) -> tuple[list[MetadataRecord], CreateDelegationTokenResponse]:
    """Return the record of a new token, and the response.

    The token is for the caller, or for the owner that the request names.

    Raises:
        KafkaError: the request is refused.
    """
    requester = rules.caller.principal
    if request.owner_principal_name and request.owner_principal_type is None:
        raise KafkaError(
            ErrorCode.INVALID_PRINCIPAL_TYPE,
            "the owner has a name and no type; the type of users is User",
        )
    owner = (
        Principal(request.owner_principal_type or "", request.owner_principal_name)
        if request.owner_principal_name
        else requester
    )
    if any(renewer.principal_type != "User" for renewer in request.renewers):
        text = "a renewer is of another type than User"
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, text)
    secret = rules.validate(image)
    config, now_ms = rules.config, rules.wall_ms
    longest_ms = (
        min(config.max_lifetime_ms, request.max_lifetime_ms)
        if request.max_lifetime_ms > 0
        else config.max_lifetime_ms
    )
    token = DelegationToken(
        token_id=rules.new_id,
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(
            f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers
        ),
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms + longest_ms,
        expiration_timestamp_ms=min(now_ms + longest_ms, now_ms + config.expiry_time_ms),
    )
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issue_timestamp_ms,
        expiry_timestamp_ms=token.expiration_timestamp_ms,
        max_timestamp_ms=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id).reveal(),
    )
    return [token_record(token)], response


def renew_token(
    image: MetadataImage, request: RenewDelegationTokenRequest, rules: DelegationTokenRules
) -> tuple[list[MetadataRecord], RenewDelegationTokenResponse]:
    """Return the record that renews a token, and the response.

    The token expires after the period in the request, which is at most the configured one.

    Raises:
        KafkaError: the request is refused.
    """
    token = _find(image, rules, request.hmac)
    _validate_unexpired(token, rules.wall_ms)
    _validate_renewer(token, rules.caller.principal)
    period_ms = (
        min(rules.config.expiry_time_ms, request.renew_period_ms)
        if request.renew_period_ms > 0
        else rules.config.expiry_time_ms
    )
    renewed = _expiring(token, rules.wall_ms + period_ms)
    return [token_record(renewed)], RenewDelegationTokenResponse(
        expiry_timestamp_ms=renewed.expiration_timestamp_ms
    )


def expire_token(
    image: MetadataImage, request: ExpireDelegationTokenRequest, rules: DelegationTokenRules
) -> tuple[list[MetadataRecord], ExpireDelegationTokenResponse]:
    """Return the record that changes when a token expires, and the response.

    The token expires after the period in the request. A negative period removes the token now.

    Raises:
        KafkaError: the request is refused.
    """
    token = _find(image, rules, request.hmac)
    _validate_renewer(token, rules.caller.principal)
    if request.expiry_time_period_ms < 0:
        removed: MetadataRecord = RemoveDelegationTokenRecord(token_id=token.token_id)
        return [removed], ExpireDelegationTokenResponse(expiry_timestamp_ms=rules.wall_ms)
    _validate_unexpired(token, rules.wall_ms)
    ended = _expiring(token, rules.wall_ms + request.expiry_time_period_ms)
    return [token_record(ended)], ExpireDelegationTokenResponse(
        expiry_timestamp_ms=ended.expiration_timestamp_ms
    )


def expired_tokens(image: MetadataImage, wall_ms: int) -> list[MetadataRecord]:
    """Return the records that remove expired tokens, at most ``MAX_REMOVED_COUNT`` of them."""
    tokens: Sequence[Any] = [
        token
        for token in image.access.delegation_tokens.values()
        if token.expiration_timestamp_ms <= wall_ms
    ]
    return [
        RemoveDelegationTokenRecord(token_id=token.token_id) for token in tokens[:MAX_REMOVED_COUNT]
    ]


def _find(image: MetadataImage, rules: DelegationTokenRules, given: bytes) -> DelegationToken:
    """Return the token with this HMAC.

    Raises:
        KafkaError: DELEGATION_TOKEN_NOT_FOUND; or as ``validate``.
    """
    rules.validate(image)
    assert rules.index is not None, "there is a secret"
    tokens = image.access.delegation_tokens
    token_id = rules.index.find(tokens, bytes(given))
    if token_id is None:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no delegation token of that HMAC"
        )
    return tokens[token_id]


def _validate_unexpired(token: DelegationToken, wall_ms: int) -> None:
    if min(token.max_timestamp_ms, token.expiration_timestamp_ms) < wall_ms:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the delegation token has expired")


def _validate_renewer(token: DelegationToken, principal: Principal) -> None:
    if str(principal) not in (token.owner, *token.renewers):
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
            "the delegation token is of another owner, who names other renewers",
        )


def _expiring(token: DelegationToken, wall_ms: int) -> DelegationToken:
    return replace(token, expiration_timestamp_ms=min(token.max_timestamp_ms, wall_ms))
