"""UnregisterBroker (API key 64), version 0.

Behaviour: the controller forgets a broker that is gone for good; BROKER_ID_NOT_REGISTERED where it does not know it. What it leads loses
its leader. A broker that is still running is told nothing: it serves no partition any more until its next start registers it again.

KIP-631.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle_unregister_broker(node: Node, call: Call, request: UnregisterBrokerRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, UnregisterBrokerResponse))
