"""Administers topics and configuration, and describes the cluster.

Each function sends the requests of one method of ``Admin``, and converts the responses to values.
``ClusterMetadata.retry`` tries again after a retriable error.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from log_service.client.admin.fan_out import Collected, gather
from log_service.client.admin.values import (
    CONFIG_SOURCES,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicDescription,
    TopicListing,
    TopicOperations,
)
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.access import OPERATIONS_ON, AclResource
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from log_service.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from log_service.rpc.connection import raise_for
from log_service.rpc.versions import MAINTENANCE_FEATURE

FIRST_DELETE_VERSION_WITH_STATES = 6
ONE_NODE = frozenset({ResourceType.BROKER, ResourceType.BROKER_LOGGER})


async def create_topics(
    cluster: ClusterMetadata,
    topics: Sequence[NewTopic],
    timeout_ms: int,
    *,
    is_validated_only: bool,
) -> dict[str, TopicId]:
    """Create topics; see ``Admin.create_topics``."""
    left_ms = cluster.countdown(timeout_ms)
    remaining = {topic.name: topic for topic in topics}
    collected, created = Collected(), dict[str, TopicId]()

    async def attempt() -> None:
        request = CreateTopicsRequest(timeout_ms=timeout_ms, validate_only=is_validated_only)
        request.topics = [_creatable(topic) for topic in remaining.values()]
        response = await (await cluster.controller()).request(request, CreateTopicsResponse)
        for result in response.topics:
            if collected.settle(result.name, result.error_code, result.error_message, "topic "):
                remaining.pop(result.name, None)
                if result.error_code == ErrorCode.NONE:
                    created[result.name] = TopicId(result.topic_id)
        collected.raise_unsettled()

    await cluster.retry(attempt, timeout_ms)
    collected.finish(created)
    if not is_validated_only:
        await cluster.retry(
            partial(_await_leaders, cluster, list(created)), left_ms(), is_refreshing=False
        )
    return created


async def describe_new_topic(
    cluster: ClusterMetadata, topic: NewTopic, timeout_ms: int
) -> dict[str, ConfigEntry]:
    """Return the configuration of a topic before its creation; see ``Admin.describe_new_topic``."""

    async def attempt() -> dict[str, ConfigEntry]:
        request = CreateTopicsRequest(timeout_ms=timeout_ms, validate_only=True)
        request.topics = [_creatable(topic)]
        response = await (await cluster.controller()).request(request, CreateTopicsResponse)
        (result,) = response.topics
        about = f"topic {topic.name!r}"
        raise_for(result.error_code, result.error_message, about)
        raise_for(result.topic_config_error_code, "its configs may not be seen", about)
        return {
            each.name: ConfigEntry(
                name=each.name,
                value=each.value,
                source=CONFIG_SOURCES.get(each.config_source, "UNKNOWN"),
                is_read_only=each.read_only,
                is_sensitive=each.is_sensitive,
                documentation=None,
                synonyms=(),
            )
            for each in result.configs or ()
        }

    return await cluster.retry(attempt, timeout_ms)


async def _await_leaders(cluster: ClusterMetadata, topics: list[str]) -> None:
    """Wait until every partition has a leader, so that the caller can use the topics at once."""
    view = await cluster.refresh(topics)
    for topic in topics:
        known = view.topics.get(topic)
        if known is None and view.errors.get(topic) is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            continue  # a user that may create a topic may not always see it
        if known is None or len(known.available) < len(known.partitions):
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"topic {topic!r} was created and has no leaders yet",
            )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partition_count,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in topic.assignments.items()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


async def delete_topics(cluster: ClusterMetadata, names: Sequence[str], timeout_ms: int) -> None:
    """Delete topics; see ``Admin.delete_topics``."""

    left_ms = cluster.countdown(timeout_ms)
    remaining = dict.fromkeys(names)
    collected, deleted = Collected(), dict[str, TopicId]()

    async def attempt() -> None:
        connection = await cluster.controller()
        request = DeleteTopicsRequest(timeout_ms=timeout_ms)
        if connection.version_of(ApiKey.DELETE_TOPICS) >= FIRST_DELETE_VERSION_WITH_STATES:
            request.topics = [DeleteTopicState(name=name) for name in remaining]
        else:
            request.topic_names = list(remaining)
        response = await connection.request(request, DeleteTopicsResponse)
        for result in response.responses:
            name = result.name or ""
            if collected.settle(name, result.error_code, result.error_message, "topic "):
                remaining.pop(name, None)
                if result.error_code == ErrorCode.NONE:
                    deleted[name] = TopicId(result.topic_id)
        collected.raise_unsettled()

    await cluster.retry(attempt, timeout_ms)
    collected.finish(deleted)
    await cluster.retry(partial(_await_gone, cluster, deleted), left_ms(), is_refreshing=False)
    cluster.forget(names)


async def _await_gone(cluster: ClusterMetadata, deleted: Mapping[str, TopicId]) -> None:
    """Wait until the brokers no longer list the topics, so that they can be created again."""
    view = await cluster.refresh(deleted)
    for name, topic_id in deleted.items():
        if name in view.topics and view.topics[name].topic_id == topic_id:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"topic {name!r} was deleted, and brokers still name it",
            )


async def create_partitions(
    cluster: ClusterMetadata, counts: Mapping[str, int], timeout_ms: int
) -> None:
    """Add partitions to topics; see ``Admin.create_partitions``."""
    left_ms = cluster.countdown(timeout_ms)
    remaining = dict(counts)
    collected = Collected()

    async def attempt() -> None:
        topics = [
            CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in remaining.items()
        ]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms)
        response = await (await cluster.controller()).request(request, CreatePartitionsResponse)
        for result in response.results:
            if collected.settle(result.name, result.error_code, result.error_message, "topic "):
                remaining.pop(result.name, None)
        collected.raise_unsettled()

    await cluster.retry(attempt, timeout_ms)
    collected.finish({})

    async def grown() -> None:
        await _await_leaders(cluster, list(counts))
        if any(cluster.view.topics[name].partition_count < count for name, count in counts.items()):
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "the new partitions are not known yet")

    await cluster.retry(grown, left_ms(), is_refreshing=False)


async def list_topics(
    cluster: ClusterMetadata, timeout_ms: int, *, is_internal_included: bool
) -> list[TopicListing]:
    """List topics by name; see ``Admin.list_topics``."""
    view = await cluster.retry(partial(cluster.refresh, None), timeout_ms, is_refreshing=False)
    return [
        TopicListing(
            name=name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partition_count=topic.partition_count,
        )
        for name, topic in sorted(view.topics.items())
        if is_internal_included or not topic.is_internal
    ]


async def describe_topics(
    cluster: ClusterMetadata, names: Sequence[str], timeout_ms: int
) -> dict[str, TopicDescription]:
    """Describe topics as they are now; see ``Admin.describe_topics``."""

    async def attempt() -> dict[str, TopicDescription]:
        view = await cluster.refresh(names)
        collected, described = Collected(), {}
        for name in names:
            topic = view.topics.get(name)
            if topic is None or name in view.errors:
                collected.note(
                    name,
                    view.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    None,
                    "topic ",
                )
            else:
                described[name] = TopicDescription(
                    name=name,
                    topic_id=topic.topic_id,
                    is_internal=topic.is_internal,
                    partitions=topic.partitions,
                )
        return collected.finish(described)

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


async def describe_topic_operations(
    cluster: ClusterMetadata, names: Sequence[str], timeout_ms: int
) -> dict[str, TopicOperations]:
    """Return the operations that are allowed; see ``Admin.describe_topic_operations``."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    response = await cluster.retry(partial(cluster.ask_any, request, MetadataResponse), timeout_ms)
    return {
        topic.name: TopicOperations(
            topic_id=TopicId(topic.topic_id),
            operations=frozenset(
                each
                for each in OPERATIONS_ON[AclResource.TOPIC]
                if topic.topic_authorized_operations >> each & 1
            ),
        )
        for topic in response.topics
        if topic.error_code == ErrorCode.NONE and topic.name is not None
    }


