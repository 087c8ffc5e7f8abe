"""The classic group protocol.

JoinGroup (11, versions 0-9), SyncGroup (14, 0-5), Heartbeat (12, 0-4) and LeaveGroup (13, 0-5).

Behaviour: the coordinator of the group decides. The handler only passes the request on, with its
sender. JoinGroup and SyncGroup get their responses when the group is complete, so they wait for
other members. A broker that does not coordinate the group responds with NOT_COORDINATOR.

Versions of JoinGroup: 1 rebalance timeout; 4 MEMBER_ID_REQUIRED (KIP-394); 5 static members
(KIP-345); 6 flexible; 7 protocol type (KIP-559); 8 a reason (KIP-800); 9 skip assignment (KIP-814).
SyncGroup: 3 static members; 4 flexible; 5 protocol (KIP-559). Heartbeat: 3 static members; 4
flexible. LeaveGroup: 3 many members at once (KIP-345); 4 flexible; 5 a reason (KIP-800).
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.common.errors import ErrorCode
from log_service.protocol.messages.heartbeat import HeartbeatRequest
from log_service.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from log_service.protocol.messages.leave_group import LeaveGroupRequest
from log_service.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_JOIN_VERSION_WITH_NULL_NAME = 7
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


def handle_join_group(node: Node, call: Call, request: JoinGroupRequest) -> Deferred:
    """Respond when all members have joined."""
    deferred = call.defer()

    def named(response: JoinGroupResponse) -> JoinGroupResponse:
        if response.protocol_name == "" and call.version >= FIRST_JOIN_VERSION_WITH_NULL_NAME:
            response.protocol_name = None
        return response

    node.groups.join_group(request, call.client(), deferred.completing(named))
    return deferred


def handle_sync_group(
    node: Node, call: Call, request: SyncGroupRequest
) -> SyncGroupResponse | Deferred:
    """Respond when the leader of the group has sent the assignments."""
    if call.version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    deferred = call.defer()
    node.groups.sync_group(request, call.client(), deferred.complete)
    return deferred


def handle_heartbeat(node: Node, call: Call, request: HeartbeatRequest) -> Deferred:
    """Respond at once, or once the coordinator's earlier records about the group are replicated."""
    deferred = call.defer()
    node.groups.heartbeat(request, call.client(), deferred.complete)
    return deferred


def handle_leave_group(node: Node, call: Call, request: LeaveGroupRequest) -> Deferred:
    """Respond once the members have left."""
    deferred = call.defer()
    node.groups.leave_group(request, call.client(), deferred.complete)
    return deferred
