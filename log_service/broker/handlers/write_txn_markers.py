"""WriteTxnMarkers (API key 27), versions 1-2: markers of ended transactions.

Behaviour: each partition that this node leads gets the marker, with the guarantees of acks=all. Its
result is sent once the marker is below the high watermark. Markers in ``__consumer_offsets`` go
through the group coordinator, which commits or drops the offsets of the transaction. Without it the
result is NOT_LEADER_OR_FOLLOWER, and the transaction coordinator tries again. A partition that is
not on this node, or offline, is UNKNOWN_TOPIC_OR_PARTITION. A marker without a producer is
UNKNOWN_SERVER_ERROR, as with Apache Kafka, and is appended nowhere. Results of several markers of
one producer are merged.

Versions: 2 transaction version (KIP-1228). Version 1 means transactions of version 1.
"""

from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred
from log_service.broker.transactions.marker_writer import REQUEST_TIMEOUT_MS, write_markers
from log_service.protocol.messages.write_txn_markers import WriteTxnMarkersRequest


def handle_write_txn_markers(node: Node, call: Call, request: WriteTxnMarkersRequest) -> Deferred:
    """Respond once every marker is below the high watermark or refused."""
    deferred = call.defer()
    deadline_ms = node.clock.monotonic_ms() + REQUEST_TIMEOUT_MS
    write_markers(node.replicas, node.groups, request, deferred.complete, deadline_ms)
    return deferred
