"""ListConfigResources (API key 74), versions 0-1.

Behaviour: tells the resources that have, or may have, configuration: all topics, the brokers (with their loggers), and those groups and
client metrics subscriptions that were given some. An empty list of types asks for all of them. Types that do not exist are
UNSUPPORTED_VERSION.

Versions: 0 client metrics subscriptions only (KIP-714); 1 types (KIP-1142).
"""

from collections.abc import Iterator

from log_service.broker.call import Call
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.protocol.messages.list_config_resources import ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse

LISTED_TYPES = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)


def handle_list_config_resources(node: Node, call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Tell what there is to configure."""
    asked = set(request.resource_types) if call.version > 0 else {int(ResourceType.CLIENT_METRICS)}
    if not asked <= set(LISTED_TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in LISTED_TYPES
            if resource_type in asked or not asked
            for name in _names(node.image(), resource_type)
        ]
    )


def _names(image: MetadataImage, resource_type: ResourceType) -> Iterator[str]:
    match resource_type:
        case ResourceType.TOPIC:
            yield from sorted(image.topics.by_name)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            yield from (str(broker.node_id) for broker in image.cluster.unfenced())
        case _:
            yield from sorted(name for kind, name in image.configs.by_resource if kind == resource_type)
