"""SCRAM users (KIP-554): the description and the change of their credentials.

DescribeUserScramCredentials (API key 50, version 0): responds with the mechanisms and iterations of
users from this broker's image. No list, or an empty one, means all users. A repeated user is
DUPLICATE_RESOURCE, one without a credential RESOURCE_NOT_FOUND. No client gets salts or keys.

AlterUserScramCredentials (51, version 0): the controller decides on each user by itself.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.repeated import repeated
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from log_service.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle_describe_user_scram_credentials(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    """Respond with the credentials of users, without their salts and keys."""
    return describe_scram_users(node.image(), request)


def describe_scram_users(
    image: MetadataImage, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the credentials of users in the metadata."""
    infos: dict[str, list[CredentialInfo]] = {}
    for user, credential in sorted(
        image.access.scram_credentials.items(), key=lambda item: item[0]
    ):
        infos.setdefault(user.name, []).append(
            CredentialInfo(mechanism=user.mechanism, iterations=credential.iterations)
        )
    named = [user.name for user in request.users or ()]
    twice = repeated(named)
    return DescribeUserScramCredentialsResponse(
        results=[
            _described(name, infos, is_named_twice=name in twice)
            for name in dict.fromkeys(named) or sorted(infos)
        ]
    )


def _described(
    name: str, infos: dict[str, list[CredentialInfo]], *, is_named_twice: bool
) -> DescribeUserScramCredentialsResult:
    if is_named_twice:
        text = f"user {name!r} is named twice in the request"
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text
        )
    if name not in infos:
        text = f"user {name!r} has no SCRAM credential"
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text
        )
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos[name])


def refuse_describe_user_scram_credentials(
    call: Refusable, error: KafkaError
) -> DescribeUserScramCredentialsResponse:
    """Return an error at the top, and one for each named user."""
    request: DescribeUserScramCredentialsRequest = call.request
    text = str(error)
    results = [
        DescribeUserScramCredentialsResult(
            user=user.name, error_code=error.code, error_message=text
        )
        for user in request.users or ()
    ]
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=text, results=results
    )


def handle_alter_user_scram_credentials(
    node: Node, call: Call, request: AlterUserScramCredentialsRequest
) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(
        node.controller.request(request, AlterUserScramCredentialsResponse, call.caller())
    )


def refuse_alter_user_scram_credentials(
    call: Refusable, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """Return an error for each user."""
    request: AlterUserScramCredentialsRequest = call.request
    names = dict.fromkeys(
        [*(each.name for each in request.deletions), *(each.name for each in request.upsertions)]
    )
    text = str(error)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=text)
            for name in names
        ]
    )
