"""Topics, partitions, configuration, offsets and retention, as an administrator asks for them."""

from typing import Any
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch
from log_service.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from log_service.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from log_service.protocol.messages.maintenance import MaintenanceRequest, MaintenanceResponse
from log_service.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import Asking, Story, batch, tell, values_of

TOPIC, BROKER = 2, 4


async def list_offset(
    node: Asking, timestamp: int, *, topic: str = "a", version: int = 11, epoch: int = -1
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    response: ListOffsetsResponse = await node.ask(request, version)
    return response.topics[0].partitions[0]


async def alter(
    node: Story, topic: str, name: str, value: str | None, operation: int = 0, **flags: bool
) -> int:
    resource = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[AlterableConfig(name=name, value=value, config_operation=operation)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], **flags)
    response: IncrementalAlterConfigsResponse = await node.ask(request, 1)
    return response.responses[0].error_code


async def configs(node: Story, resource_type: int, name: str, keys: list[str] | None = None) -> Any:
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    response: DescribeConfigsResponse = await node.ask(request, 4)
    return response.results[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_of_list_offsets_is_served(version: int) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"one", timestamp_ms=1_000))
        await node.produce("a", batch(b"two", timestamp_ms=5_000))
        assert (await list_offset(node, -1, version=version)).offset == 2
        assert (await list_offset(node, -2, version=version)).offset == 0
        found = await list_offset(node, 1_001, version=version)
        assert (found.offset, found.timestamp) == (1, 5_000)
        assert (await list_offset(node, 5_001, version=version)).offset == -1

    tell_handlers(story)


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
def test_a_special_timestamp_is_answered_from_its_version_on(timestamp: int, first: int) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"one"))
        for version in range(1, 12):
            expected = 0 if version >= first else ErrorCode.UNSUPPORTED_VERSION
            assert (await list_offset(node, timestamp, version=version)).error_code == expected

    tell_handlers(story)


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_an_end_that_no_sync_can_tell_is_refused(version: int, code: ErrorCode) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", flush_messages="1")
        partition = node.broker.replicas.get_partition("a", 0)
        partition.append_as_leader(bytearray(batch(b"one", timestamp_ms=0)), 0)
        assert partition.state.registration is not None
        partition.apply(
            partition.state.registration._replace(
                leader_epoch=LeaderEpoch(partition.leader_epoch + 1)
            ),
            0,
        )
        assert (await list_offset(node, -1, version=version)).error_code == code
        assert (await list_offset(node, -2, version=version)).offset == 0

    tell(story)


