"""APIs of share groups (KIP-932): heartbeat, description, and changes of offsets.

ShareGroupHeartbeat (76, version 1), ShareGroupDescribe (77, 1), AlterShareGroupOffsets (91, 0) and
DeleteShareGroupOffsets (92, 0).

Behaviour: the coordinator of the group decides. The handler only passes the request to it, with the
sender. A request is UNSUPPORTED_VERSION if the cluster has not finalized ``share.version`` at 1.
"""

from functools import partial

from log_service.broker.handlers.groups.described import describe_groups
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.broker.share.session import MAX_MEMBER_ID_LENGTH
from log_service.common.errors import ErrorCode
from log_service.metadata.features import has_share_groups
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from log_service.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from log_service.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

NO_GROUP = "the request names no group"


def handle_share_group_heartbeat(
    node: Node, call: Call, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Deferred:
    """Respond once the coordinator's records about the request are replicated."""
    if not has_share_groups(node.image().features):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not 1 <= len(request.member_id) <= MAX_MEMBER_ID_LENGTH:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)
    deferred = call.defer()
    node.groups.share.heartbeat(request, call.client().context, deferred.complete)
    return deferred


def handle_share_group_describe(
    node: Node, call: Call, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Deferred:
    """Respond with state, epochs and members of each group, once per named group."""
    ask = partial(node.groups.share.describe, request, call.client().context)
    is_enabled = has_share_groups(node.image().features)
    return describe_groups(call, request, DescribedGroup, ask, is_enabled=is_enabled)


def handle_alter_share_group_offsets(
    node: Node, call: Call, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Deferred:
    """Set the start offsets of an empty group. A group that does not exist is created."""
    if not has_share_groups(node.image().features):
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id:
        return AlterShareGroupOffsetsResponse(
            error_code=ErrorCode.INVALID_GROUP_ID, error_message=NO_GROUP
        )
    deferred = call.defer()
    node.groups.share.alter_offsets(request, call.client().context, deferred.complete)
    return deferred


def handle_delete_share_group_offsets(
    node: Node, call: Call, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Deferred:
    """Delete the offsets of whole topics in an empty group."""
    if not has_share_groups(node.image().features):
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id:
        return DeleteShareGroupOffsetsResponse(
            error_code=ErrorCode.INVALID_GROUP_ID, error_message=NO_GROUP
        )
    deferred = call.defer()
    node.groups.share.delete_offsets(request, call.client().context, deferred.complete)
    return deferred
