"""ListGroups (16, versions 0-5), DescribeGroups (15, 0-6) and DeleteGroups (42, 0-2).

Behaviour: ListGroups lists only the groups that this broker coordinates. DescribeGroups and
DeleteGroups have one result for each group, even if the request repeats it. Otherwise a small
request could have a response of any size. In DeleteGroups a group with members is NON_EMPTY_GROUP.
Without an authorizer, authorized operations of an existing group are all of them.

Versions of ListGroups: 3 flexible; 4 states (KIP-518); 5 types (KIP-848). DescribeGroups: 3
authorized operations (KIP-430); 4 static members; 5 flexible; 6 GROUP_ID_NOT_FOUND instead of a
dead group (KIP-1043). DeleteGroups: 2 flexible.
"""

from functools import partial

from log_service.broker.cluster_view import with_group_operations
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.list_groups import ListGroupsRequest


def handle_list_groups(node: Node, call: Call, request: ListGroupsRequest) -> Deferred:
    """Respond with the groups of this broker."""
    deferred = call.defer()
    node.groups.list_groups(request, call.client(), deferred.complete)
    return deferred


def handle_describe_groups(node: Node, call: Call, request: DescribeGroupsRequest) -> Deferred:
    """Respond with state and members of each group."""
    deferred = call.defer()
    request.groups = list(dict.fromkeys(request.groups))

    node.groups.describe_groups(
        request, call.client(), deferred.completing(partial(with_group_operations, request))
    )
    return deferred


def handle_delete_groups(node: Node, call: Call, request: DeleteGroupsRequest) -> Deferred:
    """Delete each group that has no members."""
    deferred = call.defer()
    distinct = DeleteGroupsRequest(groups_names=list(dict.fromkeys(request.groups_names)))
    node.groups.delete_groups(distinct, call.client(), deferred.complete)
    return deferred
