"""DescribeConfigs (API key 32), versions 1-4.

Behaviour: every key of each resource with its value and where that comes from; only the named keys where some are named. Topics show what
holds for them over the broker's values; a broker is asked for by its node id, the default of all brokers by the empty name. A topic that
does not exist is UNKNOWN_TOPIC_OR_PARTITION; other resources have no configuration here (INVALID_REQUEST).

Versions: 1 synonyms and sources (KIP-226); 3 types and documentation (KIP-569); 4 flexible.
"""

from log_service.broker.node import Call, Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.describe import ConfigRow, describe_all_brokers, describe_broker, describe_topic
from log_service.config.resolve import Layers
from log_service.controller.topic_names import validate_topic_name
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


def handle_describe_configs(node: Node, call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:  # noqa: ARG001 - one shape for all
    """Answer each resource by itself."""
    image = node.image()
    return DescribeConfigsResponse(results=[_describe(node, image, request, resource) for resource in request.resources])


def _describe(
    node: Node, image: MetadataImage, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        rows = _rows(node, image, resource)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, str(error)
        return result
    result.configs = [_shown(row, request) for row in rows]
    return result


def _rows(node: Node, image: MetadataImage, resource: DescribeConfigsResource) -> list[ConfigRow]:
    names = resource.configuration_keys or None  # an empty list asks for all, as Kafka has it
    name = resource.resource_name
    layers = Layers(
        topic=image.configs.of(ResourceType.TOPIC, name) if resource.resource_type == ResourceType.TOPIC else {},
        broker=image.configs.of(ResourceType.BROKER, str(node.config.node_id)),
        cluster=image.configs.of(ResourceType.BROKER, ALL_BROKERS),
        static=node.static_texts,
    )
    if resource.resource_type == ResourceType.TOPIC:
        validate_topic_name(name)
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        return describe_topic(layers, names)
    if resource.resource_type == ResourceType.BROKER:
        return _broker_rows(node, layers, name, names)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no configuration here")


def _broker_rows(node: Node, layers: Layers, name: str, names: list[str] | None) -> list[ConfigRow]:
    if name == ALL_BROKERS:
        return describe_all_brokers(layers, names)
    if name != str(node.config.node_id):
        text = f"this is broker {node.config.node_id}, not {name!r}: ask that one"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    return describe_broker(layers, names)


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
