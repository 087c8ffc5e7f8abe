"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator, InitProducerId."""

from uuid import UUID

import pytest
import trio

from log_service.broker.handlers.api_versions import TELEMETRY
from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from log_service.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from log_service.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestCursor,
    TopicRequest,
)
from log_service.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from log_service.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from log_service.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import HOST, PORT, Story, tell


def topics(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


@pytest.mark.parametrize("version", range(5))
def test_api_versions_tells_everything_that_is_served(version: int) -> None:
    async def story(node: Story) -> None:
        request = ApiVersionsRequest(client_software_name="story", client_software_version="1.0")
        response: ApiVersionsResponse = await node.ask(request, version)
        told = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        assert told[ApiKey.PRODUCE] == (0, 13)  # KAFKA-18659
        assert told[ApiKey.FETCH] == (4, 18)
        # A node without a metrics page has no use for what clients push.
        untold = {
            ApiKey.TIDELOG_MAINTENANCE,
            ApiKey.TIDELOG_SHARE_RECORDS,
            *TELEMETRY,
        }
        assert set(told) == {
            int(api.key)
            for api in REGISTRY.values()
            if Side.BROKER in api.sides and api.key not in untold
        }

    tell(story)


def test_features_are_told_with_their_finalized_levels() -> None:
    async def story(node: Story) -> None:
        request = ApiVersionsRequest(client_software_name="story", client_software_version="1.0")
        newest: ApiVersionsResponse = await node.ask(request, 4)
        finalized = {
            feature.name: feature.max_version_level for feature in newest.finalized_features
        }
        assert finalized["metadata.version"] == 30
        assert finalized["transaction.version"] == 2
        assert newest.finalized_features_epoch >= 0
        assert "kraft.version" in {feature.name for feature in newest.supported_features}
        older: ApiVersionsResponse = await node.ask(request, 3)
        assert all(feature.min_version > 0 for feature in older.supported_features)  # KAFKA-17492
        assert "tidelog.maintenance" in {feature.name for feature in older.supported_features}

    tell(story)


@pytest.mark.parametrize("version", [5, 99, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version: int) -> None:
    async def story(node: Story) -> None:
        frame = (
            (18).to_bytes(2, "big")
            + version.to_bytes(2, "big", signed=True)
            + (77).to_bytes(4, "big")
            + b"\xff\xff"
            + b"\0junk"
        )
        await node.client.send_bytes(len(frame).to_bytes(4, "big") + frame)
        answer = await node.client.receive_frame()
        assert (
            answer
            == (77).to_bytes(4, "big") + b"\0\x23" + b"\0\0\0\1" + b"\0\x12" + b"\0\0" + b"\0\4"
        )

    tell(story)


@pytest.mark.parametrize("name", ["", "-dash", "white space", "tail."])
def test_a_client_with_an_odd_name_is_refused(name: str) -> None:
    async def story(node: HandlerNode) -> None:
        response: ApiVersionsResponse = await node.ask(
            ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3
        )
        assert response.error_code == ErrorCode.INVALID_REQUEST

    tell_handlers(story)


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata_is_served(version: int) -> None:
    async def story(node: HandlerNode) -> None:
        topic_id = await node.create_topic("a", 2)
        response: MetadataResponse = await node.ask(MetadataRequest(topics=topics("a")), version)
        assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
            (1, HOST, PORT)
        ]
        (described,) = response.topics
        assert (described.error_code, described.name) == (0, "a")
        assert [
            (one.partition_index, one.leader_id, one.isr_nodes) for one in described.partitions
        ] == [(0, 1, [1]), (1, 1, [1])]
        assert described.topic_id == (topic_id if version >= 10 else UUID(int=0))
        assert response.controller_id == (1 if version >= 1 else -1)
        assert response.cluster_id == (None if version < 2 else "cluster-of-the-story-00")

    tell_handlers(story)


def test_all_topics_are_asked_for_with_null_or_in_version_0_with_nothing() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        await node.create_topic("b")
        found = {}
        for version, wanted in ((0, []), (1, None), (1, []), (13, None), (13, [])):
            response: MetadataResponse = await node.ask(MetadataRequest(topics=wanted), version)
            found[version, wanted is None] = [topic.name for topic in response.topics]
        assert found == {
            (0, False): ["a", "b"],
            (1, True): ["a", "b"],
            (1, False): [],
            (13, True): ["a", "b"],
            (13, False): [],
        }

    tell_handlers(story)


def test_asking_for_a_topic_creates_it() -> None:
    async def story(node: Story) -> None:
        response: MetadataResponse = await node.ask(MetadataRequest(topics=topics("new")), 12)
        assert response.topics[0].error_code == 0
        assert len(response.topics[0].partitions) == 3

    tell(story, num_partitions="3")


@pytest.mark.parametrize(("allowed", "enabled"), [(False, "true"), (True, "false")])
def test_a_topic_is_not_created_where_request_or_broker_say_no(allowed: bool, enabled: str) -> None:
    async def story(node: Story) -> None:
        request = MetadataRequest(topics=topics("new"), allow_auto_topic_creation=allowed)
        response: MetadataResponse = await node.ask(request, 12)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not node.broker.image.topics.by_name

    tell(story, auto_create_topics_enable=enabled)


def test_a_name_that_no_topic_can_have_is_told() -> None:
    async def story(node: Story) -> None:
        response: MetadataResponse = await node.ask(
            MetadataRequest(topics=topics("no good!", "fine")), 12
        )
        assert [topic.error_code for topic in response.topics] == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            0,
        ]

    tell(story)


