"""APIs of configuration: describe, replace, change and list.

DescribeConfigs (API key 32, versions 1-4): responds with every key of each resource, or only the
named keys, with value and source. Topics (type 2) are described with their own values on top of the
broker's. A broker (4) is named by its node id, the default of all brokers by the empty name. The
levels of a broker's loggers (8, KIP-412) are named by its node id. Groups (32) and client metrics
subscriptions (16) are described under any name. A topic that does not exist is
UNKNOWN_TOPIC_OR_PARTITION. Any other type fails the whole request with INVALID_REQUEST, as in
Kafka.

Versions: 1 synonyms and sources (KIP-226); 3 types and documentation (KIP-569); 4 flexible.

AlterConfigs (33, 0-2): replaces the whole dynamic configuration of each resource by itself. A key
that the request does not name goes back to its default. Kept for old clients;
IncrementalAlterConfigs (KIP-339) changes key by key. ``validate_only`` decides and writes nothing.

Versions: 2 flexible. KIP-133.

IncrementalAlterConfigs (44, 0-1): sets, deletes, appends to and subtracts from the configuration of
each resource by itself, all of a resource or nothing of it. Topics, this broker and the default of
all brokers, groups and client metrics go into the metadata and take effect at once. The levels of
this broker's loggers (type 8, KIP-412) are set here and not stored. ``validate_only`` decides and
changes nothing. The results are in the order of the request.

Versions: 1 flexible. KIP-339.

ListConfigResources (74, 0-1): responds with the resources that have, or may have, configuration.
They are all topics, the brokers (with their loggers), and the groups and client metrics
subscriptions with keys of their own. An empty list of types asks for all of them. Unknown types are
UNSUPPORTED_VERSION.

Versions: 0 client metrics subscriptions only (KIP-714); 1 types (KIP-1142).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from log_service.broker.loggers import alter_loggers, describe_loggers
from log_service.broker.node import Node
from log_service.broker.requests.call import Call, Deferred, Side
from log_service.common.access import AclOperation
from log_service.common.errors import ConfigError, ErrorCode, KafkaError, kept
from log_service.common.repeated import repeated
from log_service.config.broker import ALL_DIRECTORIES, strange_directories
from log_service.config.definition import split_list
from log_service.config.describe import (
    ConfigRow,
    access_keys,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from log_service.config.resolve import Layers
from log_service.controller.rules.partitions import CORDONED_LOG_DIRS
from log_service.controller.rules.topic_names import validate_topic_name
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from log_service.protocol.messages.alter_configs import (
    AlterConfigsResourceResponse as ReplacedConfigs,
)
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

ALL_BROKERS = ""
SET = 0
"""An operation of IncrementalAlterConfigs. Deletion is 1."""
APPEND = 2
After = Callable[[Mapping[str, str], Sequence[Any]], tuple[frozenset[str], dict[str, str]]]
"""Return the changed names and the resulting values, given the present ones and the request's."""
KNOWN_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN}


def handle_describe_configs(
    node: Node,
    call: Call,  # noqa: ARG001 - one shape for all
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse:
    """Describe each resource by itself."""
    image = node.image()
    strange = [
        resource.resource_type
        for resource in request.resources
        if resource.resource_type not in KNOWN_TYPES
    ]
    if strange:
        error = KafkaError(
            ErrorCode.INVALID_REQUEST, f"resources of type {strange[0]} have no configuration"
        )
        return DescribeConfigsResponse(
            results=[_refused(resource, error) for resource in request.resources]
        )
    return DescribeConfigsResponse(
        results=[_describe(node, image, request, resource) for resource in request.resources]
    )


def _describe(
    node: Node,
    image: MetadataImage,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
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
        error_code=error.code,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
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
            _validate_own_broker(node, name)
            return describe_broker(layers, names)
        case ResourceType.BROKER_LOGGER:
            _validate_own_broker(node, name)
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
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ],
        config_type=row.type,
        documentation=row.documentation if request.include_documentation else None,
    )


