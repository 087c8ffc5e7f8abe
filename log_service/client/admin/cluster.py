"""Administers the cluster: log directories, leaders, the quorum, features, producers and voters.

Each function sends the requests of one method of ``Admin``, and converts the responses to values.
``ClusterMetadata.retry`` tries again after a retriable error. Errors of single partitions in an
election are not retried, because they are the results of the election.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from log_service import __version__
from log_service.client.admin.fan_out import Collected, by_topic, gather
from log_service.client.admin.values import (
    BrokerDescription,
    ConfigResource,
    ElectionType,
    FeatureDescription,
    FeatureUpdate,
    ItemsFailed,
    LogDirDescription,
    ProducerDescription,
    QuorumDescription,
    QuorumReplica,
    RaftVoter,
    Reassignment,
    ReplicaDescription,
    ResourceType,
    TopicPartitionReplica,
)
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import CLUSTER_METADATA_TOPIC, TopicPartition
from log_service.protocol.api_versions import KNOWN
from log_service.protocol.messages import alter_partition_reassignments as alter_reassignments
from log_service.protocol.messages import alter_replica_log_dirs as alter_dirs
from log_service.protocol.messages import describe_log_dirs as log_dirs
from log_service.protocol.messages import describe_producers as producers
from log_service.protocol.messages import describe_quorum as quorum
from log_service.protocol.messages import list_partition_reassignments as reassignments
from log_service.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
)
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from log_service.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from log_service.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from log_service.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from log_service.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from log_service.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from log_service.rpc.connection import SOFTWARE_NAME, raise_for

# Log directories


async def describe_log_dirs(
    cluster: ClusterMetadata, node_ids: Iterable[int] | None, timeout_ms: int
) -> dict[int, dict[str, LogDirDescription]]:
    """Describe the log directories of brokers; see ``Admin.describe_log_dirs``."""

    async def ask(node_id: int) -> dict[str, LogDirDescription]:
        request = log_dirs.DescribeLogDirsRequest(topics=None)
        response = await (await cluster.node(node_id)).request(
            request, log_dirs.DescribeLogDirsResponse
        )
        raise_for(response.error_code, None, f"log directories of broker {node_id}")
        return {result.log_dir: _log_dir(result) for result in response.results}

    async def attempt() -> dict[int, dict[str, LogDirDescription]]:
        view = await cluster.refresh()
        wanted = sorted(view.nodes if node_ids is None else node_ids)
        return dict(
            zip(wanted, await gather(partial(ask, node_id) for node_id in wanted), strict=True)
        )

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


def _log_dir(result: log_dirs.DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        path=result.log_dir,
        error=ErrorCode.of(result.error_code),
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        is_cordoned=result.is_cordoned,
        replicas={
            TopicPartition(topic.name, each.partition_index): ReplicaDescription(
                size_bytes=each.partition_size,
                offset_lag=each.offset_lag,
                is_future=each.is_future_key,
            )
            for topic in result.topics
            for each in topic.partitions
        },
    )


async def alter_replica_log_dirs(
    cluster: ClusterMetadata, targets: Mapping[TopicPartitionReplica, str], timeout_ms: int
) -> None:
    """Move replicas between log directories; see ``Admin.alter_replica_log_dirs``."""

    async def ask(node_id: int) -> Collected:
        by_path: dict[str, list[TopicPartition]] = {}
        for replica, path in targets.items():
            if replica.broker_id == node_id:
                by_path.setdefault(path, []).append(
                    TopicPartition(replica.topic, replica.partition)
                )
        request = alter_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_dirs.AlterReplicaLogDir(
                    path=path,
                    topics=[
                        alter_dirs.AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                        for topic, numbers in by_topic(moved).items()
                    ],
                )
                for path, moved in by_path.items()
            ]
        )
        response = await (await cluster.node(node_id)).request(
            request, alter_dirs.AlterReplicaLogDirsResponse
        )
        collected = Collected()
        for topic in response.results:
            for result in topic.partitions:
                collected.note(
                    TopicPartitionReplica(topic.topic_name, result.partition_index, node_id),
                    result.error_code,
                    None,
                )
        return collected

    async def attempt() -> None:
        await cluster.refresh()
        everything = Collected()
        for collected in await gather(
            partial(ask, node_id) for node_id in sorted({replica.broker_id for replica in targets})
        ):
            everything.errors.update(collected.errors)
        everything.finish({})

    await cluster.retry(attempt, timeout_ms, is_refreshing=False)


# Leaders and replicas


async def elect_leaders(
    cluster: ClusterMetadata,
    partitions: Iterable[TopicPartition] | None,
    election_type: ElectionType,
    timeout_ms: int,
) -> set[TopicPartition]:
    """Elect leaders; see ``Admin.elect_leaders``."""
    asked = None
    if partitions is not None:
        asked = [
            TopicPartitions(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    request = ElectLeadersRequest(
        election_type=election_type, topic_partitions=asked, timeout_ms=timeout_ms
    )

    async def attempt() -> ElectLeadersResponse:
        response = await (await cluster.controller()).request(
            request, ElectLeadersResponse, waits_ms=timeout_ms
        )
        raise_for(response.error_code, None, "elect leaders")
        return response

    elected: set[TopicPartition] = set()
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in (await cluster.retry(attempt, timeout_ms)).replica_election_results:
        for result in topic.partition_result:
            partition, code = (
                TopicPartition(topic.topic, result.partition_id),
                ErrorCode.of(result.error_code),
            )
            if code == ErrorCode.NONE:
                elected.add(partition)
            else:
                errors[partition] = KafkaError(
                    code, f"{partition}: {result.error_message or code.name}"
                )
    if errors:
        raise ItemsFailed(errors, dict.fromkeys(elected))
    return elected


async def alter_partition_reassignments(
    cluster: ClusterMetadata,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    timeout_ms: int,
    *,
    is_factor_kept: bool,
) -> None:
    """Move partitions to other brokers; see ``Admin.alter_partition_reassignments``."""
    request = alter_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=not is_factor_kept,
        topics=[
            alter_reassignments.ReassignableTopic(
                name=topic,
                partitions=[
                    _reassignable(number, targets[TopicPartition(topic, number)])
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(targets).items()
        ],
    )

    async def attempt() -> None:
        connection = await cluster.controller()
        response = await connection.request(
            request, alter_reassignments.AlterPartitionReassignmentsResponse, waits_ms=timeout_ms
        )
        raise_for(response.error_code, response.error_message, "reassign partitions")
        collected = Collected()
        for topic in response.responses:
            for result in topic.partitions:
                collected.note(
                    TopicPartition(topic.name, result.partition_index),
                    result.error_code,
                    result.error_message,
                )
        collected.finish({})

    await cluster.retry(attempt, timeout_ms)


def _reassignable(
    number: int, replicas: Sequence[int] | None
) -> alter_reassignments.ReassignablePartition:
    return alter_reassignments.ReassignablePartition(
        partition_index=number, replicas=None if replicas is None else list(replicas)
    )


async def list_partition_reassignments(
    cluster: ClusterMetadata, partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> dict[TopicPartition, Reassignment]:
    """Return the reassignments in progress; see ``Admin.list_partition_reassignments``."""
    asked = None
    if partitions is not None:
        asked = [
            reassignments.ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    request = reassignments.ListPartitionReassignmentsRequest(topics=asked, timeout_ms=timeout_ms)

    async def attempt() -> dict[TopicPartition, Reassignment]:
        response = await (await cluster.controller()).request(
            request, reassignments.ListPartitionReassignmentsResponse
        )
        raise_for(response.error_code, response.error_message, "list reassignments")
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                replicas=tuple(each.replicas),
                adding_replicas=tuple(each.adding_replicas),
                removing_replicas=tuple(each.removing_replicas),
            )
            for topic in response.topics
            for each in topic.partitions
        }

    return await cluster.retry(attempt, timeout_ms)


async def describe_producers(
    cluster: ClusterMetadata, partitions: Iterable[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
    """Return the producers of partitions; see ``Admin.describe_producers``."""
    wanted = list(partitions)

    async def ask(leader: int, asked: list[TopicPartition]) -> Collected:
        topics = [
            producers.TopicRequest(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(asked).items()
        ]
        response = await (await cluster.node(leader)).request(
            producers.DescribeProducersRequest(topics=topics), producers.DescribeProducersResponse
        )
        collected = Collected()
        for topic in response.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                if not collected.note(partition, result.error_code, result.error_message):
                    described[partition] = tuple(
                        _producer(state) for state in result.active_producers
                    )
        return collected

    described: dict[TopicPartition, tuple[ProducerDescription, ...]] = {}

    async def attempt() -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
        described.clear()
        view = await cluster.refresh({partition.topic for partition in wanted})
        everything = Collected()
        known = [partition for partition in wanted if view.partition(partition) is not None]
        for partition in wanted:
            if partition not in known:
                everything.note(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        for collected in await gather(
            partial(ask, leader, asked) for leader, asked in cluster.group_by_leader(known).items()
        ):
            everything.errors.update(collected.errors)
        return everything.finish(described)

    return await cluster.retry(attempt, timeout_ms, is_refreshing=False)


def _producer(state: producers.ProducerState) -> ProducerDescription:
    return ProducerDescription(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start_offset=state.current_txn_start_offset,
    )


# Quorum, features, brokers


async def describe_brokers(
    cluster: ClusterMetadata, timeout_ms: int
) -> tuple[BrokerDescription, ...]:
    """Return all registered brokers; see ``Admin.describe_brokers``."""

    async def attempt() -> tuple[BrokerDescription, ...]:
        request = DescribeClusterRequest(include_fenced_brokers=True)
        response = await (await cluster.any_node()).request(request, DescribeClusterResponse)
        raise_for(response.error_code, response.error_message, "describe the brokers")
        return tuple(
            BrokerDescription(
                node_id=each.broker_id,
                host=each.host,
                port=each.port,
                rack=each.rack,
                is_fenced=each.is_fenced,
            )
            for each in sorted(response.brokers, key=lambda each: each.broker_id)
        )

    return await cluster.retry(attempt, timeout_ms)


async def describe_metadata_quorum(cluster: ClusterMetadata, timeout_ms: int) -> QuorumDescription:
    """Describe the metadata quorum; see ``Admin.describe_metadata_quorum``."""
    partition = quorum.RequestPartitionData(partition_index=0)
    request = quorum.DescribeQuorumRequest(
        topics=[quorum.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]
    )

    async def attempt() -> QuorumDescription:
        response = await (await cluster.any_node()).request(request, quorum.DescribeQuorumResponse)
        raise_for(response.error_code, response.error_message, "describe the metadata quorum")
        result = response.topics[0].partitions[0]
        raise_for(result.error_code, result.error_message, "describe the metadata quorum")
        return QuorumDescription(
            leader_id=result.leader_id,
            leader_epoch=result.leader_epoch,
            high_watermark=result.high_watermark,
            voters=tuple(_quorum_replica(state) for state in result.current_voters),
            observers=tuple(_quorum_replica(state) for state in result.observers),
            endpoints={
                node.node_id: {each.name: f"{each.host}:{each.port}" for each in node.listeners}
                for node in response.nodes
            },
        )

    return await cluster.retry(attempt, timeout_ms)


def _quorum_replica(state: quorum.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        node_id=state.replica_id,
        directory_id=state.replica_directory_id,
        log_end_offset=state.log_end_offset,
        last_fetch_ms=state.last_fetch_timestamp,
        last_caught_up_ms=state.last_caught_up_timestamp,
    )


async def describe_features(
    cluster: ClusterMetadata, node_id: int | None, timeout_ms: int
) -> FeatureDescription:
    """Return the features of a broker and of the cluster; see ``Admin.describe_features``."""
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=__version__
    )

    async def attempt() -> FeatureDescription:
        connection = await (cluster.any_node() if node_id is None else cluster.node(node_id))
        response = await connection.request(request, ApiVersionsResponse)
        raise_for(response.error_code, None, "describe features")
        return FeatureDescription(
            supported={
                each.name: (each.min_version, each.max_version)
                for each in response.supported_features
            },
            finalized={each.name: each.max_version_level for each in response.finalized_features},
            finalized_epoch=response.finalized_features_epoch,
        )

    return await cluster.retry(attempt, timeout_ms)


async def describe_api_versions(
    cluster: ClusterMetadata, node_id: int | None, timeout_ms: int
) -> dict[str, tuple[int, int]]:
    """Return the API versions that a broker supports; see ``Admin.describe_api_versions``."""

    async def attempt() -> dict[str, tuple[int, int]]:
        connection = await (cluster.any_node() if node_id is None else cluster.node(node_id))
        known = {int(key): KNOWN[key].name for key in KNOWN}
        return {
            known.get(key, f"api {key}"): versions
            for key, versions in sorted(connection.versions.ranges.items())
        }

    return await cluster.retry(attempt, timeout_ms)


async def update_features(
    cluster: ClusterMetadata,
    updates: Mapping[str, FeatureUpdate],
    timeout_ms: int,
    *,
    is_validated_only: bool,
) -> None:
    """Change feature levels; see ``Admin.update_features``."""
    request = UpdateFeaturesRequest(
        timeout_ms=timeout_ms,
        validate_only=is_validated_only,
        feature_updates=[
            FeatureUpdateKey(
                feature=name, max_version_level=update.level, upgrade_type=update.upgrade_type
            )
            for name, update in updates.items()
        ],
    )

    async def attempt() -> None:
        response = await (await cluster.controller()).request(
            request, UpdateFeaturesResponse, waits_ms=timeout_ms
        )
        raise_for(response.error_code, response.error_message, "update features")
        collected = Collected()
        for result in response.results:
            collected.note(result.feature, result.error_code, result.error_message, "feature ")
        collected.finish({})

    await cluster.retry(attempt, timeout_ms)


async def unregister_broker(cluster: ClusterMetadata, node_id: int, timeout_ms: int) -> None:
    """Remove a broker's registration; see ``Admin.unregister_broker``."""

    async def attempt() -> None:
        request = UnregisterBrokerRequest(broker_id=node_id)
        response = await (await cluster.controller()).request(request, UnregisterBrokerResponse)
        raise_for(response.error_code, response.error_message, f"unregister broker {node_id}")

    await cluster.retry(attempt, timeout_ms)