def test_list_offsets_of_what_is_not_there_or_another_epoch_is_told() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        assert (
            await list_offset(node, -1, topic="z")
        ).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await list_offset(node, -1, epoch=5)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        twice = [ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="a", partitions=twice)]
        )
        response: ListOffsetsResponse = await node.ask(request, 11)
        assert [found.error_code for found in response.topics[0].partitions] == [
            ErrorCode.INVALID_REQUEST
        ]

    tell_handlers(story)


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_of_an_epoch_is_told(version: int) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"one", b"two"))

        async def end_of(epoch: int, current: int = -1) -> EpochEndOffset:
            wanted = OffsetForLeaderPartition(
                partition=0, leader_epoch=epoch, current_leader_epoch=current
            )
            request = OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderTopic(topic="a", partitions=[wanted])]
            )
            response: OffsetForLeaderEpochResponse = await node.ask(request, version)
            return response.topics[0].partitions[0]

        found = await end_of(0, 0)
        assert (found.error_code, found.leader_epoch, found.end_offset) == (0, 0, 2)
        assert (await end_of(4)).end_offset == -1
        assert (await end_of(0, 4)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    tell_handlers(story)


def test_records_are_deleted_and_the_low_watermark_is_told() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.create_topic("kept", cleanup_policy="compact")
        await node.produce("a", batch(b"one", b"two", b"three"))

        async def delete(topic: str, offset: int) -> tuple[int, int]:
            wanted = [
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)],
                )
            ]
            response: DeleteRecordsResponse = await node.ask(
                DeleteRecordsRequest(topics=wanted, timeout_ms=1_000), 2
            )
            answer = response.topics[0].partitions[0]
            return answer.error_code, answer.low_watermark

        assert await delete("a", 2) == (0, 2)
        assert await delete("a", 9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete("kept", 0) == (ErrorCode.POLICY_VIOLATION, -1)
        assert await delete("nowhere", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await delete("__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
        assert (await node.fetch("a", 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await node.fetch("a", 2)).log_start_offset == 2

    tell_handlers(story)


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created_each_by_itself(version: int) -> None:
    async def story(node: Story) -> None:
        wanted = [
            CreatableTopic(name="good", num_partitions=2, replication_factor=1),
            CreatableTopic(name="bad!", num_partitions=1, replication_factor=1),
            CreatableTopic(name="many", num_partitions=1, replication_factor=3),
            CreatableTopic(
                name="odd",
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.ms", value="soon")],
            ),
        ]
        response: CreateTopicsResponse = await node.ask(
            CreateTopicsRequest(topics=wanted, timeout_ms=1_000), version
        )
        codes = {topic.name: topic.error_code for topic in response.topics}
        assert codes == {
            "good": 0,
            "bad!": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "many": ErrorCode.INVALID_REPLICATION_FACTOR,
            "odd": ErrorCode.INVALID_CONFIG,
        }
        again: CreateTopicsResponse = await node.ask(
            CreateTopicsRequest(topics=wanted[:1], timeout_ms=1_000), version
        )
        assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert list(node.broker.image.topics.by_name) == ["good"]

    tell(story)


def test_validate_only_writes_nothing() -> None:
    async def story(node: Story) -> None:
        wanted = CreatableTopic(name="a", num_partitions=2, replication_factor=1)
        response: CreateTopicsResponse = await node.ask(
            CreateTopicsRequest(topics=[wanted], validate_only=True), 7
        )
        assert response.topics[0].error_code == 0
        assert not node.broker.image.topics.by_name

    tell(story)


@pytest.mark.parametrize("version", range(1, 7))
def test_a_deleted_topic_is_gone_and_its_name_free(version: int) -> None:
    async def story(node: Story) -> None:
        old_id = await node.create_topic("a", retention_ms="1000")
        await node.produce("a", batch(b"old"))
        request = (
            DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000)
            if version >= 6
            else DeleteTopicsRequest(topic_names=["a", "missing"], timeout_ms=1_000)
        )
        response: DeleteTopicsResponse = await node.ask(request, version)
        codes = [answer.error_code for answer in response.responses]
        assert codes == ([0] if version >= 6 else [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        assert (await node.fetch("a", 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await node.create_topic("a") != old_id
        assert (await node.produce("a", batch(b"new"))).base_offset == 0
        assert values_of((await node.fetch("a", 0)).records) == [b"new"]
        assert (await configs(node, TOPIC, "a", ["retention.ms"])).configs[0].value == "604800000"

    tell(story)


def test_topics_are_deleted_by_id() -> None:
    async def story(node: Story) -> None:
        topic_id = await node.create_topic("a")
        wanted = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=UUID(int=77))]
        response: DeleteTopicsResponse = await node.ask(
            DeleteTopicsRequest(topics=wanted, timeout_ms=1_000), 6
        )
        assert [answer.error_code for answer in response.responses] == [
            0,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]

    tell(story)


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (6, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_topics_are_not_deleted_where_that_is_switched_off(version: int, code: ErrorCode) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        request = (
            DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1_000)
            if version == 6
            else DeleteTopicsRequest(topic_names=["a"], timeout_ms=1_000)
        )
        response: DeleteTopicsResponse = await node.ask(request, version)
        assert [(answer.name, answer.error_code) for answer in response.responses] == [("a", code)]

    tell(story, delete_topic_enable="false")


def test_partitions_are_added_and_take_records() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 1)
        grow = CreatePartitionsTopic(name="a", count=3, assignments=None)
        response: CreatePartitionsResponse = await node.ask(
            CreatePartitionsRequest(topics=[grow], timeout_ms=1_000), 3
        )
        assert response.results[0].error_code == 0
        assert (await node.produce("a", batch(b"one"), partition=2)).error_code == 0
        fewer: CreatePartitionsResponse = await node.ask(
            CreatePartitionsRequest(topics=[grow], timeout_ms=1_000), 0
        )
        assert fewer.results[0].error_code == ErrorCode.INVALID_PARTITIONS

    tell(story)


def test_topic_configuration_takes_effect_on_the_open_log() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        assert await alter(node, "a", "max.message.bytes", "200") == 0
        assert (
            await node.produce("a", batch(b"x" * 500))
        ).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert await alter(node, "a", "max.message.bytes", None, operation=1) == 0
        assert (await node.produce("a", batch(b"x" * 500))).error_code == 0
        assert await alter(node, "a", "flush.messages", "1") == 0
        files: Any = node.broker.env.files
        before = files.sync_count
        await node.produce("a", batch(b"safe"))
        assert files.sync_count > before

    tell(story)


def test_a_bad_value_is_refused() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        assert await alter(node, "a", "retention.ms", "soon") == ErrorCode.INVALID_CONFIG
        assert await alter(node, "a", "no.such.key", "1") == ErrorCode.INVALID_CONFIG
        assert await alter(node, "z", "retention.ms", "1") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(node, "a", "retention.ms", "1", validate_only=True) == 0
        assert (await configs(node, TOPIC, "a", ["retention.ms"])).configs[0].value == "604800000"

    tell(story)


def test_configuration_is_described_with_sources() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", retention_ms="1000")
        described = {row.name: row for row in (await configs(node, TOPIC, "a")).configs}
        assert (described["retention.ms"].value, described["retention.ms"].config_source) == (
            "1000",
            1,
        )
        assert described["retention.ms"].synonyms[0].value == "1000"
        assert (described["segment.bytes"].config_source, described["segment.bytes"].value) == (
            4,
            "5000000",
        )
        assert described["cleanup.policy"].documentation
        broker = {row.name: row for row in (await configs(node, BROKER, "1")).configs}
        assert (broker["node.id"].value, broker["node.id"].read_only) == ("1", True)

    tell(story, log_segment_bytes="5000000")


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
        (8, "7", ErrorCode.INVALID_REQUEST),
        (3, "any", ErrorCode.INVALID_REQUEST),
    ],
)
def test_configuration_of_what_is_not_here_is_told(
    resource_type: int, name: str, code: ErrorCode
) -> None:
    async def story(node: Story) -> None:
        assert (await configs(node, resource_type, name)).error_code == code

    tell(story)


def test_retention_is_applied_on_demand_and_says_what_it_removed() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", segment_bytes="1048576", retention_bytes="1")
        await node.create_topic("b")
        for _ in range(3):
            assert (await node.produce("a", batch(b"x" * 700_000))).error_code == 0
        response: MaintenanceResponse = await node.ask(
            MaintenanceRequest(operation=0, topics=["a", "gone"]), 0
        )
        told = {(result.topic, result.partition): result for result in response.results}
        assert told["gone", -1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        removed = told["a", 0]
        assert removed.error_code == 0
        assert removed.segments_deleted >= 2
        assert removed.bytes_deleted > 1_400_000
        assert removed.log_start_offset == (await list_offset(node, -2)).offset > 0
        everything: MaintenanceResponse = await node.ask(
            MaintenanceRequest(operation=0, topics=None), 0
        )
        assert [(result.topic, result.segments_deleted) for result in everything.results] == [
            ("a", 0),
            ("b", 0),
        ]
        unknown: MaintenanceResponse = await node.ask(MaintenanceRequest(operation=9), 0)
        assert unknown.error_code == ErrorCode.INVALID_REQUEST

    tell(story)
