"""An authorizer and quotas plug into the pipeline.

Each API shows an authorizer's refusal. A quota's throttle time is told, and mutes the connection.
"""

from typing import Any

import pytest
import trio

from log_service.broker.registry import REGISTRY
from log_service.broker.requests.call import Side
from log_service.broker.requests.pipeline import Pipeline
from log_service.common.access import ANONYMOUS
from log_service.common.errors import ProtocolError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages import alter_replica_log_dirs, describe_producers, elect_leaders
from log_service.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from log_service.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from log_service.protocol.messages.delete_groups import DeleteGroupsRequest
from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.describe_groups import DescribeGroupsRequest
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from log_service.protocol.messages.metadata import MetadataRequest
from log_service.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from log_service.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from log_service.protocol.schema import Message
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.unit.broker.context import (
    HOST,
    PORT,
    Story,
    batch,
    fetch_request,
    produce_request,
    tell,
    values_of,
)
from tests.unit.broker.requests.gates import CODE, Denial, Throttle
from tests.unit.broker.requests.least_requests import VERSIONS, least_request

CONTROLLER_PORT = 9093


def pipeline_of(node: Story, listener: int = 0) -> Pipeline:
    found = node.broker.servers[listener].handler
    assert isinstance(found, Pipeline)
    return found


def codes(told: Any) -> set[int]:
    """Every error code in a response, however deep."""
    if isinstance(told, list):
        return set().union(*map(codes, told))
    if not hasattr(told, "SCHEMA"):
        return set()
    own = {told.error_code} if hasattr(told, "error_code") else set()
    return own.union(*(codes(getattr(told, field.name)) for field in told.SCHEMA.fields))


@pytest.mark.parametrize(
    ("key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS]
)
def test_every_version_of_every_api_can_tell_a_refusal(key: ApiKey, version: int) -> None:
    async def story(node: HandlerNode) -> None:
        denial = node.pipeline.authorizer = Denial()
        response = await node.ask(least_request(key), version)
        assert codes(response) <= {0, CODE}
        assert [call.route.api.key for call in denial.calls] == [key]
        assert denial.calls[0].connection.principal is ANONYMOUS

    tell_handlers(story)


AT_TOP = [
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_DELETE,
    ApiKey.LIST_GROUPS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.TIDELOG_MAINTENANCE,
    ApiKey.TIDELOG_SHARE_RECORDS,
]


@pytest.mark.parametrize("key", AT_TOP, ids=lambda key: key.name)
def test_an_api_with_one_error_tells_it_at_the_top(key: ApiKey) -> None:
    async def story(node: HandlerNode) -> None:
        node.pipeline.authorizer = Denial()
        response = await node.ask(least_request(key), REGISTRY[key].spec.max_version)
        assert response.error_code == CODE

    tell_handlers(story)


ITEMS: list[Message] = [
    produce_request("a", batch(b"x")),
    fetch_request("a", 0),
    ListOffsetsRequest(
        topics=[ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=2)])]
    ),
    OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="a", partitions=[OffsetForLeaderPartition(partition=2)])]
    ),
    DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name="a", partitions=[DeleteRecordsPartition(partition_index=2)])
        ]
    ),
    describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name="a", partition_indexes=[2])]
    ),
    OffsetCommitRequest(
        topics=[
            OffsetCommitRequestTopic(
                name="a", partitions=[OffsetCommitRequestPartition(partition_index=2)]
            )
        ]
    ),
    DescribeGroupsRequest(groups=["g"]),
    DeleteGroupsRequest(groups_names=["g"]),
    CreateTopicsRequest(topics=[CreatableTopic(name="a")]),
    elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic="a", partitions=[2])]
    ),
    CreateAclsRequest(creations=[AclCreation()]),
    DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(resource_name_filter=None, principal_filter=None, host_filter=None)
        ]
    ),
    alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            alter_replica_log_dirs.AlterReplicaLogDir(
                path="/x",
                topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name="a", partitions=[2])],
            )
        ]
    ),
]
BY_NAME = {"ProduceRequest": 12, "FetchRequest": 12, "OffsetCommitRequest": 9}
"""The last versions that name topics."""


