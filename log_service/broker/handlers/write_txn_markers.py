"""WriteTxnMarkers (API key 27), versions 1-2: a transaction coordinator has the partitions of ended transactions marked.

Behaviour: each partition that this node leads gets the marker, with what acks=all asks for, and its result is told once the marker is below
the high watermark. Those of ``__consumer_offsets`` go through the group coordinator, which lets the positions of the transaction count, or
forgets them; while it is not there the result is NOT_LEADER_OR_FOLLOWER, and the transaction coordinator tries again. A partition that is
not on this node, or offline, is UNKNOWN_TOPIC_OR_PARTITION. A marker of no producer is UNKNOWN_SERVER_ERROR, as with Apache Kafka, and is
appended nowhere. Results of several markers of one producer are told together.

Versions: 2 transaction version (KIP-1228); version 1 stands for transactions of version 1.
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.marker_writer import REQUEST_TIMEOUT_MS, write_markers
from log_service.broker.node import Node
from log_service.protocol.messages.write_txn_markers import WriteTxnMarkersRequest


def handle_write_txn_markers(node: Node, call: Call, request: WriteTxnMarkersRequest) -> Deferred:
    """Respond once every marker is safe, or refused."""
    deferred = call.defer()
    deadline_ms = node.clock.monotonic_ms() + REQUEST_TIMEOUT_MS
    write_markers(node.replicas, node.groups, request, deferred.complete, deadline_ms)
    return deferred
