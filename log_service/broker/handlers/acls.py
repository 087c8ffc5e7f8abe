"""DescribeAcls (API key 29), CreateAcls (30) and DeleteAcls (31), versions 1-3.

Behaviour: SECURITY_DISABLED to whatever is asked, as from an Apache Kafka without an authorizer: every client may do everything, and no
rule is kept. Tools read that code as "there are no rules here" and go on; an API that is missing they report as a failure, again and again.
The responses to 30 and 31 have one refusal for each rule or filter.

Versions: 1 pattern types; 2 flexible; 3 the resource type of users. KIP-11, KIP-290.
"""

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from log_service.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from log_service.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

CODE = ErrorCode.SECURITY_DISABLED
REFUSAL = "no authorizer is configured: this node keeps no access rules"


def handle_describe_acls(node: Node, call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:  # noqa: ARG001 - one shape for all
    """Say that there are no rules."""
    return DescribeAclsResponse(error_code=CODE, error_message=REFUSAL)


def handle_create_acls(node: Node, call: Call, request: CreateAclsRequest) -> CreateAclsResponse:  # noqa: ARG001 - one shape for all
    """Refuse each rule."""
    return CreateAclsResponse(results=[AclCreationResult(error_code=CODE, error_message=REFUSAL) for _ in request.creations])


def handle_delete_acls(node: Node, call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:  # noqa: ARG001 - one shape for all
    """Refuse each filter."""
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error_code=CODE, error_message=REFUSAL) for _ in request.filters])
