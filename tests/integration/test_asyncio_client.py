"""The asyncio classes work over real sockets.

The tests have a broker that dies and comes back, groups, many loops, forks, and the end of a
process.
"""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from log_service.client import (
    AsyncioAdmin,
    AsyncioConsumer,
    AsyncioProducer,
    BlockingAdmin,
    KafkaError,
    NewTopic,
    TopicPartition,
)
from tests.helpers.broker_process import ROOT, BrokerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PATIENCE_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as running:
        with BlockingAdmin(running.bootstrap) as admin:
            admin.create_topics([NewTopic(name="t", partition_count=2, replication_factor=1)])
        yield running


async def read(bootstrap: str, count: int, *, partition: int = 0) -> list[bytes]:
    async with (
        AsyncioConsumer(bootstrap, auto_offset_reset="earliest") as consumer,
        asyncio.timeout(PATIENCE_S),
    ):
        await consumer.assign([TopicPartition("t", partition)])
        return [(await anext(consumer)).value for _ in range(count)]


def test_a_broker_that_dies_and_comes_back_costs_no_record(broker: BrokerProcess) -> None:
    """Tasks go on sending and one goes on reading, in one loop.

    The broker is killed and started twice.
    """
    count = 400
    seen: list[bytes] = []

    async def work(producer: AsyncioProducer, name: int) -> None:
        for number in range(count):
            receipt = await producer.send("t", b"%d %d" % (name, number), partition=0)
            if number % 20 == 0:
                await receipt.wait()

    async def watch(consumer: AsyncioConsumer) -> None:
        async for record in consumer:
            seen.append(record.value)
            if len(seen) == 4 * count:
                return

    async def main() -> None:
        async with (
            AsyncioProducer(broker.bootstrap, linger_ms=1, batch_size=500) as producer,
            AsyncioConsumer(broker.bootstrap, auto_offset_reset="earliest") as consumer,
            asyncio.timeout(PATIENCE_S),
            asyncio.TaskGroup() as tasks,
        ):
            await consumer.assign([TopicPartition("t", 0)])
            tasks.create_task(watch(consumer))
            for name in range(4):
                tasks.create_task(work(producer, name))
            for goal in (count, 2 * count):
                while len(seen) < goal:  # noqa: ASYNC110 - another task counts
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)

    asyncio.run(main())
    for name in range(4):
        assert [value for value in seen if value.startswith(b"%d " % name)] == [
            b"%d %d" % (name, number) for number in range(count)
        ]
    assert asyncio.run(read(broker.bootstrap, 4 * count)) == seen


