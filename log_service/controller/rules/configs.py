"""Decides on AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339).

Both change the configuration of topics, brokers, groups and client metrics. The controller decides
on each resource separately: it makes all changes of a resource, or none. The levels of loggers are
not decided here, because they are not metadata. Each broker holds its own levels.

``cordoned.log.dirs`` names directories of one broker. A broker checks them before it forwards the
request. If a request comes to the controller directly, no broker has checked it. The controller
then lets directories be removed from the list, but not added (KIP-1066).

Invariants: a written value is valid for its key and together with all other values of the resource.
An unchanged value is not written again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import METADATA_VERSION
from log_service.common.repeated import repeated
from log_service.common.types import NO_NODE
from log_service.config.broker import BrokerChange, validate_broker_change
from log_service.config.definition import ConfigKey, ConfigType, split_list
from log_service.config.describe import format_value
from log_service.config.resolve import Layers, holding
from log_service.config.resource_keys import (
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    broker_synonym,
    validate_client_metrics_configs,
    validate_group_configs,
)
from log_service.config.runtime_keys import OBSERVER_KEYS
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic import validate_schema_registry, validate_topic_configs
from log_service.config.topic_keys import TOPIC_KEYS
from log_service.controller.caller import Caller
from log_service.controller.rules.partitions import CORDONED_LOG_DIRS, MIN_ISR, Partitions
from log_service.controller.rules.topic_names import validate_topic_name
from log_service.metadata.features import CORDONS_LEVEL, keeps_cordons, keeps_eligible_leaders
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from log_service.protocol.messages.alter_configs import (
    AlterConfigsResourceResponse as AlterResourceResponse,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.protocol.stored.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
)

MAX_VALUE_BYTES = 2**15 - 1

ResourceResponse = TypeVar("ResourceResponse")
"""The result of one resource. Each of the two APIs has its own class."""


class Operation(IntEnum):
    """The operations on a configuration key. The values are Kafka's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS = frozenset(Operation)
CONFIGURED = frozenset(
    {ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP, ResourceType.CLIENT_METRICS}
)


class Change(NamedTuple):
    """The change of one configuration key in a request."""

    name: str
    operation: int
    value: str | None

    def __repr__(self) -> str:
        return (  # a value may be a password
            f"Change(name={self.name!r}, operation={self.operation})"
        )


class Resource(NamedTuple):
    """A resource that has a configuration, such as a topic or a broker."""

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class _Asked:
    """The changes of one resource in a request.

    ``replaces``: keys that the request does not name are removed.
    """

    resource: Resource
    changes: Sequence[Change]
    replaces: bool = False


class _Validation(NamedTuple):
    """The values of the controller's properties file, and whether a broker checked the request."""

    static_texts: Mapping[str, str]
    is_validated: bool


def incremental_alter_configs(
    image: MetadataImage,
    request: IncrementalAlterConfigsRequest,
    static_texts: Mapping[str, str],
    caller: Caller | None = None,
) -> tuple[list[MetadataRecord], IncrementalAlterConfigsResponse]:
    """Return the records of an IncrementalAlterConfigs request, and the response.

    ``static_texts`` are the values of the controller's properties file. APPEND and SUBTRACT begin
    with them if the resource has no list of its own. ``caller`` is the client that sent the
    request, None if a node makes the change itself.
    """
    asked = [
        _Asked(
            Resource(each.resource_type, each.resource_name),
            [Change(config.name, config.config_operation, config.value) for config in each.configs],
        )
        for each in request.resources
    ]
    records, responses = _decide(
        image,
        asked,
        _Validation(static_texts, caller is None or caller.is_at_broker),
        AlterConfigsResourceResponse,
    )
    return [] if request.validate_only else records, IncrementalAlterConfigsResponse(
        responses=responses
    )


