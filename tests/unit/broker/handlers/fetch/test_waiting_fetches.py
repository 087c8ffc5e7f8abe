"""A waiting fetch ends for several reasons and costs nothing while nothing happens.

Fetches that ask the wrong leader learn of the right one.
"""

from dataclasses import replace
from typing import Any

import pytest
import trio

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch
from log_service.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
)
from log_service.protocol.messages.produce import ProduceResponse
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

WAIT_MS = 600_000


class Steps(trio.abc.Instrument):
    """Counts how often any task of the run goes on."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def steps_of_five_minutes() -> int:
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    await trio.sleep(300)
    trio.lowlevel.remove_instrument(steps)
    return steps.count


def test_fetches_that_wait_cost_nothing_while_nothing_happens() -> None:
    """A long poll is an entry in a list and a timer in a heap: no task wakes up for it before its
    time.
    """

    async def story(node: Story) -> None:
        await node.create_topic("idle", 10)
        await trio.sleep(1)
        alone = await steps_of_five_minutes()
        for number in range(100):
            client = await node.connect()
            await client.send(
                fetch_request("idle", 0, partition=number % 10, max_wait_ms=WAIT_MS), 12
            )
        await trio.sleep(1)
        waiting = await steps_of_five_minutes()
        assert waiting - alone < 50, f"{waiting} steps with 100 fetches that wait, {alone} without"

    tell(story)


def test_records_wake_only_those_who_wait_for_their_partition() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 2)
        clients = [await node.connect() for _ in range(4)]
        for number, client in enumerate(clients):
            await client.send(fetch_request("a", 0, partition=number % 2, max_wait_ms=WAIT_MS), 12)
        await trio.sleep(1)
        await node.produce("a", batch(b"one"), partition=1)
        for number, client in enumerate(clients):
            with trio.move_on_after(1) as waited:
                response: FetchResponse = await client.receive()
                assert values_of(response.responses[0].partitions[0].records) == [b"one"]
            assert waited.cancelled_caught is (number % 2 == 0)

    tell(story)


def test_no_fetch_waits_for_more_bytes_than_may_be_sent() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        await node.produce("a", batch(b"x" * 100))
        began = trio.current_time()
        found = await node.fetch("a", 0, min_bytes=1_000_000, max_bytes=50, max_wait_ms=WAIT_MS)
        assert values_of(found.records) == [b"x" * 100]
        assert trio.current_time() - began < 1

    tell(story)


def test_a_fetch_at_the_high_watermark_goes_when_its_record_is_synced() -> None:
    """A second sync moves the high watermark the rest of the way.

    The first one moved it only part of the way, behind a record that another sync made safe.
    """

    async def story(node: Story) -> None:
        await node.create_topic("a", flush_messages="1")
        files: Any = node.broker.env.files
        files.sync_seconds = (0.050, 0.050)
        first, second, waiting = [await node.connect() for _ in range(3)]
        await first.send(produce_request("a", batch(b"one")), 9)
        await trio.sleep(0.025)
        await second.send(produce_request("a", batch(b"two")), 9)
        await first.receive()
        await waiting.send(fetch_request("a", 1, max_wait_ms=WAIT_MS), 12)
        await second.receive()
        acknowledged = trio.current_time()
        response: FetchResponse = await waiting.receive()
        assert values_of(response.responses[0].partitions[0].records) == [b"two"]
        assert trio.current_time() - acknowledged < 0.010

    tell(story)


def test_bytes_above_the_high_watermark_do_not_count_for_min_bytes() -> None:
    """A fetch goes when enough is safe, not when enough is appended."""

    async def story(node: Story) -> None:
        await node.create_topic("a", flush_messages="1")
        files: Any = node.broker.env.files
        first, second, waiting = [await node.connect() for _ in range(3)]
        await waiting.send(fetch_request("a", 0, max_wait_ms=WAIT_MS, min_bytes=400), 12)
        await trio.sleep(0.010)
        files.sync_seconds = (0.050, 0.050)
        await first.send(produce_request("a", batch(b"x" * 250)), 9)
        await trio.sleep(0.025)
        await second.send(produce_request("a", batch(b"y" * 250)), 9)
        response: FetchResponse = await waiting.receive()
        assert values_of(response.responses[0].partitions[0].records) == [b"x" * 250, b"y" * 250]

    tell(story)


def test_a_fetch_of_many_bytes_waits_until_they_are_there_in_all_its_partitions() -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", 2)
        await node.produce("a", batch(b"x" * 100))
        waiting = await node.connect()
        await waiting.send(replace(two_partitions(1), min_bytes=800), 12)
        for partition in (1, 0, 1):
            await trio.sleep(1)
            await node.produce("a", batch(b"y" * 100), partition=partition)
        with trio.move_on_after(1) as waited:
            await waiting.receive_frame()
        assert waited.cancelled_caught
        await node.produce("a", batch(b"z" * 100))
        response: FetchResponse = await waiting.receive()
        assert [len(values_of(found.records)) for found in response.responses[0].partitions] == [
            3,
            2,
        ]

    tell(story)


def test_a_fetch_that_reaches_the_end_of_a_segment_waits_for_no_more() -> None:
    """A response holds records of one segment of a partition: those of the next one cannot be
    counted.
    """

    async def story(node: Story) -> None:
        await node.create_topic("a", segment_bytes="1048576")
        await node.produce("a", batch(b"x" * 100))
        waiting = await node.connect()
        await waiting.send(fetch_request("a", 0, max_wait_ms=WAIT_MS, min_bytes=500_000), 12)
        await trio.sleep(1)
        log = node.broker.replicas.partitions["a", 0].log
        assert log is not None
        assert log.roll()
        await node.produce("a", batch(b"y" * 100))
        response: FetchResponse = await waiting.receive()
        assert values_of(response.responses[0].partitions[0].records) == [b"x" * 100]

    tell(story)


def two_partitions(second: int) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in (0, second)
    ]
    return FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="a", partitions=partitions)],
    )


def test_a_partition_that_is_not_there_lets_the_others_wait() -> None:
    """As in Apache Kafka, its error comes along with the response of the rest."""

    async def story(node: Story) -> None:
        await node.create_topic("a")
        waiting = await node.connect()
        await waiting.send(two_partitions(9), 12)
        await trio.sleep(10)
        await node.produce("a", batch(b"one"))
        response: FetchResponse = await waiting.receive()
        codes = {
            found.partition_index: found.error_code for found in response.responses[0].partitions
        }
        assert codes == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    tell(story)


def test_where_no_partition_is_there_no_fetch_waits() -> None:
    async def story(node: Story) -> None:
        began = trio.current_time()
        assert (
            await node.fetch("nowhere", 0, max_wait_ms=WAIT_MS)
        ).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert trio.current_time() - began < 1

    tell(story)


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_new_leader_epoch_ends_the_wait(epoch: int) -> None:
    """A consumer that named the old one is fenced, the other finds nothing new."""

    async def story(node: Story) -> None:
        await node.create_topic("a")
        waiting = await node.connect()
        await waiting.send(
            fetch_request("a", 0, max_wait_ms=WAIT_MS, current_leader_epoch=epoch), 12
        )
        await trio.sleep(10)
        lead_anew(node)
        response: FetchResponse = await waiting.receive()
        assert response.responses[0].partitions[0].error_code == (
            0 if epoch < 0 else ErrorCode.FENCED_LEADER_EPOCH
        )

    tell(story)


def lead_anew(node: Story) -> None:
    """Let the metadata say that the partition's leader leads in a later epoch."""
    replicas: Any = node.broker.replicas
    topic = replicas._image.topics.by_name["a"]
    registration = topic.partitions[0]
    replicas._apply(topic, 0, registration._replace(leader_epoch=registration.leader_epoch + 1))


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_a_fenced_consumer_learns_the_leader_and_its_address(version: int) -> None:
    """KIP-951, as Apache Kafka 4.3 responds after a restart: from version 16 on."""

    async def story(node: Story) -> None:
        topic_id = await node.create_topic("a")
        lead_anew(node)
        request = fetch_request("a", 0, current_leader_epoch=0)
        request.topics[0].topic_id = topic_id
        response: FetchResponse = await node.ask(request, version)
        (found,) = response.responses[0].partitions
        assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH
        if version < 16:
            assert (found.current_leader, response.node_endpoints) == (None, [])
            return
        assert found.current_leader == LeaderIdAndEpoch(leader_id=1, leader_epoch=1)
        assert [(known.node_id, known.host, known.port) for known in response.node_endpoints] == [
            (1, HOST, PORT)
        ]

    tell(story)


@pytest.mark.parametrize("version", [9, 10, 12])
def test_a_producer_learns_where_the_leader_is(version: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a")
        state = node.broker.replicas.partitions["a", 0].state
        assert state.registration is not None
        state.apply(
            state.registration._replace(leader_epoch=LeaderEpoch(5)), is_online=False, now_ms=0
        )
        response: ProduceResponse = await node.ask(produce_request("a", batch(b"one")), version)
        (result,) = response.responses[0].partition_responses
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (result.current_leader is None, len(response.node_endpoints)) == (
            (True, 0) if version < 10 else (False, 1)
        )

    tell(story)
