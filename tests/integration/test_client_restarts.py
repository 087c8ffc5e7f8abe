"""Our client goes on while the broker is killed and comes back.

Nothing acknowledged is lost, nothing comes twice, and no client has to be restarted.
"""

from pathlib import Path
from typing import Any

import pytest
import trio

from log_service.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.helpers.broker_process import BrokerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PARTITION = TopicPartition("t", 0)


async def create_topic(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(name="t", partition_count=1, replication_factor=1)])


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_producer_and_a_consumer_outlive_restarts_of_the_broker(
    tmp_path: Path, *, is_killed: bool
) -> None:
    acknowledged: list[tuple[int, bytes]] = []
    seen: list[tuple[int, bytes]] = []

    async def produce(producer: Producer, stopping: trio.Event, ended: trio.Event) -> None:
        number = 0
        while not stopping.is_set():
            value = b"%d" % number
            delivery = await producer.send("t", value, partition=0)
            acknowledged.append(((await delivery.wait()).offset, value))
            number += 1
        ended.set()

    async def consume(consumer: Consumer, ended: trio.Event) -> None:
        while not ended.is_set() or not seen or seen[-1][0] < acknowledged[-1][0]:
            seen.extend((record.offset, record.value) for record in await consumer.poll())

    async def more_acknowledged() -> None:
        enough = len(acknowledged) + 20
        while len(acknowledged) < enough:  # noqa: ASYNC110 - an event for each would be more to read
            await trio.sleep(0.01)

    async def main(broker: BrokerProcess) -> None:
        await create_topic(broker.bootstrap)
        settings: dict[str, Any] = {"request_timeout_ms": 5_000}
        async with (
            Producer(broker.bootstrap, linger_ms=0, **settings) as producer,
            Consumer(
                broker.bootstrap,
                auto_offset_reset="earliest",
                group_id="g",
                heartbeat_interval_ms=100,
                **settings,
            ) as consumer,
        ):
            await consumer.subscribe(["t"])
            stopping, ended = trio.Event(), trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consume, consumer, ended)
                nursery.start_soon(produce, producer, stopping, ended)
                for _ in range(3):
                    await more_acknowledged()
                    await trio.to_thread.run_sync(broker.kill if is_killed else broker.stop)
                    await trio.to_thread.run_sync(broker.start)
                await more_acknowledged()
                nursery.cancel_scope.deadline = trio.current_time() + 30
                stopping.set()

    with BrokerProcess(tmp_path) as broker:
        trio.run(main, broker)
    assert len(acknowledged) >= 80
    assert [offset for offset, _ in acknowledged] == sorted({offset for offset, _ in acknowledged})
    assert set(acknowledged) <= set(seen)
    assert len({value for _, value in set(seen)}) == len(set(seen)), (
        "no record lies in the log twice"
    )
