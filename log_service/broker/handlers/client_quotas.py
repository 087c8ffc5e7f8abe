"""Quotas of clients: DescribeClientQuotas (API key 48, versions 0-1) and AlterClientQuotas (49,
0-1).

DescribeClientQuotas: responds with the quotas in this broker's image that match the filter. An
invalid filter fails the request with INVALID_REQUEST, a type that is neither user, client-id nor ip
with UNSUPPORTED_VERSION. In these cases the entries are null, not an empty list.

AlterClientQuotas: the controller decides on each entity by itself. ``validate_only`` decides and
writes nothing.

Versions: 1 flexible. KIP-546.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Refusable
from log_service.common.errors import KafkaError
from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntityData,
    ResponseEntryData,
)
from log_service.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from log_service.quota.description import describe


def handle_describe_client_quotas(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse:
    """Respond with the quotas that match."""
    return describe(node.image().access.client_quotas, request)


def refuse_describe_client_quotas(
    call: Refusable,  # noqa: ARG001 - one shape for all
    error: KafkaError,
) -> DescribeClientQuotasResponse:
    """Return a response with the error and null entries."""
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=str(error), entries=None
    )


def handle_alter_client_quotas(
    node: Node, call: Call, request: AlterClientQuotasRequest
) -> Deferred:
    """Respond with the controller's decision."""
    return call.run(node.controller.request(request, AlterClientQuotasResponse, call.caller()))


def refuse_alter_client_quotas(call: Refusable, error: KafkaError) -> AlterClientQuotasResponse:
    """Return an error for each entity."""
    request: AlterClientQuotasRequest = call.request
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=error.code,
                error_message=str(error),
                entity=[
                    ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )
