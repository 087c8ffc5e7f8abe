"""A client logs useful lines when things go wrong, and never a flood."""

import logging
from typing import Any

import pytest
import trio

from log_service.client import Consumer, KafkaError, Producer, TopicPartition
from tests.sim.world import World, sim_run
from tests.unit.client.coordinating_broker import Coordinating
from tests.unit.client.scripted_broker import ScriptedBroker
from tests.unit.client.scripted_leader import Leader

MINUTES = 10


def test_ten_minutes_without_a_broker_are_a_page_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "log_service")

    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        Leader(broker)
        Coordinating(broker)
        settings: dict[str, Any] = {"request_timeout_ms": 5_000, "default_api_timeout_ms": 10_000}
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with (
                Producer(
                    "broker:9092",
                    env=world.client_env(),
                    delivery_timeout_ms=10_000,
                    linger_ms=0,
                    **settings,
                ) as producer,
                Consumer(
                    "broker:9092", env=world.client_env(), group_id="g", **settings
                ) as consumer,
            ):
                await consumer.subscribe(["t"])
                await consumer.poll(timeout_ms=5_000)
                await (await producer.send("t", b"x")).wait()
                broker.go_down(MINUTES * 60)
                for _ in range(MINUTES * 60):
                    await producer.send("t", b"x")
                    try:
                        await consumer.poll(timeout_ms=1_000)
                    except KafkaError:
                        continue
                assert producer.metrics().record_error_total > 500
                await producer.close(timeout_ms=0)
            nursery.cancel_scope.cancel()

    sim_run(1, main)
    lines = [record.getMessage() for record in caplog.records]
    assert 5 < len(lines) < MINUTES * 60, "about one line in a few seconds, of all parts together"
    assert any("cannot reach a broker at broker:9092" in line for line in lines)
    assert any("records of t-0 were given up" in line for line in lines)
    assert any("times more before" in line for line in lines)


def test_the_life_of_a_member_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "log_service")

    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        Leader(broker)
        Coordinating(broker)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Consumer("broker:9092", env=world.client_env(), group_id="g") as consumer:
                await consumer.subscribe(["t"])
                while consumer.assignment != [TopicPartition("t", 0)]:
                    await consumer.poll(timeout_ms=100)
            nursery.cancel_scope.cancel()

    sim_run(1, main)
    lines = [record.getMessage() for record in caplog.records]
    assert "group g: its coordinator is broker 1" in lines
    assert "group g: generation 1 by range: 1 partitions, 1 of them new" in lines
    assert "group g: gives up 1 partitions" in lines


def test_a_connection_that_breaks_is_told_and_one_that_we_close_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "log_service")

    async def main(world: World) -> None:
        broker = ScriptedBroker(world)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            async with Producer("broker:9092", env=world.client_env()) as producer:
                await (await producer.send("t", b"x")).wait()
                world.network.reset_connections("client")
                await (await producer.send("t", b"y")).wait()
            nursery.cancel_scope.cancel()

    sim_run(1, main)
    gone = [record.getMessage() for record in caplog.records if "is gone" in record.getMessage()]
    assert len(gone) == 1
    assert gone[0].startswith("the connection to broker:9092 is gone:")
