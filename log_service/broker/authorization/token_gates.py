"""The gate of CreateDelegationToken: a permission check before the handler (KIP-373).

A token for another owner than the client itself needs CREATE_TOKENS on that user.
"""

from log_service.broker.authorization.gate_shapes import Question
from log_service.common.access import AclOperation, AclResource


def create_delegation_token(question: Question) -> None:
    """Check CREATE_TOKENS on the owner of a token, unless the client is the owner.

    Raises:
        KafkaError: DELEGATION_TOKEN_AUTHORIZATION_FAILED.
    """
    request, access = question.request, question.access
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    if request.owner_principal_name and owner != str(access.principal):
        access.require(AclOperation.CREATE_TOKENS, AclResource.USER, owner)