@pytest.mark.parametrize("request_", ITEMS, ids=lambda request: type(request).__name__)
def test_an_api_that_answers_items_tells_the_error_with_each(request_: Any) -> None:
    async def story(node: HandlerNode) -> None:
        node.pipeline.authorizer = Denial()
        key = request_.SCHEMA.key
        version = BY_NAME.get(type(request_).__name__, REGISTRY[key].spec.max_version)
        response = await node.ask(request_, version)
        assert CODE in codes(response)
        assert names(request_) & names(response) == names(request_) & {"a", "g", 2}

    tell_handlers(story)


def names(message: Any) -> set[Any]:
    """Every value of a message that is a name in the requests above."""
    if isinstance(message, list):
        return set().union(*map(names, message))
    if not hasattr(message, "SCHEMA"):
        return (
            {message} if message in ("a", "g") or (message == 2 and type(message) is int) else set()
        )
    return set().union(*(names(getattr(message, field.name)) for field in message.SCHEMA.fields))


def test_nothing_of_a_refused_request_is_done() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a")
        assert (await node.produce("a", batch(b"one"))).error_code == 0
        node.pipeline.authorizer = Denial()
        for _ in range(3):
            assert (await node.produce("a", batch(b"two"))).error_code == CODE
        node.pipeline.authorizer = None
        assert values_of((await node.fetch("a", 0)).records) == [b"one"]

    tell_handlers(story)


def test_a_refused_produce_that_has_no_response_costs_its_connection() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        pipeline_of(node).authorizer = Denial()
        await node.client.send(produce_request("a", batch(b"x"), acks=0), 9)
        assert await node.client.is_closed()

    tell(story)


def test_the_listener_of_the_controller_has_the_same_steps() -> None:
    async def story(node: Story) -> None:
        denial = pipeline_of(node, 1).authorizer = Denial()
        client = await node.connect(CONTROLLER_PORT)
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]
        )
        assert (await client.ask(request, 7)).topics[0].error_code == CODE
        assert [call.route.side for call in denial.calls] == [Side.CONTROLLER]
        assert (await node.ask(MetadataRequest(topics=[]), 12)).error_code == 0
        client.close()

    listeners = f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:{CONTROLLER_PORT}"
    kinds = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    tell(
        story,
        listeners=listeners,
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map=kinds,
    )


@pytest.mark.parametrize(
    ("key", "version"), VERSIONS, ids=[f"{key.name}-{version}" for key, version in VERSIONS]
)
def test_every_version_of_every_api_can_be_throttled(key: ApiKey, version: int) -> None:
    async def story(node: Story) -> None:
        throttle = pipeline_of(node).quotas = Throttle(3)
        response = await node.ask(least_request(key), version)
        assert getattr(response, "throttle_time_ms", 0) in (0, 3)
        assert [charged for charged, _, _ in throttle.charged] == [key]

    tell(story)


@pytest.mark.parametrize("key", sorted({key for key, _ in VERSIONS}), ids=lambda key: key.name)
def test_a_refused_request_of_every_api_is_charged_and_throttled(key: ApiKey) -> None:
    """Refused requests were free: who had no right at all could keep a node busy below any quota."""

    async def story(node: HandlerNode) -> None:
        node.pipeline.authorizer = Denial()
        throttle = node.pipeline.quotas = Throttle(3)
        response = await node.ask(least_request(key), REGISTRY[key].spec.max_version)
        assert getattr(response, "throttle_time_ms", 3) == 3
        assert [charged for charged, _, _ in throttle.charged] == [key]

    tell_handlers(story)