def alter_configs(
    image: MetadataImage,
    request: AlterConfigsRequest,
    static_texts: Mapping[str, str],
    caller: Caller | None = None,
) -> tuple[list[MetadataRecord], AlterConfigsResponse]:
    """Return the records of an AlterConfigs request, and the response.

    Keys that the request does not name are removed. The arguments are those of
    ``incremental_alter_configs``.
    """
    asked = [
        _Asked(
            Resource(each.resource_type, each.resource_name),
            [Change(config.name, Operation.SET, config.value) for config in each.configs],
            replaces=True,
        )
        for each in request.resources
    ]
    records, responses = _decide(
        image,
        asked,
        _Validation(static_texts, caller is None or caller.is_at_broker),
        AlterResourceResponse,
    )
    return [] if request.validate_only else records, AlterConfigsResponse(responses=responses)


def _decide(
    image: MetadataImage,
    asked: Sequence[_Asked],
    validation: _Validation,
    respond: Callable[..., ResourceResponse],
) -> tuple[list[MetadataRecord], list[ResourceResponse]]:
    """Return the records of the resources that may change, and a response for each resource.

    If min.insync.replicas changes while the cluster keeps ELR, further records clear these.
    """
    records: list[MetadataRecord] = []
    responses: list[ResourceResponse] = []
    named_twice = repeated([each.resource for each in asked])
    for each in asked:
        code, text = ErrorCode.NONE, None
        try:
            if each.resource in named_twice:
                raise _invalid_request(
                    f"resource {each.resource.name!r} stands more than once in the request"
                )
            records += _alter(image, each, validation)
        except KafkaError as error:
            code, text = error.code, str(error)
        responses.append(
            respond(
                error_code=code,
                error_message=text,
                resource_type=each.resource.type,
                resource_name=each.resource.name,
            )
        )
    if keeps_eligible_leaders(image.features):
        records += [
            ClearElrRecord(topic_name=name) for name in _topics_with_another_min_isr(records)
        ]
    return records, responses


def _topics_with_another_min_isr(records: Sequence[MetadataRecord]) -> list[str]:
    """Return the topics whose ELR are no longer valid, because min.insync.replicas changes.

    The empty name means all topics.
    """
    return [
        record.resource_name if record.resource_type == ResourceType.TOPIC else ""
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR
    ]


def _alter(image: MetadataImage, asked: _Asked, validation: _Validation) -> list[MetadataRecord]:
    resource, static_texts = asked.resource, validation.static_texts
    _check_changes(asked.changes)
    if resource.type not in CONFIGURED:
        raise _invalid_request(
            f"resources of type {resource.type} have no configuration in the metadata"
        )
    if resource.type == ResourceType.BROKER:
        _check_broker(image, resource.name)
    present = image.configs.of(*resource)
    changed: dict[str, str | None] = dict.fromkeys(present) if asked.replaces else {}
    changed |= {
        change.name: _new_text(resource, change, present, static_texts) for change in asked.changes
    }
    _check_name(resource)
    result = {name: text for name, text in {**present, **changed}.items() if text is not None}
    set_names = frozenset(name for name, text in changed.items() if text is not None)
    _validate(image, resource, result, set_names, static_texts)
    if (
        resource.type == ResourceType.BROKER
        and MIN_ISR in changed
        and keeps_eligible_leaders(image.features)
    ):
        _check_min_isr(resource, changed[MIN_ISR])
    if resource.type == ResourceType.BROKER and CORDONED_LOG_DIRS in changed:
        _check_cordon(
            image,
            present.get(CORDONED_LOG_DIRS),
            changed[CORDONED_LOG_DIRS],
            is_validated=validation.is_validated,
        )
    if resource.type == ResourceType.TOPIC and resource.name not in image.topics.by_name:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.name}")
    if resource.type == ResourceType.BROKER and not changed.keys().isdisjoint(OBSERVER_KEYS):
        from log_service.controller.rules.observers import (  # noqa: PLC0415 - few clusters have observers
            validate_observer_change,
        )

        partitions = Partitions(image, node_id=NO_NODE, static_texts=static_texts)
        validate_observer_change(partitions, resource.name, changed)
    return [
        ConfigRecord(
            resource_type=resource.type, resource_name=resource.name, name=name, value=text
        )
        for name, text in changed.items()
        if text != present.get(name)
    ]


