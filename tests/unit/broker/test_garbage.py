"""A request whose response has left leaves nothing to Python's garbage collector.

A circle of references would keep each request, its bytes among them, until the next collection, and
have the collector run all the time: pauses of milliseconds, and a tenth of the CPU where requests
wait.
"""

from collections import Counter
from typing import Any

import pytest
import trio

from log_service.client import Consumer, Producer
from log_service.common.access import AclOperation
from log_service.common.errors import ErrorCode
from log_service.metadata.image import ResourceType
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.end_txn import EndTxnRequest
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.helpers.cluster import BROKER_PORT, Cluster, host_of, replicate_records, tell_cluster
from tests.helpers.garbage import counted_garbage
from tests.unit.broker.authorization.acl_story import TOPIC, AclStory, tell_with_acls
from tests.unit.broker.context import Story, batch, fetch_request, produce_request, tell
from tests.unit.broker.handlers.groups.group_requests import coordinated
from tests.unit.broker.requests.least_requests import VERSIONS, least_request

COUNT = 20
NEWEST: dict[ApiKey, int] = {
    key: version for key, version in VERSIONS if key is not ApiKey.UNREGISTER_BROKER
}
"""The node's own registration stays: without it there is nobody to ask."""


def per_request(left: Counter[str]) -> dict[str, int]:
    """Return the classes of objects that each request leaves.

    A class whose object a connection or a timer leaves once is none of these.
    """
    return {name: count for name, count in left.items() if count >= COUNT // 2}


@pytest.mark.parametrize("key", NEWEST, ids=lambda key: key.name)
def test_a_request_leaves_no_garbage(key: ApiKey) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await coordinated(node)
        await node.ask(least_request(key), NEWEST[key])
        with counted_garbage() as left:
            for _ in range(COUNT):
                await node.ask(least_request(key), NEWEST[key])
        assert per_request(left) == {}

    tell(story)


@pytest.mark.parametrize("end", ["by time", "by records", "with their connections"])
def test_fetches_that_wait_leave_no_garbage(end: str) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"zero"))
        with counted_garbage() as left:
            for number in range(COUNT):
                client = await node.connect()
                await client.send(
                    fetch_request("a", number + 1 if end == "by records" else 1, max_wait_ms=500),
                    12,
                )
                await trio.sleep(0.1)
                if end == "by records":
                    await node.produce("a", batch(b"next"))
                if end != "with their connections":
                    await client.receive()
                client.close()
                await trio.sleep(1)
        assert per_request(left) == {}

    tell(story)


def test_transactions_leave_no_garbage() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 6)
        await trio.sleep(5)
        made = await node.ask(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 5
        )
        epoch = made.producer_epoch
        with counted_garbage() as left:
            for _ in range(COUNT):
                content = batch(
                    b"one",
                    producer_id=made.producer_id,
                    producer_epoch=epoch,
                    base_sequence=0,
                    is_transactional=True,
                )
                sending = produce_request("a", content)
                sending.transactional_id = "t"
                assert (await node.ask(sending, 12)).responses[0].partition_responses[
                    0
                ].error_code == 0
                ending = EndTxnRequest(
                    transactional_id="t",
                    producer_id=made.producer_id,
                    producer_epoch=epoch,
                    committed=True,
                )
                ended = await node.ask(ending, 5)
                assert ended.error_code == 0
                epoch = ended.producer_epoch
        assert per_request(left) == {}

    tell(story)


@pytest.mark.parametrize(
    "frame",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\x0c\x7f\0\0\x01\0\0\0\x01\0\x02ab",
        b"\0\0\0\x11\0\x01\0\x0b\0\0\0\x01\0\x02ab\0\xff\xff\xff\xff",
    ],
    ids=["HTTP", "two gigabytes", "unknown API", "no body"],
)
def test_connections_that_are_refused_leave_no_garbage(frame: bytes) -> None:
    async def story(node: Story) -> None:
        with counted_garbage() as left:
            for _ in range(COUNT):
                client = await node.connect()
                await client.send_bytes(frame)
                assert await client.is_closed()
                client.close()
        assert per_request(left) == {}

    tell(story)


