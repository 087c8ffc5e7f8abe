"""APIs of delegation tokens (KIP-48): create, renew, expire and describe.

CreateDelegationToken (API key 38, versions 1-3), RenewDelegationToken (39, 1-2),
ExpireDelegationToken (40, 1-2) and DescribeDelegationToken (41, 1-3).

Behaviour: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED on a listener without encryption and login, to a
client without a name, and to one that logged in by a token. DELEGATION_TOKEN_AUTH_DISABLED if the
cluster has no secret. The controller decides on the first three. A description, from this broker's
image, has the tokens that the caller owns or may renew, with their HMACs, which are their
passwords.

Versions: 2 flexible; 3 the owner, and the requester beside it (KIP-373).
"""

from typing import Any

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, ForwardedCall
from log_service.common.access import ANONYMOUS, Access, AclOperation, AclResource
from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.access import DelegationToken
from log_service.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from log_service.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from log_service.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from log_service.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NEVER_MS = -1


def handle_create_delegation_token(
    node: Node, call: Call, request: CreateDelegationTokenRequest
) -> Deferred:
    """Let the controller create a token."""
    _validate(node, call)
    return call.run(node.controller.request(request, CreateDelegationTokenResponse, call.caller()))


def handle_renew_delegation_token(
    node: Node, call: Call, request: RenewDelegationTokenRequest
) -> Deferred:
    """Let the controller extend the life of a token."""
    _validate(node, call)
    return call.run(node.controller.request(request, RenewDelegationTokenResponse, call.caller()))


def handle_expire_delegation_token(
    node: Node, call: Call, request: ExpireDelegationTokenRequest
) -> Deferred:
    """Let the controller set the expiry of a token."""
    _validate(node, call)
    return call.run(node.controller.request(request, ExpireDelegationTokenResponse, call.caller()))


def handle_describe_delegation_token(
    node: Node, call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Respond with the tokens that the caller may see."""
    from log_service.security.delegation import (  # noqa: PLC0415 - few clusters have tokens
        token_hmac,
    )

    _validate(node, call)
    secret = node.config.tokens.secret
    if secret is None:
        raise KafkaError(
            ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, "delegation.token.secret.key is not set"
        )
    owners = (
        None
        if request.owners is None
        else {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    )
    caller = str(call.connection.principal)
    tokens = [
        _described(token, token_hmac(secret, token.token_id).reveal())
        for token in node.image().access.delegation_tokens.values()
        if _is_listed(token, owners)
        and (caller in (token.owner, *token.renewers) or _may_see(call.access, token))
    ]
    return DescribeDelegationTokenResponse(tokens=tokens)


def refuse_create_delegation_token(call: Call, error: KafkaError) -> CreateDelegationTokenResponse:
    """Return the error response, which names the client's own principal."""
    principal = call.connection.principal
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=principal.type,
        principal_name=principal.name,
        token_requester_principal_type=principal.type,
        token_requester_principal_name=principal.name,
        issue_timestamp_ms=NEVER_MS,
        expiry_timestamp_ms=NEVER_MS,
        max_timestamp_ms=NEVER_MS,
    )


def refuse_renew_delegation_token(call: Call, error: KafkaError) -> RenewDelegationTokenResponse:  # noqa: ARG001 - one shape for all
    """Return the response with the error."""
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NEVER_MS)


def refuse_expire_delegation_token(call: Call, error: KafkaError) -> ExpireDelegationTokenResponse:  # noqa: ARG001 - one shape for all
    """Return the response with the error."""
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NEVER_MS)


def _validate(node: Node, call: Call) -> None:
    """Refuse clients that must not create or see tokens.

    HMACs of tokens are passwords, and a token must not create another. A forwarded request comes
    through the listener of controllers. In this case the forwarding broker has checked the listener
    of its client.

    Raises:
        KafkaError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
    """
    if isinstance(call, ForwardedCall):
        return
    context = call.connection
    listeners = (*node.config.listeners, *node.config.controller_listeners)
    protocol = next(
        (each.security.protocol for each in listeners if each.name == context.listener_name),
        "PLAINTEXT",
    )
    is_nameless = protocol == "SSL" and context.principal == ANONYMOUS
    if protocol == "PLAINTEXT" or is_nameless or context.is_token_authenticated:
        text = "delegation tokens are asked for by clients that have logged in, and not by a token"
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, text)


def _may_see(access: Access | None, token: DelegationToken) -> bool:
    """Return whether ACLs allow a client to see a token that it neither owns nor may renew.

    Without an authorizer the token stays hidden, because it contains a password.
    """
    return access is not None and (
        access.could(AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN, token.token_id)
        or access.could(AclOperation.DESCRIBE_TOKENS, AclResource.USER, token.owner)
    )


def _is_listed(token: DelegationToken, owners: set[str] | None) -> bool:
    return owners is None or not owners.isdisjoint((token.owner, *token.renewers))


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    owner, requester, renewers = (
        _parts(token.owner),
        _parts(token.requester),
        map(_parts, token.renewers),
    )
    return DescribedDelegationToken(
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiration_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in renewers
        ],
    )


def _parts(principal: str) -> tuple[str, Any]:
    kind, _, name = principal.partition(":")
    return kind, name