def test_a_request_whose_failure_closes_its_connection_is_charged() -> None:
    async def story(node: HandlerNode) -> None:
        throttle = node.pipeline.quotas = Throttle(3)
        with pytest.raises(ProtocolError):
            await node.ask(produce_request("unknown", batch(b"v"), acks=0), 9)
        assert [(key, response) for key, _, response in throttle.charged] == [
            (ApiKey.PRODUCE, None)
        ]

    tell_handlers(story)


def test_a_throttled_request_is_answered_at_once_and_the_next_one_later() -> None:
    """A throttled request gets its response at once (KIP-219).

    The response says for how long the broker reads nothing more from this connection. Other
    connections go on.
    """

    async def story(node: Story) -> None:
        other = await node.connect()
        throttle = pipeline_of(node).quotas = Throttle(500)
        began = trio.current_time()
        for _ in range(3):
            await node.client.send(MetadataRequest(topics=[]), 12)
        assert (await node.client.receive()).throttle_time_ms == 500
        assert trio.current_time() - began < 0.1
        pipeline_of(node).quotas = None
        assert (await other.ask(MetadataRequest(topics=[]), 12)).throttle_time_ms == 0
        assert trio.current_time() - began < 0.2
        assert (await node.client.receive()).throttle_time_ms == 0
        assert 0.5 <= trio.current_time() - began < 0.6
        assert (await node.client.receive()).throttle_time_ms == 0
        assert trio.current_time() - began < 0.7
        assert throttle.charged[0][1] > 10
        other.close()

    tell(story)


@pytest.mark.parametrize("acks", [0, -1])
def test_a_produce_pauses_its_connection_with_and_without_a_response(acks: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        for _ in range(3):
            await node.produce("a", batch(b"x"))
        throttle = pipeline_of(node).quotas = Throttle(500)
        began = trio.current_time()
        await node.client.send(produce_request("a", batch(b"x"), acks=acks), 9)
        if acks:
            assert (await node.client.receive()).throttle_time_ms == 500
        else:
            node.client._sent.pop()
            await trio.sleep(0.01)
        pipeline_of(node).quotas = None if acks else throttle
        throttle.pause_ms = 0
        await node.client.ask(MetadataRequest(topics=[]), 12)
        assert trio.current_time() - began >= 0.5
        assert throttle.charged[0][0] is ApiKey.PRODUCE

    tell(story)


def test_a_promised_response_is_charged_when_it_is_made() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        throttle = pipeline_of(node).quotas = Throttle(500)
        other = await node.connect()
        await node.client.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(1)
        assert not throttle.charged
        assert (await other.ask(produce_request("a", batch(b"x")), 9)).throttle_time_ms == 500
        told = trio.current_time()
        assert (await node.client.receive()).throttle_time_ms == 500
        assert (await node.client.ask(MetadataRequest(topics=[]), 12)).throttle_time_ms == 500
        assert trio.current_time() - told >= 0.5
        other.close()

    tell(story)


def test_a_request_whose_client_does_not_wait_for_the_response_is_charged_too() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        throttle = pipeline_of(node).quotas = Throttle(500)
        await node.client.send(fetch_request("a", 0, max_wait_ms=60_000), 12)
        await trio.sleep(1)
        node.client.close()
        await trio.sleep(1)
        assert [(key, response) for key, _, response in throttle.charged] == [(ApiKey.FETCH, None)]
        await trio.sleep(60)
        assert len(throttle.charged) == 1

    tell(story)


def test_a_muted_connection_can_be_stopped_and_closed() -> None:
    async def story(node: Story) -> None:
        pipeline_of(node).quotas = Throttle(3_600_000)
        clients = [await node.connect() for _ in range(2)]
        for client in clients:
            assert (await client.ask(MetadataRequest(topics=[]), 12)).throttle_time_ms == 3_600_000
        clients[0].close()
        began = trio.current_time()
        await node.broker.stop()
        assert trio.current_time() - began < 4

    tell(story)