def test_topics_are_asked_for_by_id() -> None:
    async def story(node: HandlerNode) -> None:
        topic_id = await node.create_topic("a")
        wanted = [
            MetadataRequestTopic(name=None, topic_id=topic_id),
            MetadataRequestTopic(name=None, topic_id=UUID(int=9_999)),
        ]
        response: MetadataResponse = await node.ask(MetadataRequest(topics=wanted), 12)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a", 0),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]

    tell_handlers(story)


def test_authorized_operations_are_told_only_to_those_who_ask() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        quiet: MetadataResponse = await node.ask(MetadataRequest(topics=topics("a")), 8)
        assert quiet.topics[0].topic_authorized_operations == -(2**31)
        asked = MetadataRequest(
            topics=topics("a"),
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        told: MetadataResponse = await node.ask(asked, 8)
        assert told.topics[0].topic_authorized_operations == 0b110111111000
        assert told.cluster_authorized_operations > 0

    tell_handlers(story)


def test_the_cluster_is_described() -> None:
    async def story(node: HandlerNode) -> None:
        for version in range(3):
            response: DescribeClusterResponse = await node.ask(DescribeClusterRequest(), version)
            assert (
                response.error_code,
                response.controller_id,
                [broker.broker_id for broker in response.brokers],
            ) == (0, 1, [1])
        for endpoint_type, code in (
            (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ):
            response = await node.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
            assert response.error_code == code

    tell_handlers(story)


def test_topics_are_described_in_pages() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", 3)
        await node.create_topic("b", 3)
        pages = []
        cursor: RequestCursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
            response: DescribeTopicPartitionsResponse = await node.ask(request, 0)
            pages.append(
                [
                    (topic.name, one.partition_index)
                    for topic in response.topics
                    for one in topic.partitions
                ]
            )
            if response.next_cursor is None:
                break
            cursor = RequestCursor(
                topic_name=response.next_cursor.topic_name,
                partition_index=response.next_cursor.partition_index,
            )
        assert pages == [[("a", 0), ("a", 1)], [("a", 2), ("b", 0)], [("b", 1), ("b", 2)]]

    tell_handlers(story)


def test_a_named_topic_that_is_not_there_is_told_and_not_created() -> None:
    async def story(node: HandlerNode) -> None:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="nowhere")])
        response: DescribeTopicPartitionsResponse = await node.ask(request, 0)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ]
        assert not node.image.topics.by_name

    tell_handlers(story)


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_group_is_found_and_its_topic_created(version: int) -> None:
    async def story(node: Story) -> None:
        request = (
            FindCoordinatorRequest(coordinator_keys=["g", "h"])
            if version >= 4
            else FindCoordinatorRequest(key="g")
        )
        response: FindCoordinatorResponse = await node.ask(request, version)
        found = response.coordinators if version >= 4 else [response]
        assert [(one.error_code, one.node_id, one.host, one.port) for one in found] == [
            (0, 1, HOST, PORT)
        ] * len(found)
        assert len(found) == (2 if version >= 4 else 1)
        offsets = node.broker.image.topics.by_name["__consumer_offsets"]
        assert len(offsets.partitions) == 2
        assert node.broker.image.configs.of(2, "__consumer_offsets")["cleanup.policy"] == "compact"

    tell(story)


@pytest.mark.parametrize(
    ("key_type", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (9, ErrorCode.INVALID_REQUEST)],
    ids=["share group", "unknown"],
)
def test_other_coordinators_are_refused_for_good(key_type: int, code: ErrorCode) -> None:
    async def story(node: HandlerNode) -> None:
        one: FindCoordinatorResponse = await node.ask(
            FindCoordinatorRequest(key="tx", key_type=key_type), 2
        )
        assert one.error_code == code
        assert one.error_message
        many: FindCoordinatorResponse = await node.ask(
            FindCoordinatorRequest(coordinator_keys=["tx"], key_type=key_type), 6
        )
        assert many.coordinators[0].error_code == code
        assert "__consumer_offsets" not in node.image.topics.by_name

    tell_handlers(story)


def test_producer_ids_are_given_once() -> None:
    async def story(node: Story) -> None:
        given = []
        for version in (0, 2, 5):
            response: InitProducerIdResponse = await node.ask(
                InitProducerIdRequest(transactional_id=None), version
            )
            assert (response.error_code, response.producer_epoch) == (0, 0)
            given.append(response.producer_id)
        assert len(set(given)) == 3

    tell(story)


def test_many_producers_at_once_share_blocks_of_ids() -> None:
    async def story(node: Story) -> None:
        for _ in range(1_500):
            await node.client.send(InitProducerIdRequest(transactional_id=None), 4)
        given = {(await node.client.receive()).producer_id for _ in range(1_500)}
        assert len(given) == 1_500

    tell(story)


def test_the_coordinator_of_a_transactional_id_is_found_and_gives_it_an_epoch() -> None:
    async def story(node: Story) -> None:
        response: FindCoordinatorResponse = await node.ask(
            FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1), 6
        )
        assert [(one.error_code, one.node_id) for one in response.coordinators] == [(0, 1)]
        assert len(node.broker.image.topics.by_name["__transaction_state"].partitions) == 50
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        epochs: list[tuple[int, int]] = []
        while len(epochs) < 2:
            told: InitProducerIdResponse = await node.ask(request, 5)
            if told.error_code in {
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            }:
                await trio.sleep(0.05)
                continue
            assert told.error_code == 0
            epochs.append((told.producer_id, told.producer_epoch))
        assert epochs == [(epochs[0][0], 0), (epochs[0][0], 1)]

    tell(story)