def _check_changes(changes: Sequence[Change]) -> None:
    """Check the names, operations and values of changes, without regard to the resource.

    Raises:
        KafkaError: INVALID_REQUEST, a key is changed twice, an operation is unknown, or a value is
            missing.
    """
    for name in repeated([change.name for change in changes]):
        raise _invalid_request(f"{name} is changed more than once")
    for change in changes:
        if change.operation not in OPERATIONS:
            raise _invalid_request(f"{change.name}: there is no operation {change.operation}")
        if change.value is None and change.operation != Operation.DELETE:
            raise _invalid_request(f"{change.name} has no value; only DELETE goes without one")


def _check_broker(image: MetadataImage, name: str) -> None:
    """Check that a broker of this name is registered. The empty name means all brokers.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if name and not (name.isascii() and name.isdecimal()):
        raise _invalid_request(f"a broker is named by its number, not {name!r}")
    if name and int(name) not in image.cluster.brokers:
        raise _invalid_request(f"broker {name} is not this broker, nor one that is registered")


def _check_min_isr(resource: Resource, text: str | None) -> None:
    """Refuse a change that would give controllers different values of min.insync.replicas.

    Controllers choose ELR by this value (KIP-966), so it must be the same for all of them.

    Raises:
        KafkaError: INVALID_CONFIG, the value of a broker changes, or that of the cluster is
            removed.
    """
    if resource.name:
        text = (
            f"{MIN_ISR} of one broker cannot be changed while the cluster keeps eligible leader"
            " replicas; set it for topic or cluster"
        )
    elif text is None:
        text = (
            f"{MIN_ISR} of the cluster cannot be removed while it keeps eligible leader replicas;"
            " set another value"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_CONFIG, text)


def _check_cordon(
    image: MetadataImage, before: str | None, text: str | None, *, is_validated: bool
) -> None:
    """Check a change of ``cordoned.log.dirs``.

    ``before`` and ``text`` are the present and the new list. ``is_validated``: a broker has checked
    that the directories are its own.

    Raises:
        KafkaError: INVALID_CONFIG, the metadata.version is too low for cordons, or the new list has
            additional directories and no broker has checked the request.
    """
    if not keeps_cordons(image.features):
        level = image.features.get(METADATA_VERSION, 0)
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"metadata.version is {level}; {CORDONED_LOG_DIRS} is there from {CORDONS_LEVEL}"
            " (4.3-IV0) on",
        )
    joining = set(split_list(text or "")) - set(split_list(before or ""))
    if joining and not is_validated:
        named = ", ".join(sorted(joining))
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"a controller takes nothing new into {CORDONED_LOG_DIRS} ({named}), for it does not"
            " know the disks: ask the broker itself",
        )


def _check_name(resource: Resource) -> None:
    """Check that the name of a topic, a group or a client metrics subscription is valid.

    Raises:
        KafkaError: INVALID_REQUEST, the name is empty; or as ``validate_topic_name``.
    """
    if resource.type == ResourceType.TOPIC:
        if not resource.name:
            raise _invalid_request(
                "there is no default for all topics; change the brokers' defaults instead"
            )
        validate_topic_name(resource.name)
    elif not resource.name and resource.type == ResourceType.GROUP:
        raise _invalid_request(
            "there is no default for all groups; change the brokers' defaults instead"
        )
    elif not resource.name and resource.type == ResourceType.CLIENT_METRICS:
        raise _invalid_request("a client metrics subscription needs a name")


def _new_text(
    resource: Resource, change: Change, present: Mapping[str, str], static_texts: Mapping[str, str]
) -> str | None:
    """Return the new value of a key, or None if the key is deleted."""
    if change.operation == Operation.DELETE:
        return None
    assert change.value is not None
    if change.operation == Operation.SET:
        text = change.value
    else:
        key = _key_of(resource, change.name)
        if (
            key is None
            or key.type is not ConfigType.LIST
            or resource.type == ResourceType.CLIENT_METRICS
        ):
            complaint = (
                f"{change.name} is not a list, so nothing can be appended to it or subtracted"
                " from it"
            )
            raise KafkaError(ErrorCode.INVALID_CONFIG, complaint)
        items = [
            item
            for item in _parts(
                present.get(change.name, _default_list(resource, change.name, key, static_texts))
            )
            if item
        ]
        text = ",".join(
            _appended(items, change.value)
            if change.operation == Operation.APPEND
            else _subtracted(items, change.value)
        )
    if len(text.encode()) > MAX_VALUE_BYTES:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"the value of {change.name} is longer than {MAX_VALUE_BYTES} bytes",
        )
    return text


def _parts(text: str) -> list[str]:
    """Split a list at its commas, as Kafka does for APPEND and SUBTRACT.

    Spaces are not trimmed. Empty items are dropped at the end of the list only.
    """
    if "," not in text:
        return [text]
    kept = text.rstrip(",")
    return kept.split(",") if kept else []


def _appended(items: list[str], value: str) -> list[str]:
    return [*items, *(item for item in dict.fromkeys(_parts(value)) if item not in items)]


def _subtracted(items: list[str], value: str) -> list[str]:
    """Remove the first occurrence of each item of ``value`` from ``items``, as Kafka does."""
    left = list(items)
    for item in _parts(value):
        if item in left:
            left.remove(item)
    return left


def _key_of(resource: Resource, name: str) -> ConfigKey | None:
    find: Mapping[int, Callable[[str], ConfigKey | None]] = {
        ResourceType.TOPIC: TOPIC_KEYS.get,
        ResourceType.BROKER: SERVER_KEYS.get,
        ResourceType.GROUP: GROUP_KEYS.get,
        ResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS.get,
    }
    return find[resource.type](name)


def _default_list(
    resource: Resource, name: str, key: ConfigKey, static_texts: Mapping[str, str]
) -> str:
    """Return the list with which APPEND and SUBTRACT begin if the resource has no list of its own.

    This is the value of the properties file, or else the default. Other dynamic values do not
    count.
    """
    if resource.type == ResourceType.TOPIC:
        return format_value(holding(name, Layers(static=static_texts)).value)
    synonym = broker_synonym(name) if resource.type == ResourceType.GROUP else name
    return static_texts.get(synonym or name, key.default or "")


def _validate(
    image: MetadataImage,
    resource: Resource,
    result: Mapping[str, str],
    set_names: frozenset[str],
    static_texts: Mapping[str, str],
) -> None:
    match resource.type:
        case ResourceType.TOPIC:
            validate_topic_configs(
                {
                    name: text
                    for name, text in result.items()
                    if name in set_names or name in TOPIC_KEYS
                }
            )
            validate_schema_registry({name: result[name] for name in set_names}, static_texts)
        case ResourceType.GROUP:
            validate_group_configs({name: result[name] for name in set_names}, static_texts)
        case ResourceType.CLIENT_METRICS:
            validate_client_metrics_configs(
                resource.name, {name: result[name] for name in set_names}
            )
        case _:
            layers = Layers(
                broker=(
                    image.configs.of(ResourceType.BROKER, resource.name) if resource.name else {}
                ),
                cluster=image.configs.of(ResourceType.BROKER, ""),
                static=static_texts,
            )
            validate_broker_change(
                BrokerChange(
                    result=result, set_names=set_names, layers=layers, is_default=not resource.name
                )
            )


def _invalid_request(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
