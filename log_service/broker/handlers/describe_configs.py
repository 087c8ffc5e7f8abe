"""DescribeConfigs (API key 32), versions 1-4.

Behaviour: every key of each resource with its value and where that comes from; only the named keys where some are named. Topics (type 2)
show what holds for them over the broker's values; a broker (4) is asked for by its node id, the default of all brokers by the empty name;
the levels of a broker's loggers (8, KIP-412) by its node id; groups (32) and client metrics subscriptions (16) answer for any name. A topic
that does not exist is UNKNOWN_TOPIC_OR_PARTITION. A type that is none of these fails the whole request with INVALID_REQUEST, as in Kafka.

Versions: 1 synonyms and sources (KIP-226); 3 types and documentation (KIP-569); 4 flexible.
"""

from log_service.broker.call import Call
from log_service.broker.handlers.broker_resource import validate_own_broker
from log_service.broker.loggers import describe_loggers
from log_service.broker.node import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.describe import (
    ConfigRow,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from log_service.config.resolve import Layers
from log_service.controller.rules.topic_names import validate_topic_name
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

ALL_BROKERS = ""
KNOWN_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN}


def handle_describe_configs(node: Node, call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:  # noqa: ARG001 - one shape for all
    """Answer each resource by itself."""
    image = node.image()
    strange = [resource.resource_type for resource in request.resources if resource.resource_type not in KNOWN_TYPES]
    if strange:
        error = KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {strange[0]} have no configuration")
        return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])
    return DescribeConfigsResponse(results=[_describe(node, image, request, resource) for resource in request.resources])


def _describe(
    node: Node, image: MetadataImage, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        rows = _rows(node, image, resource)
    except KafkaError as error:
        return _refused(resource, error)
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_shown(row, request) for row in rows],
    )


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code, error_message=str(error), resource_type=resource.resource_type, resource_name=resource.resource_name
    )


def _rows(node: Node, image: MetadataImage, resource: DescribeConfigsResource) -> list[ConfigRow]:
    names = resource.configuration_keys or None  # an empty list asks for all, as Kafka has it
    name = resource.resource_name
    own = image.configs.of(resource.resource_type, name)
    layers = Layers(
        topic=own if resource.resource_type == ResourceType.TOPIC else {},
        broker=image.configs.of(ResourceType.BROKER, str(node.config.node_id)),
        cluster=image.configs.of(ResourceType.BROKER, ALL_BROKERS),
        static=node.static_texts,
    )
    match resource.resource_type:
        case ResourceType.TOPIC:
            validate_topic_name(name)
            if name not in image.topics.by_name:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            return describe_topic(layers, names)
        case ResourceType.BROKER if name == ALL_BROKERS:
            return describe_all_brokers(layers, names)
        case ResourceType.BROKER:
            validate_own_broker(node, name)
            return describe_broker(layers, names)
        case ResourceType.BROKER_LOGGER:
            validate_own_broker(node, name)
            return describe_loggers(names)
        case ResourceType.GROUP:
            _require_name(name, "a group")
            return describe_group(own, layers, names)
        case _:
            _require_name(name, "a client metrics subscription")
            return describe_client_metrics(own, names)


def _require_name(name: str, what: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} needs a name")


def _shown(row: ConfigRow, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = row.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=row.name,
        value=None if row.is_sensitive else row.value,
        read_only=row.is_read_only,
        config_source=row.source,
        is_sensitive=row.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source) for synonym in synonyms],
        config_type=row.type,
        documentation=row.documentation if request.include_documentation else None,
    )
