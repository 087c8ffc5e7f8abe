"""Admins ask a whole node for log directories, moves, membership and the quorum."""

import errno

import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from log_service.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from log_service.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from log_service.protocol.messages.describe_acls import DescribeAclsRequest
from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from log_service.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from log_service.protocol.messages.list_config_resources import ListConfigResourcesRequest
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.sim import MemoryFiles, World, sim_run
from tests.unit.broker.context import Story, batch, running, tell, values_of

DIRS = "/data/first,/data/second"
FIRST, SECOND = DIRS.split(",")


async def directories(node: Story, version: int = 5) -> dict[str, DescribeLogDirsResult]:
    response = await node.ask(DescribeLogDirsRequest(topics=None), version)
    return {result.log_dir: result for result in response.results}


def held(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    """Sizes by partition."""
    return {
        (topic.name, each.partition_index): each.partition_size
        for topic in result.topics
        for each in topic.partitions
    }


def test_replicas_are_spread_over_directories_and_told_with_their_sizes() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 4)
        await node.produce("a", batch(b"one"), partition=2)
        found = await directories(node)
        assert set(found) == {FIRST, SECOND}
        sizes = {**held(found[FIRST]), **held(found[SECOND])}
        assert len(held(found[FIRST])) == len(held(found[SECOND])) == 2
        assert {partition: size > 0 for partition, size in sizes.items()} == {
            ("a", index): index == 2 for index in range(4)
        }

    tell(story, log_dirs=DIRS)


def test_a_directory_that_failed_is_told_as_offline() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 2)
        place = next(
            path for path, result in (await directories(node)).items() if ("a", 1) in held(result)
        )
        files = node.broker.env.files
        assert isinstance(files, MemoryFiles)
        files.fail_next("append", error=errno.EIO, containing="a-1")
        assert (
            await node.produce("a", batch(b"one"), partition=1)
        ).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        found = (await directories(node))[place]
        assert (found.error_code, found.topics, found.total_bytes) == (
            ErrorCode.KAFKA_STORAGE_ERROR,
            [],
            -1,
        )
        other = SECOND if place == FIRST else FIRST
        dirs = [
            AlterReplicaLogDir(
                path=place, topics=[AlterReplicaLogDirTopic(name="a", partitions=[0])]
            )
        ]
        answer = await node.ask(AlterReplicaLogDirsRequest(dirs=dirs), 2)
        assert answer.results[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await directories(node))[other].error_code == ErrorCode.NONE

    tell(story, log_dirs=DIRS, metadata_log_dir="/data/metadata")


def test_a_move_is_noted_in_the_metadata_and_survives_a_restart() -> None:
    async def whole(world: World) -> None:
        async with running(world, log_dirs=DIRS) as node:
            await node.create_topic("a")
            await node.produce("a", batch(b"one", b"two"))
            present = next(
                path for path, result in (await directories(node)).items() if held(result)
            )
            other = SECOND if present == FIRST else FIRST
            dirs = [
                AlterReplicaLogDir(
                    path=other, topics=[AlterReplicaLogDirTopic(name="a", partitions=[0])]
                )
            ]
            answer = await node.ask(AlterReplicaLogDirsRequest(dirs=dirs), 2)
            assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
            await trio.sleep(1)
            assert held((await directories(node))[present]) == {}
            registered = node.broker.image.cluster.brokers
            partition = node.broker.image.topics.by_name["a"].partitions[0]
            assert partition.directories[0] in next(iter(registered.values())).log_dirs
            assert (await node.produce("a", batch(b"three"))).base_offset == 2
        async with running(world, log_dirs=DIRS) as node:
            assert list(held((await directories(node))[other])) == [("a", 0)]
            assert values_of((await node.fetch("a", 0)).records) == [b"one", b"two", b"three"]

    sim_run(1, whole)


def test_a_broker_that_was_unregistered_comes_back_with_its_next_start() -> None:
    async def whole(world: World) -> None:
        async with running(world) as node:
            await node.create_topic("a")
            await node.produce("a", batch(b"one"))
            assert (
                await node.ask(UnregisterBrokerRequest(broker_id=1), 0)
            ).error_code == ErrorCode.NONE
            told = await node.ask(MetadataRequest(topics=None), 12)
            assert (told.brokers, told.controller_id) == ([], -1)
            assert told.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
            assert (
                await node.produce("a", batch(b"two"))
            ).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await node.ask(DescribeClusterRequest(), 0)).controller_id == -1
            assert (
                await node.ask(UnregisterBrokerRequest(broker_id=1), 0)
            ).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
            await trio.sleep(30)
        async with running(world) as node:
            assert (await node.ask(MetadataRequest(topics=None), 12)).controller_id == 1
            assert (await node.produce("a", batch(b"two"))).base_offset == 1

    sim_run(1, whole)


def test_a_producer_is_told_with_its_last_sequence() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.produce(
            "a", batch(b"one", b"two", producer_id=7, producer_epoch=0, base_sequence=0)
        )
        wanted = DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=[0])])
        (producer,) = (await node.ask(wanted, 0)).topics[0].partitions[0].active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 0, 1)
        assert producer.last_timestamp > 0

    tell(story)


def test_the_quorum_grows_with_the_metadata() -> None:
    async def story(node: Story) -> None:
        topics = [
            RequestTopicData(
                topic_name="__cluster_metadata",
                partitions=[RequestPartitionData(partition_index=0)],
            )
        ]
        before = (await node.ask(DescribeQuorumRequest(topics=topics), 2)).topics[0].partitions[0]
        await node.create_topic("a")
        after = (await node.ask(DescribeQuorumRequest(topics=topics), 2)).topics[0].partitions[0]
        assert after.high_watermark > before.high_watermark
        assert (after.leader_id, after.leader_epoch) == (1, before.leader_epoch)
        assert after.current_voters[0].log_end_offset == after.high_watermark

    tell(story)


def test_feature_results_are_listed_up_to_version_1() -> None:
    async def story(node: Story) -> None:
        updates = [FeatureUpdateKey(feature="metadata.version", max_version_level=30)]
        for version, count in ((0, 1), (1, 1), (2, 0)):
            response = await node.ask(UpdateFeaturesRequest(feature_updates=updates), version)
            assert (response.error_code, len(response.results)) == (ErrorCode.NONE, count)

    tell(story)


def test_only_known_types_of_resources_are_listed() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        everything = await node.ask(ListConfigResourcesRequest(), 1)
        assert {
            (each.resource_type, each.resource_name) for each in everything.config_resources
        } == {(2, "a"), (4, "1"), (8, "1")}
        assert (
            await node.ask(ListConfigResourcesRequest(resource_types=[2, 3]), 1)
        ).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await node.ask(ListConfigResourcesRequest(), 0)).config_resources == []

    tell(story)


def test_access_rules_are_refused_one_by_one_as_not_kept_here() -> None:
    async def story(node: Story) -> None:
        described = await node.ask(
            DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1), 3
        )
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        rule = AclCreation(
            resource_type=2,
            resource_name="a",
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        created = await node.ask(CreateAclsRequest(creations=[rule, rule]), 3)
        assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        deleted = await node.ask(
            DeleteAclsRequest(
                filters=[DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)]
            ),
            3,
        )
        assert [(each.error_code, each.matching_acls) for each in deleted.filter_results] == [
            (ErrorCode.SECURITY_DISABLED, [])
        ]

    tell(story)