def handle_alter_configs(node: Node, call: Call, request: AlterConfigsRequest) -> Deferred:
    """Forward the request to the controller, without the resources that this broker refuses.

    This broker refuses changes of its own config that do not fit its certificates, users or log
    directories. It also refuses directories of another broker, because only that one knows them.
    """
    if _is_validated_here(node, call, request.resources):
        return call.run(_replace(node, call, request))
    return call.run(node.controller.request(request, AlterConfigsResponse, call.caller()))


async def _replace(node: Node, call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    refused = await _refused_here(node, request.resources, _after_replacement)
    rest = [resource for place, resource in enumerate(request.resources) if place not in refused]
    left = AlterConfigsRequest(resources=rest, validate_only=request.validate_only)
    decided = (
        iter((await node.controller.request(left, AlterConfigsResponse, call.caller())).responses)
        if rest
        else iter(())
    )
    return AlterConfigsResponse(
        responses=[
            (
                ReplacedConfigs(
                    error_code=ErrorCode.INVALID_REQUEST,
                    error_message=str(refused[place]),
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                if place in refused
                else next(decided)
            )
            for place, resource in enumerate(request.resources)
        ]
    )


def handle_incremental_alter_configs(
    node: Node, call: Call, request: IncrementalAlterConfigsRequest
) -> Deferred:
    """Set logger levels here, and forward the rest that this broker does not refuse.

    This broker refuses the same changes as in AlterConfigs.
    """
    is_validated = _is_validated_here(node, call, request.resources)
    if is_validated or any(
        resource.resource_type == ResourceType.BROKER_LOGGER for resource in request.resources
    ):
        return call.run(_alter(node, call, request, is_validated=is_validated))
    return call.run(
        node.controller.request(request, IncrementalAlterConfigsResponse, call.caller())
    )


def _is_validated_here(node: Node, call: Call, resources: Sequence[Any]) -> bool:
    """Return whether this broker checks a request against its own files before it forwards it.

    This is so only on a broker's listener, and only for a client with the ACLs for the change. The
    controller refuses all other clients.
    """
    names = access_keys(entry.name for resource in resources for entry in resource.configs)
    needed = (AclOperation.ALTER_CONFIGS, *([AclOperation.ALTER] if names else []))
    is_allowed = call.access is None or all(map(call.access.could_cluster, needed))
    return (
        call.route.side is Side.BROKER
        and is_allowed
        and any(_needs_validation(node, resource) for resource in resources)
    )


def _needs_validation(node: Node, resource: Any) -> bool:
    """Return whether this broker has something to check in the changes of a resource.

    It checks its own configuration against its certificates and users, and the directories in
    ``cordoned.log.dirs`` of any single broker.
    """
    return (_is_this_one(node, resource) and bool(node.config_validators)) or bool(
        _cordoned_names(resource)
    )


def _is_this_one(node: Node, resource: Any) -> bool:
    named: tuple[int, str] = (resource.resource_type, resource.resource_name)
    return named == (ResourceType.BROKER, str(node.config.node_id))


def _cordoned_names(resource: Any) -> list[str]:
    """Return the directories that a request sets in ``cordoned.log.dirs`` of a single broker.

    The special value for all directories is left out, because it is valid on every broker.
    """
    if resource.resource_type != ResourceType.BROKER or resource.resource_name == ALL_BROKERS:
        return []
    values = [
        config.value
        for config in resource.configs
        if config.name == CORDONED_LOG_DIRS
        and getattr(config, "config_operation", SET) in (SET, APPEND)
    ]
    return [name for value in values for name in split_list(value or "") if name != ALL_DIRECTORIES]


def _validate_directories(node: Node, resource: Any) -> None:
    names = _cordoned_names(resource)
    if names and not _is_this_one(node, resource):
        raise ConfigError(
            f"{CORDONED_LOG_DIRS} names {names[0]}, and only broker {resource.resource_name} knows"
            " its disks: ask that one"
        )
    strange = strange_directories(names, node.config.log_manager.log_dirs)
    if strange:
        raise ConfigError(f"{CORDONED_LOG_DIRS} names {strange[0]}, which is not one of log.dirs")


async def _refused_here(
    node: Node, resources: Sequence[Any], after: After
) -> dict[int, ConfigError]:
    """Return the errors of changes that this broker refuses, by position in the request.

    The controller cannot find these errors, because it has neither this broker's files nor its
    disks.
    """
    refused = {}
    for place, resource in enumerate(resources):
        if not _needs_validation(node, resource):
            continue
        names, texts = after(
            node.image().configs.of(ResourceType.BROKER, resource.resource_name), resource.configs
        )
        try:
            _validate_directories(node, resource)
            for validator in node.config_validators if _is_this_one(node, resource) else ():
                await validator.validate(names, texts)
        except ConfigError as error:
            refused[place] = kept(error)
    return refused


def _after_changes(
    before: Mapping[str, str], configs: Sequence[Any]
) -> tuple[frozenset[str], dict[str, str]]:
    """Return the keys that IncrementalAlterConfigs changes, and the values of all keys after it."""
    texts = dict(before)
    for config in configs:
        if config.config_operation == SET and config.value is not None:
            texts[config.name] = config.value
        else:
            texts.pop(config.name, None)
    return frozenset(config.name for config in configs), texts


def _after_replacement(
    before: Mapping[str, str], configs: Sequence[Any]
) -> tuple[frozenset[str], dict[str, str]]:
    """Return the keys that AlterConfigs changes, and the values of all keys after it.

    Keys that the request does not name are removed.
    """
    texts = {config.name: config.value for config in configs if config.value is not None}
    return (
        frozenset(
            name for name in before.keys() | texts.keys() if before.get(name) != texts.get(name)
        ),
        texts,
    )


async def _alter(
    node: Node, call: Call, request: IncrementalAlterConfigsRequest, *, is_validated: bool
) -> IncrementalAlterConfigsResponse:
    refused = await _refused_here(node, request.resources, _after_changes) if is_validated else {}
    named_twice = repeated(
        [(resource.resource_type, resource.resource_name) for resource in request.resources]
    )
    own = [
        resource
        for resource in request.resources
        if resource.resource_type == ResourceType.BROKER_LOGGER
    ]
    rest = [
        resource
        for place, resource in enumerate(request.resources)
        if resource.resource_type != ResourceType.BROKER_LOGGER and place not in refused
    ]
    left = IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only)
    decided = (
        iter(
            (
                await node.controller.request(left, IncrementalAlterConfigsResponse, call.caller())
            ).responses
        )
        if rest
        else iter(())
    )
    levels = iter(
        [
            _alter_levels(
                node,
                each,
                is_repeated=(each.resource_type, each.resource_name) in named_twice,
                validate_only=request.validate_only,
            )
            for each in own
        ]
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            (
                next(levels)
                if resource.resource_type == ResourceType.BROKER_LOGGER
                else (
                    _refused_change(resource, refused[place]) if place in refused else next(decided)
                )
            )
            for place, resource in enumerate(request.resources)
        ]
    )


