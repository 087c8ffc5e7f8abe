"""ElectLeaders (API key 43), versions 0-2.

Behaviour: the controller gives each partition its preferred leader back, or, with election type 1, any replica where nobody leads.
ELECTION_NOT_NEEDED where it leads already (left out of the answer where all partitions are asked for with null),
PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE where nobody can, INVALID_REQUEST for other election types.

Versions: 0 preferred only; 1 election type (KIP-460); 2 flexible.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


def handle_elect_leaders(node: Node, call: Call, request: ElectLeadersRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, ElectLeadersResponse))
