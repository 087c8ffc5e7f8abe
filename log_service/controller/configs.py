"""IncrementalAlterConfigs: changes of dynamic configuration, for topics and brokers.

Decides for each resource of a request by itself: all its changes or none. Knows no log. KIP-339.

Invariants: what is written was accepted by its key, together with everything else that its resource has; a value that stays the same is not
written again.
"""

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.config.definition import ConfigType, UpdateMode, closest_name, split_list
from log_service.config.describe import format_value
from log_service.config.resolve import Layers, holding
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic import validate_topic_configs
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.protocol.stored.metadata_records import ConfigRecord, MetadataRecord


class Operation(IntEnum):
    """What a change does to a key, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    image: MetadataImage, request: IncrementalAlterConfigsRequest, static_texts: Mapping[str, str]
) -> tuple[list[MetadataRecord], IncrementalAlterConfigsResponse]:
    """Decide on every resource of the request. ``static_texts`` are the file's, for lists that are appended to without being set."""
    records: list[MetadataRecord] = []
    responses: list[AlterConfigsResourceResponse] = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for resource in {(resource.resource_type, resource.resource_name): resource for resource in request.resources}.values():
        answer = AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            records += _alter(image, resource, counts[resource.resource_type, resource.resource_name], static_texts)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        responses.append(answer)
    return [] if request.validate_only else records, IncrementalAlterConfigsResponse(responses=responses)


def _alter(
    image: MetadataImage, resource: AlterConfigsResource, resource_count: int, static_texts: Mapping[str, str]
) -> list[MetadataRecord]:
    if resource_count > 1:
        text = f"resource {resource.resource_name!r} stands more than once in the request"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    repeated = [name for name, count in Counter(config.name for config in resource.configs).items() if count > 1]
    if repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{repeated[0]} is changed more than once")
    _check_resource(image, resource)
    present = image.configs.of(resource.resource_type, resource.resource_name)
    cluster = image.configs.of(ResourceType.BROKER, "")
    layers = Layers(topic=present, cluster=cluster, static=static_texts)
    changed: dict[str, str | None] = {config.name: _new_text(resource, config, present, layers) for config in resource.configs}
    result = {name: text for name, text in {**present, **changed}.items() if text is not None}
    set_names = {name for name, text in changed.items() if text is not None}
    if resource.resource_type == ResourceType.TOPIC:
        validate_topic_configs({name: text for name, text in result.items() if name in set_names or name in TOPIC_KEYS})
    else:
        _validate_broker_texts({name: result[name] for name in set_names})
    return [
        ConfigRecord(resource_type=resource.resource_type, resource_name=resource.resource_name, name=name, value=text)
        for name, text in changed.items()
        if text != present.get(name)
    ]


def _check_resource(image: MetadataImage, resource: AlterConfigsResource) -> None:
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "there is no default for all topics; change the brokers' defaults instead")
            if name not in image.topics.by_name:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        case ResourceType.BROKER:
            if name and not (name.isascii() and name.isdecimal()):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"a broker is named by its number, not {name!r}")
            if name and int(name) not in image.cluster.brokers:
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {name} is not registered")
        case other:
            text = f"resources of type {other} have no configuration here; topics (2) and brokers (4) do"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _new_text(resource: AlterConfigsResource, config: AlterableConfig, present: Mapping[str, str], layers: Layers) -> str | None:
    """Return the key's new text, None when it is deleted."""
    if config.config_operation == Operation.DELETE:
        return None
    if config.value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name} has no value; only DELETE goes without one")
    if config.config_operation == Operation.SET:
        return config.value
    if config.config_operation not in (Operation.APPEND, Operation.SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{config.name}: there is no operation {config.config_operation}")
    keys = TOPIC_KEYS if resource.resource_type == ResourceType.TOPIC else SERVER_KEYS
    if config.name not in keys or keys[config.name].type is not ConfigType.LIST:
        text = f"{config.name} is not a list, so nothing can be appended to it or subtracted from it"
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    items = list(split_list(_present_list(resource, config.name, present, layers)))
    named = split_list(config.value)
    if config.config_operation == Operation.APPEND:
        items += [item for item in named if item not in items]
    else:
        items = [item for item in items if item not in named]
    return ",".join(items)


def _present_list(resource: AlterConfigsResource, name: str, present: Mapping[str, str], layers: Layers) -> str:
    if name in present:
        return present[name]
    if resource.resource_type == ResourceType.TOPIC:
        return format_value(holding(name, layers).value)
    return layers.static.get(name, SERVER_KEYS[name].default or "")


def _validate_broker_texts(texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        key = SERVER_KEYS.get(name)
        if key is None:
            meant = closest_name(name, SERVER_KEYS)
            hint = f"; did you mean {meant}?" if meant else ""
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is not a broker configuration{hint}")
        if key.update_mode is UpdateMode.READ_ONLY:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} cannot change while a broker runs; set it in the file and restart")
        try:
            key.parse(text)
        except ConfigError as fault:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(fault)) from fault
