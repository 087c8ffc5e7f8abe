"""A fetch of very many partitions takes several turns of the event loop.

Its response is the same as of other fetches, and other requests are not held up.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from log_service.broker.handlers.fetch import in_turns, reads
from log_service.network.responses import PendingResponse
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.helpers.handler_node import HandlerNode, tell_handlers
from tests.helpers.watchdog import MOST_CALLS, Watchdog
from tests.unit.broker.context import Story, batch, tell, values_of
from tests.unit.broker.requests.gates import Throttle

COUNT = 5


@pytest.fixture
def few_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each partition take a turn of its own."""
    monkeypatch.setattr(reads, "WORK_PER_TURN", 1)
    monkeypatch.setattr(in_turns, "PARTITIONS_PER_TURN", 1)


def request_of(offset: int, count: int = COUNT, **wanted: Any) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index in range(count)
    ]
    return FetchRequest(
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="a", partitions=partitions)],
        **{"min_bytes": 1, "max_wait_ms": 0, **wanted},
    )


def produced(count: int, *, first: int = 0) -> ProduceRequest:
    data = [
        PartitionProduceData(index=index, records=batch(b"%d" % index))
        for index in range(first, first + count)
    ]
    return ProduceRequest(
        acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="a", partition_data=data)]
    )


def values(response: Any) -> dict[int, list[bytes | None]]:
    return {
        each.partition_index: values_of(each.records)
        for topic in response.responses
        for each in topic.partitions
    }


@pytest.mark.usefixtures("few_per_turn")
@pytest.mark.parametrize("pause_ms", [None, 0])
def test_all_partitions_are_answered_in_their_order_within_one_topic(pause_ms: int | None) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=COUNT)
        await node.ask(produced(COUNT), 9)
        if pause_ms is not None:
            node.pipeline.quotas = Throttle(pause_ms)
        response = await node.ask(request_of(0), 12)
        assert [topic.topic for topic in response.responses] == ["a"]
        assert list(values(response).items()) == [
            (index, [b"%d" % index]) for index in range(COUNT)
        ]
        assert node.context.env.files.lease_count == 0  # type: ignore[attr-defined]  # files in memory

    tell_handlers(story)


@pytest.mark.usefixtures("few_per_turn")
def test_a_session_names_what_has_changed() -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=COUNT)
        first = await node.ask(request_of(0, session_epoch=0), 12)
        assert first.session_id
        await node.ask(produced(2, first=2), 9)
        later = FetchRequest(
            max_bytes=1 << 20, min_bytes=1, session_id=first.session_id, session_epoch=1
        )
        assert values(await node.ask(later, 12)) == {2: [b"2"], 3: [b"3"]}

    tell_handlers(story)


@pytest.mark.usefixtures("few_per_turn")
@pytest.mark.parametrize("min_bytes", [1, 100])
def test_a_fetch_waits_for_records_until_its_deadline(min_bytes: int) -> None:
    async def story(node: Story) -> None:
        await node.create_topic("a", partitions=COUNT)
        client = await node.connect()
        await client.send(request_of(0, max_wait_ms=60_000, min_bytes=min_bytes), 12)
        await trio.sleep(1)
        await node.ask(produced(COUNT), 9)
        assert values(await client.receive())[3] == [b"3"]
        assert trio.current_time() < 50
        await client.send(request_of(1, max_wait_ms=5_000), 12)
        began = trio.current_time()
        assert not any(values(await client.receive()).values())
        assert 5 <= trio.current_time() - began < 6
        client.close()

    tell(story)


@pytest.mark.usefixtures("few_per_turn")
def test_no_append_is_missed_between_reading_and_waiting() -> None:
    """Turns lie between them, in which records may come to a partition that was read already."""

    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=COUNT)
        for turns in range(6 * COUNT):
            offset = node.replicas.partitions["a", 0].high_watermark
            pending = node.send(request_of(offset, max_wait_ms=1_000_000, count=COUNT), 12)
            assert isinstance(pending, PendingResponse)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            for index in range(COUNT):
                await node.ask(produced(1, first=index), 9)
            with trio.fail_after(10):
                while not pending.is_done:
                    await trio.testing.wait_all_tasks_blocked()
            pending.discard()
        assert node.replicas.delayed_fetches.waiting_count == 0

    tell_handlers(story)


@pytest.mark.usefixtures("few_per_turn")
@pytest.mark.parametrize("turns", range(0, 30, 3))
def test_the_work_ends_when_the_client_leaves(turns: int) -> None:
    async def story(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=COUNT)
        await node.ask(produced(COUNT - 1), 9)
        pending = node.send(request_of(0, max_wait_ms=1_000_000, min_bytes=100_000), 12)
        assert isinstance(pending, PendingResponse)
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        pending.discard()
        await trio.testing.wait_all_tasks_blocked()
        assert node.replicas.delayed_fetches.waiting_count == 0
        assert node.context.env.files.lease_count == 0  # type: ignore[attr-defined]  # files in memory

    tell_handlers(story)


def with_very_many_partitions(story: Callable[[HandlerNode, int], Awaitable[None]]) -> None:
    count = 3_000

    async def whole(node: HandlerNode) -> None:
        await node.create_topic("a", partitions=count)
        for first in range(0, count, 200):
            await node.ask(produced(200, first=first), 9)
        await story(node, count)

    tell_handlers(whole)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_fetch_of_very_many_partitions_with_records_does_not_hold_the_loop(
    isolation_level: int,
) -> None:
    """All partitions were read, answered and encoded in one turn: 20,000 partitions held a node for
    0.4 s.
    """

    async def story(node: HandlerNode, count: int) -> None:
        watchdog = Watchdog()
        run_in_pool = node.node.run_in_pool

        async def run_uncounted(work: Callable[[], Any]) -> Any:
            watchdog.is_off = True
            try:
                return await run_in_pool(work)
            finally:
                watchdog.is_off = False

        node.node.run_in_pool = run_uncounted
        with watchdog:
            pending = node.send(request_of(0, count, isolation_level=isolation_level), 12)
            assert isinstance(pending, PendingResponse)
            done = trio.Event()
            pending.watch(lambda _: done.set())
            await done.wait()
        pending.discard()
        assert watchdog.most <= MOST_CALLS

    with_very_many_partitions(story)