async def list_config_resources(
    cluster: ClusterMetadata, types: Iterable[ResourceType], timeout_ms: int
) -> list[ConfigResource]:
    """Return the resources with configuration; see ``Admin.list_config_resources``."""
    request = ListConfigResourcesRequest(
        resource_types=[int(resource_type) for resource_type in types]
    )

    async def attempt() -> list[ConfigResource]:
        response = await (await cluster.any_node()).request(request, ListConfigResourcesResponse)
        raise_for(response.error_code, None, "list config resources")
        return sorted(
            ConfigResource(resource_type=ResourceType(each.resource_type), name=each.resource_name)
            for each in response.config_resources
        )

    return await cluster.retry(attempt, timeout_ms)


async def add_raft_voter(cluster: ClusterMetadata, voter: RaftVoter, timeout_ms: int) -> None:
    """Add a voter; see ``Admin.add_raft_voter``."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=timeout_ms,
        voter_id=voter.node_id,
        voter_directory_id=voter.directory_id,
        listeners=[
            Listener(name=name, host=host, port=port)
            for name, (host, port) in voter.endpoints.items()
        ],
    )
    response = await (await cluster.controller()).request(
        request, AddRaftVoterResponse, waits_ms=timeout_ms
    )
    raise_for(response.error_code, response.error_message, f"add voter {voter.node_id}")


async def remove_raft_voter(cluster: ClusterMetadata, node_id: int, directory_id: UUID) -> None:
    """Remove a voter; see ``Admin.remove_raft_voter``."""
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=node_id, voter_directory_id=directory_id
    )
    response = await (await cluster.controller()).request(request, RemoveRaftVoterResponse)
    raise_for(response.error_code, response.error_message, f"remove voter {node_id}")
