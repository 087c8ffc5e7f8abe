"""ElectLeaders (API key 43), versions 0-2.

Behaviour: the controller gives each partition its preferred leader back, or, with election type 1, any replica where nobody leads.
ELECTION_NOT_NEEDED where it leads already (left out of the answer where all partitions are asked for with null),
PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE where nobody can, INVALID_REQUEST for other election types.

Versions: 0 preferred only; 1 election type (KIP-460); 2 flexible.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def handle_elect_leaders(node: Node, call: Call, request: ElectLeadersRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(_elect(node, call, request))


async def _elect(node: Node, call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    try:
        return await node.controller.elect_leaders(request)
    except KafkaError as error:
        return _refused(request, error, call.header.api_version)


def _refused(request: ElectLeadersRequest, error: KafkaError, version: int) -> ElectLeadersResponse:
    """Answer an error for everything that was asked for; version 0 has no place for it at the top."""
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=each, error_code=error.code, error_message=str(error)) for each in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error.code if version >= 1 else ErrorCode.NONE, replica_election_results=results)
