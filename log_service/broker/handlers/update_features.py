"""UpdateFeatures (API key 57), versions 0-2.

Behaviour: the controller changes all levels of a request or none: INVALID_UPDATE_VERSION at the top, with a text that names the feature,
where one of them cannot be. A level that is there already is no error. ``validate_only`` decides and writes nothing.

Versions: 0 a flag for downgrades; 1 upgrade types, ``validate_only`` (KIP-778); 2 results at the top only (KIP-1022).
"""

from log_service.broker.call import Call, Deferred
from log_service.broker.node import Node
from log_service.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


def handle_update_features(node: Node, call: Call, request: UpdateFeaturesRequest) -> Deferred:
    """Have the controller decide."""
    return call.run(node.controller.request(request, UpdateFeaturesResponse))
