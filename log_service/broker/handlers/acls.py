"""DescribeAcls (API key 29), CreateAcls (30) and DeleteAcls (31), versions 1-3.

DescribeAcls: this node responds from its metadata image. The ACLs of one resource pattern share one
entry of the response. CreateAcls and DeleteAcls: the active controller decides on each ACL, or each
filter, separately.

A resource type, pattern type, operation or permission type of 0 (UNKNOWN in Kafka) closes the
connection, as in Apache Kafka. Without ``authorizer.class.name`` there are no ACLs and every client
may do everything. All three APIs then respond with SECURITY_DISABLED: CreateAcls once for each ACL,
DeleteAcls once for each filter. Tools understand this error as "no ACLs" and go on. If the APIs
were not served at all, tools would report a failure on every run.

Versions: 1 pattern types; 2 flexible; 3 the resource type of users. KIP-11, KIP-290.
"""

from collections.abc import Iterable

from log_service.broker.node import QuorumNode
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.controller.rules.acls import acl_filter, index_of
from log_service.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from log_service.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from log_service.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from log_service.security.acls.index import AclIndex
from log_service.security.acls.values import Acl, place

REFUSAL = "no authorizer is configured: this node keeps no access rules"


def _check_authorizer(node: QuorumNode) -> None:
    if node.config.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, REFUSAL)


def _check_numbers(*numbers: int) -> None:
    """Check that no enum value of an ACL is 0, which means UNKNOWN in each enum.

    Raises:
        ProtocolError: one of them is 0.
    """
    if 0 in numbers:
        raise ProtocolError(
            "a resource type, pattern type, operation or permission of an ACL is 0, which stands"
            " for nothing"
        )


def handle_describe_acls(node: QuorumNode, call: Call, request: DescribeAclsRequest) -> Deferred:
    """Respond with the ACLs that match a filter."""
    _check_numbers(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    _check_authorizer(node)
    return call.run(_described(node, call, index_of(node.image()), request))


async def _described(
    node: QuorumNode, call: Call, index: AclIndex, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    with call.counted():
        return await node.run_in_pool(lambda: _describe(acl_filter(request).find(index)))  # type: ignore[arg-type]  # the same fields


def _describe(found: Iterable[Acl]) -> DescribeAclsResponse:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in sorted(found, key=place):
        resource = resources.setdefault(
            (acl.resource_type, acl.resource_name, acl.pattern_type),
            DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
            ),
        )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(error_message="", resources=list(resources.values()))


def handle_create_acls(node: QuorumNode, call: Call, request: CreateAclsRequest) -> Deferred:
    """Check the enum values of the ACLs, then have the controller create them."""
    for each in request.creations:
        _check_numbers(
            each.resource_type, each.resource_pattern_type, each.operation, each.permission_type
        )
    _check_authorizer(node)
    return call.run(node.controller.request(request, CreateAclsResponse, call.caller()))


def handle_delete_acls(node: QuorumNode, call: Call, request: DeleteAclsRequest) -> Deferred:
    """Check the enum values of the filters, then have the controller delete the ACLs."""
    for each in request.filters:
        _check_numbers(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )
    _check_authorizer(node)
    return call.run(node.controller.request(request, DeleteAclsResponse, call.caller()))