def _refused_change(
    resource: AlterConfigsResource, error: ConfigError
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _alter_levels(
    node: Node, resource: AlterConfigsResource, *, is_repeated: bool, validate_only: bool
) -> AlterConfigsResourceResponse:
    result = AlterConfigsResourceResponse(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        _validate_own_broker(node, resource.resource_name)
        changes = [
            (config.name, config.config_operation, config.value) for config in resource.configs
        ]
        _check_repetitions([name for name, _, _ in changes], is_repeated=is_repeated)
        alter_loggers(changes, validate_only=validate_only)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, str(error)
    return result


def _check_repetitions(names: list[str], *, is_repeated: bool) -> None:
    if is_repeated:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "the loggers of this broker stand more than once in the request",
        )
    for name in repeated(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is changed more than once")


LISTED_TYPES = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def handle_list_config_resources(
    node: Node, call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Respond with the resources that can be configured."""
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
            yield from sorted(
                name for kind, name in image.configs.by_resource if kind == resource_type
            )


# Configuration of this broker alone


def _validate_own_broker(node: Node, name: str) -> None:
    """Check that a resource's name is this broker's node id.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if not (name.isascii() and name.isdecimal()):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a broker is named by its number, not {name!r}"
        )
    if int(name) != node.config.node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"this is broker {node.config.node_id}, not {name}: ask that one",
        )