def test_members_in_one_loop_share_a_topic_and_hand_it_over(broker: BrokerProcess) -> None:
    seen: Counter[bytes] = Counter()

    async def consume(name: str, assigned: dict[str, set[int]], until: Callable[[], bool]) -> None:
        def note(partitions: object) -> None:
            assigned[name] |= {each.partition for each in partitions}  # type: ignore[attr-defined]

        async with AsyncioConsumer(
            broker.bootstrap, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe(["t"], on_assigned=note)
            while not until():
                seen.update(record.value for record in await consumer.poll(timeout_ms=50))

    async def main() -> None:
        assigned: dict[str, set[int]] = {"first": set(), "second": set()}
        async with (
            asyncio.timeout(PATIENCE_S),
            AsyncioProducer(broker.bootstrap) as producer,
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(consume("first", assigned, lambda: bool(assigned["second"])))
            tasks.create_task(
                consume(
                    "second",
                    assigned,
                    lambda: assigned["second"] == {0, 1} and sum(seen.values()) >= 2_000,
                )
            )
            for number in range(2_000):
                await producer.send("t", b"%d" % number, partition=number % 2)

    asyncio.run(main())
    assert set(seen) == {b"%d" % number for number in range(2_000)}
    assert sum(seen.values()) == 2_000, "members that leave in order repeat nothing"


def test_each_loop_of_many_has_clients_of_its_own(broker: BrokerProcess) -> None:
    failures: list[BaseException] = []

    async def main(name: int) -> None:
        async with (
            AsyncioProducer(broker.bootstrap) as producer,
            AsyncioAdmin(broker.bootstrap) as admin,
        ):
            await producer.send_many("t", [b"%d" % name] * 500, partition=1)
            await producer.flush()
            assert "t" in {topic.name for topic in await admin.list_topics()}

    def work(name: int) -> None:
        try:
            for _ in range(2):
                asyncio.run(main(name))
        except BaseException as error:  # noqa: BLE001 - the test's own thread has to hear of it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert failures == []
    found = asyncio.run(read(broker.bootstrap, 4_000, partition=1))
    assert Counter(found) == {b"%d" % name: 1_000 for name in range(4)}


def test_a_child_that_was_forked_is_refused_and_opens_clients_of_its_own(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """As with a server that forks its workers after it has opened a client."""

    async def main() -> None:
        async with AsyncioProducer(broker.bootstrap) as producer:
            await (await producer.send("t", b"parent", partition=0)).wait()
            child = os.fork()
            if child == 0:  # nothing of pytest may run in here
                signal.alarm(30)
                threading.Thread(
                    target=_in_child, args=(producer, broker.bootstrap, tmp_path / "heard")
                ).start()
                threading.Event().wait()
            code = await asyncio.to_thread(os.waitpid, child, 0)
            assert code[1] == 0
            await (await producer.send("t", b"parent again", partition=0)).wait()

    asyncio.run(main())
    refused = (tmp_path / "heard").read_text().splitlines()
    assert len(refused) == 3
    assert all(line.endswith("open one after the fork") for line in refused)
    assert asyncio.run(read(broker.bootstrap, 3)) == [b"parent", b"child", b"parent again"]


def _in_child(producer: AsyncioProducer, bootstrap: str, heard: Path) -> None:
    """Call the parent's client on a loop of the child's own, and then one that was opened there."""

    async def attempt(call: Callable[[], Awaitable[object]]) -> str:
        try:
            await call()
        except KafkaError as error:
            return str(error)
        return "nothing"

    async def main() -> None:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: producer.send("t", b"x"),
            producer.flush,
            producer.metrics,
        ]
        texts = [await attempt(call) for call in calls]
        heard.write_text("\n".join(texts))  # noqa: ASYNC240 - nothing else runs in here
        await producer.close()
        async with AsyncioProducer(bootstrap) as own:
            await (await own.send("t", b"child", partition=0)).wait()

    try:
        asyncio.run(main())
    except BaseException as error:  # noqa: BLE001 - the parent has to hear of it
        heard.write_text(repr(error))
        os._exit(1)
    os._exit(0)


SERVICE = """
import asyncio, signal, sys
from log_service.client import AsyncioConsumer, AsyncioProducer
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    async with AsyncioProducer(sys.argv[1], linger_ms=60_000) as producer, AsyncioConsumer(sys.argv[1], group_id="service") as consumer:
        await consumer.subscribe(["t"])
        await producer.send("t", b"from the service", partition=0)
        print("ready", flush=True)
        async for _ in consumer:
            pass

asyncio.run(main())
"""


def test_ctrl_c_ends_a_service_that_waits_and_delivers_what_it_took(broker: BrokerProcess) -> None:
    command = [sys.executable, "-c", SERVICE, broker.bootstrap]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert errors.rstrip().endswith("KeyboardInterrupt"), errors
    assert asyncio.run(read(broker.bootstrap, 1)) == [b"from the service"]


LEFT_OPEN = """
import asyncio, sys
from log_service.client import AsyncioConsumer

async def main():
    consumer = AsyncioConsumer(sys.argv[1])
    await consumer.__aenter__()
    print("opened")

asyncio.run(main())
"""


def test_a_client_that_was_left_open_keeps_no_process_alive(broker: BrokerProcess) -> None:
    command = [sys.executable, "-c", LEFT_OPEN, broker.bootstrap]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment, check=True
    )
    assert ended.stdout == "opened\n"