async def describe_cluster(cluster: ClusterMetadata, timeout_ms: int) -> ClusterDescription:
    """Return the cluster's id, controller and nodes; see ``Admin.describe_cluster``."""

    async def attempt() -> ClusterDescription:
        view = await cluster.refresh()
        connection = await cluster.any_node()
        return ClusterDescription(
            cluster_id=view.cluster_id or "",
            controller_id=view.controller_id,
            nodes=tuple(view.nodes[node_id] for node_id in sorted(view.nodes)),
            is_tidelog=MAINTENANCE_FEATURE in connection.versions.features,
        )

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


# Configuration


async def describe_configs(
    cluster: ClusterMetadata, resources: Sequence[ConfigResource], timeout_ms: int
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """Describe configuration; see ``Admin.describe_configs``."""

    async def ask(
        node_id: int | None, asked: Sequence[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        request = DescribeConfigsRequest(
            include_synonyms=True,
            include_documentation=True,
            resources=[
                DescribeConfigsResource(
                    resource_type=each.resource_type,
                    resource_name=each.name,
                    configuration_keys=None,
                )
                for each in asked
            ],
        )
        connection = await (cluster.any_node() if node_id is None else cluster.node(node_id))
        response = await connection.request(request, DescribeConfigsResponse)
        collected, described = Collected(), {}
        for result in response.results:
            resource = ConfigResource(
                resource_type=ResourceType(result.resource_type), name=result.resource_name
            )
            if not collected.note(resource, result.error_code, result.error_message):
                described[resource] = {entry.name: _config_entry(entry) for entry in result.configs}
        return collected.finish(described)

    async def attempt() -> dict[ConfigResource, dict[str, ConfigEntry]]:
        await cluster.refresh()
        parts = await gather(
            partial(ask, node_id, asked) for node_id, asked in _by_node(resources).items()
        )
        return {resource: entries for part in parts for resource, entries in part.items()}

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


async def alter_configs(
    cluster: ClusterMetadata,
    changes: Mapping[ConfigResource, Mapping[str, str | ConfigChange | None]],
    timeout_ms: int,
    *,
    is_validated_only: bool,
) -> None:
    """Change single configuration keys; see ``Admin.alter_configs``."""

    async def ask(node_id: int | None, asked: Sequence[ConfigResource]) -> None:
        request = IncrementalAlterConfigsRequest(
            validate_only=is_validated_only,
            resources=[
                AlterConfigsResource(
                    resource_type=each.resource_type,
                    resource_name=each.name,
                    configs=[_alterable(name, value) for name, value in changes[each].items()],
                )
                for each in asked
            ],
        )
        connection = await (cluster.controller() if node_id is None else cluster.node(node_id))
        response = await connection.request(request, IncrementalAlterConfigsResponse)
        collected = Collected()
        for result in response.responses:
            resource = ConfigResource(
                resource_type=ResourceType(result.resource_type), name=result.resource_name
            )
            collected.note(resource, result.error_code, result.error_message)
        collected.finish({})

    async def attempt() -> None:
        await cluster.refresh()
        await gather(
            partial(ask, node_id, asked) for node_id, asked in _by_node(list(changes)).items()
        )

    await cluster.retry(attempt, timeout_ms, is_refreshing=False)


def _alterable(name: str, value: str | ConfigChange | None) -> AlterableConfig:
    if not isinstance(value, ConfigChange):
        value = ConfigChange(
            operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET, value=value
        )
    return AlterableConfig(name=name, config_operation=value.operation, value=value.value)


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Group resources by the broker that their requests must go to. None means any broker."""
    grouped: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        node_id = (
            int(resource.name) if resource.resource_type in ONE_NODE and resource.name else None
        )
        grouped.setdefault(node_id, []).append(resource)
    return grouped


def _config_entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=CONFIG_SOURCES.get(entry.config_source, "UNKNOWN"),
        is_read_only=entry.read_only,
        is_sensitive=entry.is_sensitive,
        documentation=entry.documentation or None,
        synonyms=tuple(
            (each.name, each.value, CONFIG_SOURCES.get(each.source, "UNKNOWN"))
            for each in entry.synonyms
        ),
    )
