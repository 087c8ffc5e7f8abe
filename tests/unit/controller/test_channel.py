"""A request finds the active controller: in its own process, at another node, and after the leader has changed."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
import trio
import trio.lowlevel

from log_service.broker.broker import Broker
from log_service.broker.call import Call, Deferred
from log_service.broker.lifecycle import BrokerLifecycle
from log_service.broker.node import Node
from log_service.broker.one_error import one_error
from log_service.broker.producer_ids import ProducerIds
from log_service.broker.registry import REGISTRY
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.controller.channel import ActiveController, raise_refusal
from log_service.metadata.image import Endpoint as MetadataEndpoint
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from log_service.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from log_service.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from log_service.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from log_service.protocol.schema import Message
from log_service.rpc.connection import Endpoint, RpcSettings
from log_service.rpc.pool import open_pool
from tests.sim import World, sim_run
from tests.unit.broker.context import configuration
from tests.unit.controller.context import new_topic

NAMES = ("one", "two")
CONTROLLER_PORT = 9093


def controller_of(name: str) -> Endpoint:
    return Endpoint(host=name, port=CONTROLLER_PORT)


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
async def channel_of(world: World, local: Broker, find: Callable[[], Endpoint | None]) -> AsyncIterator[ActiveController]:
    env = world.client_env("channel")
    async with open_pool(env, RpcSettings(client_id="broker-2")) as pool:
        yield ActiveController(local=local.rooms.controller, find=find, pool=lambda: pool, rng=env.rng)


async def create(channel: ActiveController, name: str, timeout_ms: int = 5_000) -> ErrorCode:
    request = CreateTopicsRequest(topics=[new_topic(name, 1, 1)], timeout_ms=timeout_ms)
    response = await channel.request(request, CreateTopicsResponse)
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


def test_a_node_that_leads_no_more_says_so_and_the_leader_is_looked_for_again() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        found = iter((None, controller_of("nowhere"), controller_of("two"), controller_of("two")))
        asked: list[Endpoint | None] = []

        def find() -> Endpoint | None:
            asked.append(next(found, controller_of("one")))
            return asked[-1]

        async with channel_of(world, nodes["two"], find) as channel:
            assert await create(channel, "orders") is ErrorCode.NONE
        assert asked == [None, controller_of("nowhere"), controller_of("two"), controller_of("two"), controller_of("one")]

    tell(story)


def test_a_request_that_this_node_decided_when_its_epoch_ended_goes_to_the_next_leader() -> None:
    async def story(world: World, nodes: dict[str, Broker]) -> None:
        async with channel_of(world, nodes["two"], lambda: controller_of("one")) as channel, trio.open_nursery() as nursery:
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
        async with channel_of(world, nodes["two"], lambda: controller_of("one")) as channel, trio.open_nursery() as nursery:
            assert await create(channel, "warm") is ErrorCode.NONE

            async def close_soon() -> None:
                await trio.lowlevel.checkpoint()
                channel.pool().channel(controller_of("one")).close()

            nursery.start_soon(close_soon)
            with pytest.raises(KafkaError) as raised:
                await create(channel, "orders")
            assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
            nursery.start_soon(close_soon)
            listed = await channel.request(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
            assert listed.topics == []

    tell(story)


def test_a_controller_that_does_not_lead_forwards_nothing() -> None:
    """The controller's listener speaks for its own node: a broker behind it looks for the leader by itself."""

    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        env = world.client_env("channel")
        async with open_pool(env, RpcSettings(client_id="broker-2")) as pool:
            request = CreateTopicsRequest(topics=[new_topic("orders", 1, 1)])
            response = await pool.request(controller_of("two"), request, CreateTopicsResponse)
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER

    tell(story)


# What brokers say of themselves: no listener takes it yet, so that the test adds the rows

BETWEEN_NODES = (ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.ALTER_PARTITION)


def ask_controller(node: Node, call: Call, request: Message) -> Deferred:
    return call.run(node.controller.request(request, call.route.response_type))


def test_a_broker_joins_the_cluster_of_another_nodes_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(REGISTRY[ApiKey.UNREGISTER_BROKER], handler=ask_controller)
    more = {**REGISTRY, **{key: replace(row, key=key) for key in BETWEEN_NODES}}
    monkeypatch.setattr("log_service.broker.broker.REGISTRY", more)
    monkeypatch.setattr("log_service.broker.handlers.api_versions.REGISTRY", more)

    async def story(world: World, nodes: dict[str, Broker]) -> None:
        nodes["two"].rooms.controller.resign()
        async with channel_of(world, nodes["two"], lambda: controller_of("one")) as channel:
            one = nodes["one"]
            config = replace(nodes["two"]._config, node_id=2, rack="south")
            lifecycle = BrokerLifecycle(config, channel, lambda: one.image)
            endpoints = {"PLAINTEXT": MetadataEndpoint(host="two", port=9092)}
            cluster_id = "cluster-of-the-story-00"
            await lifecycle.register(cluster_id=cluster_id, incarnation_id=UUID(int=2), endpoints=endpoints, log_dirs=(UUID(int=200),))
            await lifecycle.unfence()
            broker = one.image.cluster.brokers[NodeId(2)]
            assert (broker.epoch, broker.is_fenced, broker.rack, broker.endpoints) == (lifecycle.broker_epoch, False, "south", endpoints)
            ids = ProducerIds(channel, NodeId(2), lambda: lifecycle.broker_epoch)
            assert await ids.next() == 0
            await lifecycle.leave()
            assert one.image.cluster.brokers[NodeId(2)].is_fenced
            with pytest.raises(KafkaError) as raised:
                await channel.request(AlterPartitionRequest(broker_id=2, broker_epoch=0), AlterPartitionResponse)
            assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
            other = lifecycle.register(cluster_id="other", incarnation_id=UUID(int=3), endpoints=endpoints, log_dirs=())
            with pytest.raises(KafkaError) as raised:
                await other
            assert raised.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID

    tell(story)


def test_refusals_are_found_at_the_top_and_deep_in_a_response() -> None:
    raise_refusal(CreateTopicsResponse(topics=[CreatableTopicResult(error_code=ErrorCode.TOPIC_ALREADY_EXISTS)]))
    for response, code in (
        (BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), ErrorCode.STALE_BROKER_EPOCH),
        (CreateTopicsResponse(topics=[CreatableTopicResult(error_code=ErrorCode.NOT_CONTROLLER)]), ErrorCode.NOT_CONTROLLER),
    ):
        with pytest.raises(KafkaError) as raised:
            raise_refusal(response)
        assert raised.value.code is code
