"""The metadata quorum: its description, and changes of its voters.

DescribeQuorum (API key 55, versions 0-2): responds with the leader, epoch and high watermark of the
metadata quorum, and the position of each voter and each observer. A request has to ask for
partition 0 of ``__cluster_metadata`` and nothing else. Every partition of any other request gets
UNKNOWN_TOPIC_OR_PARTITION. The leader of the quorum responds. On the controller's listeners another
node responds with NOT_LEADER_OR_FOLLOWER. A broker asks the leader.

Versions: 1 fetch times (KIP-836); 2 error texts, directory ids, the voters' listeners (KIP-853).

AddRaftVoter (80, 0-1) and RemoveRaftVoter (81, 0): the leader decides by the rules of the quorum
(``raft.voter_changes``). INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for a voter without an id, a
directory or the quorum's listener; UNSUPPORTED_VERSION if voters are configuration;
REQUEST_TIMED_OUT while another change is under way or the new voter lags; DUPLICATE_VOTER,
VOTER_NOT_FOUND.

Versions: 80: 1 may respond before the change is committed. KIP-853.
"""

from typing import TypeVar

from log_service.broker.node import QuorumNode
from log_service.broker.requests.call import Call, Deferred, Side
from log_service.common.errors import ErrorCode
from log_service.common.types import CLUSTER_METADATA_TOPIC
from log_service.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from log_service.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from log_service.protocol.schema import Message
from log_service.raft.describe_response import describe_response

R = TypeVar("R", bound=Message)


def handle_describe_quorum(
    node: QuorumNode, call: Call, request: DescribeQuorumRequest
) -> DescribeQuorumResponse | Deferred:
    """Respond with the state of the metadata quorum."""
    asked = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions])
        for topic in request.topics
    ]
    if asked != [(CLUSTER_METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(topics=[_unknown(name, indexes) for name, indexes in asked])
    description = node.raft.describe()
    if description is not None:
        return describe_response(description, call.version)
    if call.route.side is Side.BROKER:
        return call.run(node.controller.request(request, DescribeQuorumResponse, call.caller()))
    text = "this node does not lead the metadata quorum; ask its leader"
    refused = ResponsePartitionData(
        partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message=text
    )
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[refused])]
    )


def _unknown(name: str, indexes: list[int]) -> ResponseTopicData:
    code, text = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"only {CLUSTER_METADATA_TOPIC}-0, alone, has a quorum that can be described",
    )
    partitions = [
        ResponsePartitionData(partition_index=index, error_code=code, error_message=text)
        for index in indexes
    ]
    return ResponseTopicData(topic_name=name, partitions=partitions)


def handle_add_raft_voter(node: QuorumNode, call: Call, request: AddRaftVoterRequest) -> Deferred:
    """Respond with the decision of the quorum's leader."""
    return call.run(_changed(node, call, request, AddRaftVoterResponse))


def handle_remove_raft_voter(
    node: QuorumNode, call: Call, request: RemoveRaftVoterRequest
) -> Deferred:
    """Respond with the decision of the quorum's leader."""
    return call.run(_changed(node, call, request, RemoveRaftVoterResponse))


async def _changed(node: QuorumNode, call: Call, request: Message, response_type: type[R]) -> R:
    if call.route.side is Side.BROKER:
        return await node.controller.request(request, response_type, call.caller())
    response = await node.raft.handle(request, listener_name=call.connection.listener_name)
    assert isinstance(response, response_type)
    return response
