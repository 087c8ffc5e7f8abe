"""A request finds the active controller in its own process, at another node, and after an election."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import trio
import trio.lowlevel

from log_service.broker.broker import Broker
from log_service.broker.lifecycle import BrokerLifecycle
from log_service.broker.one_error import one_error
from log_service.broker.producer_ids import ProducerIds
from log_service.broker.requests.call import Call, Side
from log_service.broker.requests.pipeline import Pipeline
from log_service.common.access import Principal
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.controller import channel
from log_service.controller.caller import Caller
from log_service.controller.channel import FORWARDING, NodeToControllerChannel, raise_refusal
from log_service.controller.envelope import envelope_of
from log_service.metadata.image import Endpoint
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.frames import SIZE_BYTES, encode_response
from log_service.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from log_service.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from log_service.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from log_service.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from log_service.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from log_service.protocol.messages.envelope import EnvelopeResponse
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from log_service.rpc.connection import Destination, RpcSettings
from tests.helpers.pool import open_pool
from tests.sim import World, sim_run
from tests.unit.broker.context import configuration
from tests.unit.controller.context import new_topic

NAMES = ("one", "two")
CONTROLLER_PORT = 9093


def controller_of(name: str) -> Destination:
    return Destination(host=name, port=CONTROLLER_PORT)


@asynccontextmanager
async def two_nodes(world: World) -> AsyncIterator[dict[str, Broker]]:
    """Two nodes, each a quorum of its own, whose controllers have listeners."""
    nodes = {}
    async with trio.open_nursery() as nursery:
        for name in NAMES:
            properties = {
                "listeners": f"PLAINTEXT://{name}:9092,CONTROLLER://{name}:{CONTROLLER_PORT}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(Path("/data") / name),
            }
            config, texts = configuration(properties)
            nodes[name] = Broker(world.node_env(name), config, static_texts=texts)
            await nursery.start(nodes[name].run)
        yield nodes
        for node in nodes.values():
            await node.stop()


@asynccontextmanager
async def channel_of(
    world: World, local: Broker, find: Callable[[], Destination | None]
) -> AsyncIterator[NodeToControllerChannel]:
    env = world.client_env("channel")
    async with open_pool(env, RpcSettings(client_id="broker-2")) as pool:
        yield NodeToControllerChannel(
            local=local.rooms.controller, find=find, pool=lambda: pool, rng=env.rng
        )


async def create(
    channel: NodeToControllerChannel,
    name: str,
    timeout_ms: int = 5_000,
    caller: Caller | None = None,
) -> ErrorCode:
    request = CreateTopicsRequest(topics=[new_topic(name, 1, 1)], timeout_ms=timeout_ms)
    response = await channel.request(request, CreateTopicsResponse, caller)
    return ErrorCode(response.topics[0].error_code)


def tell(story: Callable[[World, dict[str, Broker]], object]) -> None:
    async def main(world: World) -> None:
        async with two_nodes(world) as nodes:
            await story(world, nodes)  # type: ignore[misc]

    with one_error():
        sim_run(1, main)


def test_the_controller_of_this_process_is_asked_without_a_connection() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        async with channel_of(world, nodes["two"], lambda: None) as channel:
            assert await create(channel, "orders") is ErrorCode.NONE
            assert channel.pool().opened_total == 0
        assert "orders" in nodes["two"].image.topics.by_name

    tell(story)


def test_a_request_goes_to_the_node_that_leads() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        async with channel_of(world, nodes["two"], lambda: controller_of("one")) as channel:
            assert await create(channel, "orders") is ErrorCode.NONE
            assert await create(channel, "orders") is ErrorCode.TOPIC_ALREADY_EXISTS
        assert "orders" in nodes["one"].image.topics.by_name
        assert "orders" not in nodes["two"].image.topics.by_name

    tell(story)


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_a_request_without_time_is_refused_wherever_the_controller_is(timeout_ms: int) -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        async with (
            channel_of(world, nodes["two"], lambda: controller_of("one")) as elsewhere,
            channel_of(world, nodes["one"], lambda: None) as here,
        ):
            for channel in (elsewhere, here):
                with pytest.raises(
                    KafkaError, match="leaves no time; nothing was changed"
                ) as caught:
                    await create(channel, "orders", timeout_ms)
                assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT

    tell(story)


def test_a_node_that_leads_no_more_says_so_and_the_leader_is_looked_for_again() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        found = ((0.5, None), (1.0, controller_of("nowhere")), (1.5, controller_of("two")))

        def find() -> Destination | None:
            return next(
                (
                    endpoint
                    for until_s, endpoint in found
                    if trio.current_time() - started_s < until_s
                ),
                controller_of("one"),
            )

        started_s = trio.current_time()
        async with channel_of(world, nodes["two"], find) as channel:
            assert await create(channel, "orders") is ErrorCode.NONE
        assert trio.current_time() - started_s >= 1.5
        assert "orders" in nodes["one"].image.topics.by_name

    tell(story)


def test_a_request_that_this_node_decided_when_its_epoch_ended_goes_to_the_next_leader() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        async with (
            channel_of(world, nodes["two"], lambda: controller_of("one")) as channel,
            trio.open_nursery() as nursery,
        ):
            codes: list[ErrorCode] = []

            async def ask() -> None:
                codes.append(await create(channel, "orders"))

            nursery.start_soon(ask)
            for _ in range(2):
                await trio.lowlevel.checkpoint()
            assert channel.local.is_active
            channel.local.resign()
        assert codes == [ErrorCode.NONE]
        assert "orders" in nodes["one"].image.topics.by_name

    tell(story)


def test_a_node_that_comes_to_lead_while_it_asks_how_the_quorum_is_says_so_itself() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        caller = Caller(
            principal=Principal("User", "ann"),
            host="10.0.0.1",
            client_id="c",
            correlation_id=1,
            version=2,
        )
        async with channel_of(world, nodes["two"], lambda: None) as channel:
            response = await channel.request(
                DescribeQuorumRequest(), DescribeQuorumResponse, caller
            )
        (partition,) = response.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (0, 1)
        assert [voter.replica_id for voter in partition.current_voters] == [partition.leader_id]

    tell(story)


def test_while_no_node_leads_a_request_ends_with_its_time() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        async with channel_of(world, nodes["two"], lambda: None) as channel:
            started_s = trio.current_time()
            with pytest.raises(KafkaError) as raised:
                await create(channel, "orders", timeout_ms=2_000)
            assert raised.value.code is ErrorCode.NOT_CONTROLLER
            assert trio.current_time() - started_s == pytest.approx(2)

    tell(story)


def test_a_response_that_is_lost_costs_the_request_unless_it_may_be_repeated() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        async with (
            channel_of(world, nodes["two"], lambda: controller_of("one")) as channel,
            trio.open_nursery() as nursery,
        ):
            assert await create(channel, "warm") is ErrorCode.NONE

            async def close_soon() -> None:
                await trio.lowlevel.checkpoint()
                channel.pool().channel(replace(controller_of("one"), purpose=FORWARDING)).close()

            nursery.start_soon(close_soon)
            with pytest.raises(KafkaError) as raised:
                await create(channel, "orders")
            assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
            assert await create(channel, "again", caller=Caller(version=7)) is ErrorCode.NONE
            nursery.start_soon(close_soon)
            with pytest.raises(KafkaError, match="may have done so") as raised:
                await create(channel, "payments", caller=Caller(version=7))
            assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT, (
                "a client's own connection is well"
            )
            nursery.start_soon(close_soon)
            listed = await channel.request(
                ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse
            )
            assert listed.topics == []

    tell(story)


def test_a_controller_that_does_not_lead_forwards_nothing() -> None:
    """The controller's listener speaks for its own node.

    A broker behind it looks for the leader by itself.
    """

    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        env = world.client_env("channel")
        async with open_pool(env, RpcSettings(client_id="broker-2")) as pool:
            request = CreateTopicsRequest(topics=[new_topic("orders", 1, 1)])
            response = await pool.request(controller_of("two"), request, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER

    tell(story)


# What nodes say to the controller


def test_a_broker_joins_the_cluster_of_another_nodes_controller() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        async with channel_of(world, nodes["two"], lambda: controller_of("one")) as channel:
            one = nodes["one"]
            config = replace(nodes["two"]._config, node_id=2, rack="south")
            lifecycle = BrokerLifecycle(config, channel, lambda: one.image)
            endpoints = {"PLAINTEXT": Endpoint(host="two", port=9092)}
            cluster_id = "cluster-of-the-story-00"
            await lifecycle.register(
                cluster_id=cluster_id,
                incarnation_id=UUID(int=2),
                endpoints=endpoints,
                log_dirs=(UUID(int=200),),
            )
            await lifecycle.unfence()
            broker = one.image.cluster.brokers[NodeId(2)]
            assert (broker.epoch, broker.is_fenced, broker.rack, broker.endpoints) == (
                lifecycle.broker_epoch,
                False,
                "south",
                endpoints,
            )
            ids = ProducerIds(channel, NodeId(2), lambda: lifecycle.broker_epoch)
            assert await ids.next() == 0
            await lifecycle.leave()
            assert one.image.cluster.brokers[NodeId(2)].is_fenced
            with pytest.raises(KafkaError) as raised:
                await channel.request(
                    AlterPartitionRequest(broker_id=2, broker_epoch=0), AlterPartitionResponse
                )
            assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
            other = lifecycle.register(
                cluster_id="other", incarnation_id=UUID(int=3), endpoints=endpoints, log_dirs=()
            )
            with pytest.raises(KafkaError) as raised:
                await other
            assert raised.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID

    tell(story)


# What clients ask: passed on in an envelope

CLIENT = Caller(
    version=5,
    correlation_id=9,
    client_id="app",
    principal=Principal("User", "ann"),
    host="10.0.0.7",
)


class Watch:
    """An authorizer that notes who asks what, and refuses what a test wants refused."""

    def __init__(self, refused: ApiKey | None = None) -> None:
        self.asked: list[tuple[ApiKey, int, str | None, Principal, str]] = []
        self._refused = refused

    def authorize(self, call: Call) -> None:
        key = call.route.api.key
        self.asked.append(
            (
                key,
                call.version,
                call.client_id,
                call.connection.principal,
                call.connection.peer_host,
            )
        )
        if key is self._refused:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed")


def controller_pipeline(broker: Broker) -> Pipeline:
    pipelines = [server.handler for server in broker.servers]
    return next(
        each for each in pipelines if isinstance(each, Pipeline) and each.side is Side.CONTROLLER
    )


def test_a_clients_request_is_decided_elsewhere_as_the_clients_own() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        watch = controller_pipeline(nodes["one"]).authorizer = Watch()
        async with channel_of(world, nodes["two"], lambda: controller_of("one")) as channel:
            request = CreateTopicsRequest(topics=[new_topic("orders", 1, 1)], timeout_ms=5_000)
            response = await channel.request(request, CreateTopicsResponse, CLIENT)
            assert [topic.error_code for topic in response.topics] == [0]
            again = await channel.request(request, CreateTopicsResponse, CLIENT)
            assert [topic.error_code for topic in again.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS]
            assert channel.spoken_versions() is not None
        assert watch.asked[-2][0] is ApiKey.ENVELOPE
        assert watch.asked[-1] == (
            ApiKey.CREATE_TOPICS,
            5,
            "app",
            Principal("User", "ann"),
            "10.0.0.7",
        )

    tell(story)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (ApiKey.ENVELOPE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ApiKey.CREATE_TOPICS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_a_client_is_refused_by_its_own_permissions_and_a_broker_by_its_own(
    refused: ApiKey, code: ErrorCode
) -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        controller_pipeline(nodes["one"]).authorizer = Watch(refused)
        async with channel_of(world, nodes["two"], lambda: controller_of("one")) as channel:
            request = CreateTopicsRequest(topics=[new_topic("orders", 1, 1)], timeout_ms=5_000)
            try:
                told = ErrorCode(
                    (await channel.request(request, CreateTopicsResponse, CLIENT))
                    .topics[0]
                    .error_code
                )
            except KafkaError as error:
                told = error.code
        assert told is code
        assert "orders" not in nodes["one"].image.topics.by_name

    tell(story)


def header_of(key: int, version: int = 5) -> bytes:
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff\0"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"request_data": header_of(ApiKey.METADATA)}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b""}, ErrorCode.INVALID_REQUEST),
        ({"client_host_address": b"12345"}, ErrorCode.INVALID_REQUEST),
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_data": header_of(ApiKey.CREATE_TOPICS, 99)}, ErrorCode.UNSUPPORTED_VERSION),
        (
            {"request_data": header_of(ApiKey.CREATE_TOPICS) + b"\xff\xff"},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            {"request_data": header_of(ApiKey.CREATE_DELEGATION_TOKEN)},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
    ids=str,
)
def test_an_envelope_that_makes_no_sense_is_refused_and_the_node_goes_on(
    fault: dict[str, Any], code: ErrorCode
) -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        good = envelope_of(CreateTopicsRequest(topics=[new_topic("orders", 1, 1)]), CLIENT)
        async with open_pool(
            world.client_env("channel"), RpcSettings(client_id="broker-2")
        ) as pool:
            for _ in range(2):
                response = await pool.request(
                    controller_of("one"), replace(good, **fault), EnvelopeResponse
                )
                assert (response.error_code, response.response_data) == (code, None)
            assert (
                await pool.request(controller_of("one"), good, EnvelopeResponse)
            ).error_code == 0
        assert "orders" in nodes["one"].image.topics.by_name

    tell(story)


def test_a_refusal_that_is_left_inside_an_envelope_has_the_leader_looked_for_again() -> None:
    """A client that gets it asks its broker again for ever."""

    class Connection:
        async def request(self, *_message: object, **_options: object) -> EnvelopeResponse:
            inner = CreateTopicsResponse(
                topics=[CreatableTopicResult(name="orders", error_code=ErrorCode.NOT_CONTROLLER)]
            )
            frame = encode_response(
                ApiKey.CREATE_TOPICS, CLIENT.version, CLIENT.correlation_id, inner
            )
            return EnvelopeResponse(response_data=b"".join(map(bytes, frame))[SIZE_BYTES:])  # type: ignore[arg-type]

    async def main() -> None:
        connection: Any = Connection()
        with pytest.raises(KafkaError) as raised:
            await channel.forward_request(
                connection, CreateTopicsRequest(), CreateTopicsResponse, 1_000, CLIENT
            )
        assert raised.value.code is ErrorCode.NOT_CONTROLLER

    trio.run(main)


def test_an_envelope_finds_no_active_controller() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        envelope = envelope_of(CreateTopicsRequest(topics=[new_topic("orders", 1, 1)]), CLIENT)
        async with open_pool(
            world.client_env("channel"), RpcSettings(client_id="broker-2")
        ) as pool:
            response = await pool.request(controller_of("two"), envelope, EnvelopeResponse)
        assert response == EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)

    tell(story)


def test_a_request_does_not_wait_for_a_node_that_leads_no_more() -> None:
    """A node that hangs keeps its connections: only the quorum says that another one leads."""

    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        leader = "silent"
        listener = await world.node_env("silent").network.listen("silent", CONTROLLER_PORT)
        async with (
            channel_of(world, nodes["two"], lambda: controller_of(leader)) as channel,
            trio.open_nursery() as nursery,
        ):
            told: list[Any] = []

            async def ask() -> None:
                told.append(
                    await channel.request(
                        ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse
                    )
                )

            nursery.start_soon(ask)
            await trio.sleep(1)
            assert not told
            leader = "one"
            await trio.sleep(1)
            assert told[0].topics == []
        listener.close()

    tell(story)


SAID_BY_NODES = (
    (AlterPartitionRequest(), AlterPartitionResponse),
    (BrokerRegistrationRequest(), BrokerRegistrationResponse),
    (BrokerHeartbeatRequest(), BrokerHeartbeatResponse),
    (AllocateProducerIdsRequest(), AllocateProducerIdsResponse),
    (ControllerRegistrationRequest(), ControllerRegistrationResponse),
    (AssignReplicasToDirsRequest(), AssignReplicasToDirsResponse),
)


@pytest.mark.parametrize(
    ("request_", "response_type"), SAID_BY_NODES, ids=lambda value: type(value).__name__
)
def test_a_controller_that_does_not_lead_says_so_where_nodes_look_for_it(
    request_: Any, response_type: Any
) -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        async with open_pool(
            world.client_env("channel"), RpcSettings(client_id="broker-2")
        ) as pool:
            response = await pool.request(controller_of("two"), request_, response_type)
        assert response.error_code == ErrorCode.NOT_CONTROLLER

    tell(story)


def test_refusals_are_found_at_the_top_and_deep_in_a_response() -> None:
    raise_refusal(
        CreateTopicsResponse(
            topics=[CreatableTopicResult(error_code=ErrorCode.TOPIC_ALREADY_EXISTS)]
        )
    )
    for response, code in (
        (
            BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
            ErrorCode.STALE_BROKER_EPOCH,
        ),
        (
            CreateTopicsResponse(
                topics=[CreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)]
            ),
            ErrorCode.NOT_CONTROLLER,
        ),
    ):
        with pytest.raises(KafkaError) as raised:
            raise_refusal(response)
        assert raised.value.code is code