def test_topics_that_come_and_go_leave_no_garbage() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        with counted_garbage() as left:
            for _ in range(COUNT):
                await node.create_topic("b")
                await node.produce("b", batch(b"one"))
                deletion = DeleteTopicsRequest(
                    topics=[DeleteTopicState(name="b")], timeout_ms=5_000
                )
                response = await node.ask(deletion, 6)
                assert response.responses[0].error_code == 0
                await trio.sleep(100)
        assert per_request(left) == {}

    tell(story)


@pytest.mark.parametrize("count", [1, 50_000], ids=["few", "many"])
def test_refused_batches_of_transactions_leave_no_garbage(count: int) -> None:
    """A refused request is freed with its records, which may be many megabytes."""

    async def story(node: Story) -> None:
        await node.create_topic("a", max_message_bytes=str(8 << 20))
        await node.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 6)
        await trio.sleep(5)
        made = await node.ask(
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 5
        )
        content = batch(
            *[b"some record"] * count,
            producer_id=made.producer_id,
            producer_epoch=made.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        sending = produce_request("a", content[:-1] + b"?")
        sending.transactional_id = "t"
        with counted_garbage() as left:
            for _ in range(COUNT):
                response = await node.ask(sending, 12)
                result = response.responses[0].partition_responses[0]
                assert result.error_code == ErrorCode.CORRUPT_MESSAGE
        assert per_request(left) == {}

    tell(story)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (
            AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name="nobody", mechanism=9)]
            ),
            0,
        ),
        (
            IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=int(ResourceType.BROKER),
                        resource_name="1",
                        configs=[
                            AlterableConfig(
                                name="cordoned.log.dirs", config_operation=0, value="/nowhere"
                            )
                        ],
                    )
                ]
            ),
            1,
        ),
    ],
    ids=["user", "directory"],
)
def test_refused_changes_leave_no_garbage(request_: Any, version: int) -> None:
    async def story(node: Story) -> None:
        with counted_garbage() as left:
            for _ in range(COUNT):
                await node.ask(request_, version)
        assert per_request(left) == {}

    tell(story)


def test_connections_between_nodes_that_break_leave_no_garbage() -> None:
    async def story(cluster: Cluster) -> None:
        await replicate_records(cluster, await cluster.leader())
        with counted_garbage() as left:
            for _ in range(COUNT):
                for node_id in cluster.brokers:
                    cluster.world.network.reset_connections(host_of(node_id))
                await trio.sleep(10)
        assert per_request(left) == {}

    tell_cluster(story)


def test_changes_of_acls_leave_no_garbage() -> None:
    """Rights that no longer hold are freed with their ACLs, which may be many."""

    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await node.allow((AclOperation.READ, TOPIC, "t"), (AclOperation.WRITE, TOPIC, "t"))
        await node.ask(fetch_request("t", 0), 12)
        with counted_garbage() as left:
            for number in range(COUNT):
                await node.allow((AclOperation.READ, TOPIC, f"another-{number}"))
                await node.ask(fetch_request("t", 0), 12)
                await node.ask(produce_request("t", batch(b"x")), 9)
        assert per_request(left) == {}

    tell_with_acls(story)


def test_clients_leaders_and_followers_leave_no_garbage() -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await replicate_records(cluster, leader)
        servers, env = f"{host_of(leader)}:{BROKER_PORT}", cluster.world.client_env()
        async with (
            Producer(servers, env=env) as producer,
            Consumer(servers, env=env, group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            await consumer.subscribe(["orders"])
            await consumer.poll(timeout_ms=10_000)
            with counted_garbage() as left:
                for _ in range(COUNT):
                    receipt = await producer.send("orders", b"next")
                    await receipt.wait()
                    await consumer.poll(timeout_ms=1_000)
                    await consumer.commit()
            assert per_request(left) == {}

    tell_cluster(story)


def test_nodes_of_which_nobody_asks_anything_leave_no_garbage() -> None:
    async def story(cluster: Cluster) -> None:
        await replicate_records(cluster, await cluster.leader())
        with counted_garbage() as left:
            await trio.sleep(60)
        assert per_request(left) == {}

    tell_cluster(story)
