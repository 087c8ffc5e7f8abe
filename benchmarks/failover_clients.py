"""Measures how long four clients are without service when a node of three dies, stops or hangs.

    python -m benchmarks.failover_clients

Each client is a process of its own with its default settings, and gets addresses, topic and group,
nothing else: librdkafka, Apache Kafka's Java client, aiokafka and ours. It prints a word for each
acknowledgement. The figure is the longest time between two words around the fault. ``leader`` and
``controller`` hit the node that leads the one partition that all produce to, 200 records a second
each. It is the active controller only in the latter. ``coordinator`` hits the node that coordinates
their groups, whose members commit again and again.
"""

import argparse
import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

from benchmarks.apache_kafka import java_command
from benchmarks.cluster_nodes import (
    NODES,
    SERVICE_S,
    Nodes,
    led_by,
    new_name,
    running_cluster,
    until,
)
from benchmarks.wire import Wire
from log_service.client import BlockingAdmin
from log_service.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

PAUSE_S = 0.005
BEFORE_S, CALM_S, LONGEST_S = 3.0, 2.0, 100.0
FIND_COORDINATOR_VERSION = 4
ACKNOWLEDGED = "acknowledged"
SIGNALS = {"kill -9": signal.SIGKILL, "clean stop": signal.SIGTERM, "SIGSTOP": signal.SIGSTOP}
PLACES = ("leader", "controller", "coordinator")


def _say(*_ignored: object) -> None:
    sys.stdout.write(ACKNOWLEDGED + "\n")
    sys.stdout.flush()


def librdkafka_produces(bootstrap: str, topic: str, _group: str) -> None:
    """Produce until killed."""
    from confluent_kafka import Producer  # noqa: PLC0415 - each process imports one client

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    while True:
        with contextlib.suppress(BufferError):
            producer.produce(
                topic, b"x" * 100, on_delivery=lambda error, _record: None if error else _say()
            )
        producer.poll(PAUSE_S)


def librdkafka_commits(bootstrap: str, topic: str, group: str) -> None:
    """Commit until killed."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition  # noqa: PLC0415 - as above

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    for offset in range(sys.maxsize):
        consumer.poll(PAUSE_S)
        if consumer.assignment():
            with contextlib.suppress(KafkaException):
                consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
                _say()


def ours_produces(bootstrap: str, topic: str, _group: str) -> None:
    """Produce until killed."""
    import trio  # noqa: PLC0415 - as above

    from log_service.client import Producer  # noqa: PLC0415 - as above

    async def produce() -> None:
        async with Producer(bootstrap) as producer, trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(_send, producer)
                await trio.sleep(PAUSE_S)

    async def _send(producer: Producer) -> None:
        await (await producer.send(topic, b"x" * 100)).wait()
        _say()

    trio.run(produce)


def ours_commits(bootstrap: str, topic: str, group: str) -> None:
    """Commit until killed."""
    from log_service.client import BlockingConsumer  # noqa: PLC0415 - as above
    from log_service.common.errors import KafkaError  # noqa: PLC0415 - as above
    from log_service.common.types import TopicPartition  # noqa: PLC0415 - as above

    with BlockingConsumer(bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        for offset in range(sys.maxsize):
            consumer.poll(timeout_ms=int(PAUSE_S * 1e3))
            if consumer.assignment:
                with contextlib.suppress(KafkaError):
                    consumer.commit({TopicPartition(topic, 0): offset})
                    _say()


def aiokafka_produces(bootstrap: str, topic: str, _group: str) -> None:
    """Produce until killed."""
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - as above

    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            while True:
                (await producer.send(topic, b"x" * 100)).add_done_callback(
                    lambda sent: None if sent.exception() else _say()
                )
                await asyncio.sleep(PAUSE_S)

    asyncio.run(produce())


def aiokafka_commits(bootstrap: str, topic: str, group: str) -> None:
    """Commit until killed."""
    from aiokafka import AIOKafkaConsumer, TopicPartition  # noqa: PLC0415 - as above
    from aiokafka.errors import KafkaError  # noqa: PLC0415 - as above

    async def commit() -> None:
        async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group) as consumer:
            for offset in range(sys.maxsize):
                await consumer.getmany(timeout_ms=int(PAUSE_S * 1e3))
                if consumer.assignment():
                    with contextlib.suppress(KafkaError):
                        await consumer.commit({TopicPartition(topic, 0): offset})
                        _say()

    asyncio.run(commit())


def java_produces(bootstrap: str, topic: str, _group: str) -> None:
    """Become the producer of Apache Kafka's system tests.

    It sets retries to 0, which a file takes back.
    """
    tool = [
        *java_command(),
        "org.apache.kafka.tools.VerifiableProducer",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.write(f"retries={2**31 - 1}\n")
        file.flush()
        _become(
            [*tool, "--throughput", str(int(1 / PAUSE_S)), "--command-config", file.name],
            "producer_send_success",
        )


def java_commits(bootstrap: str, topic: str, group: str) -> None:
    """Become the consumer of Apache Kafka's system tests, which commits the records it has read."""
    tool = [
        *java_command(),
        "org.apache.kafka.tools.VerifiableConsumer",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
    ]
    _become([*tool, "--group-id", group], '"success":true')


def _become(argv: list[str], sign: str) -> None:
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None, "it is a pipe"
    signal.signal(signal.SIGTERM, lambda *_: process.kill())
    for line in process.stdout:
        if sign in line:
            _say()


CLIENTS: dict[str, tuple[Callable[[str, str, str], None], Callable[[str, str, str], None]]] = {
    "librdkafka": (librdkafka_produces, librdkafka_commits),
    "Java": (java_produces, java_commits),
    "aiokafka": (aiokafka_produces, aiokafka_commits),
    "ours": (ours_produces, ours_commits),
}
"""The producing and the committing program of each client."""


class Watched:
    """A client in a process of its own. ``moments`` are the times of its acknowledgements."""

    def __init__(self, client: str, part: int, nodes: Nodes, topic: str, group: str) -> None:
        self.client = client
        self.moments: list[float] = []
        argv = [
            sys.executable,
            "-m",
            "benchmarks.failover_clients",
            "--be",
            client,
            "--part",
            str(part),
        ]
        argv += ["--bootstrap", nodes.bootstrap, "--topic", topic, "--group", group]
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None, "it is a pipe"
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            if line.startswith(ACKNOWLEDGED):
                self.moments.append(time.monotonic())

    def is_served(self, since: float) -> bool:
        """Return whether acknowledgements came for a while after a moment, and still come."""
        moments = self.moments
        return bool(moments) and moments[-1] > max(since + CALM_S, time.monotonic() - 0.2)

    def longest_gap_s(self, since: float) -> float:
        """Return the longest time between two acknowledgements, the later one after a moment."""
        pairs = zip(self.moments, self.moments[1:], strict=False)
        return max(
            (later - earlier for earlier, later in pairs if later > since), default=LONGEST_S
        )


@contextlib.contextmanager
def watched(
    nodes: Nodes, names: list[str], part: int, topic: str, groups: list[str]
) -> Iterator[list[Watched]]:
    """Start clients, each in a group of its own where it commits, and end them afterwards."""
    clients = [
        Watched(name, part, nodes, topic, group) for name, group in zip(names, groups, strict=False)
    ]
    try:
        yield clients
    finally:
        for client in clients:
            client.process.terminate()
        for client in clients:
            client.process.wait()


def groups_elsewhere(nodes: Nodes, controller: int, count: int) -> tuple[list[str], int]:
    """Return groups with one coordinator that is not the active controller, and that node."""
    found: dict[int, list[str]] = {node: [] for node in NODES if node != controller}
    with contextlib.closing(Wire(nodes.addresses[controller])) as wire:

        def is_found() -> bool:
            group = new_name()
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            (told,) = wire.ask(
                request, FIND_COORDINATOR_VERSION, FindCoordinatorResponse
            ).coordinators
            found.get(told.node_id, []).append(group)
            return any(len(groups) == count for groups in found.values())

        until(
            is_found,
            0.001,
            "groups have a coordinator that is not the active controller",
            SERVICE_S,
        )
    return next((groups, node) for node, groups in found.items() if len(groups) == count)


def gaps(nodes: Nodes, place: str, number: int, names: list[str]) -> dict[str, float]:
    """Send a signal to the node in a place.

    Returns each client's longest time without an acknowledgement. The cluster is whole then.
    """
    controller = nodes.active_controller()
    victim = (
        controller if place == "controller" else next(node for node in NODES if node != controller)
    )
    is_committing = place == "coordinator"
    topic, groups = new_name(), [""] * len(names)
    nodes.create_topic(topic, led_by(controller if is_committing else victim))
    if is_committing:
        groups, victim = groups_elsewhere(nodes, controller, len(names))
    feeding = watched(nodes, ["librdkafka"] if is_committing else [], 0, topic, [""])
    with feeding, watched(nodes, names, int(is_committing), topic, groups) as clients:
        began = time.monotonic()
        until(
            lambda: all(client.is_served(began) for client in clients),
            0.1,
            "all clients are served",
            SERVICE_S,
        )
        time.sleep(BEFORE_S)
        struck = time.monotonic()
        nodes.processes[victim].send_signal(number)
        while time.monotonic() < struck + LONGEST_S and not all(
            client.is_served(struck) for client in clients
        ):
            time.sleep(0.1)
        found = {client.client: client.longest_gap_s(struck) for client in clients}
    if number == signal.SIGSTOP:
        nodes.processes[victim].send_signal(signal.SIGCONT)
    else:
        nodes.restart(victim)
    nodes.until_whole()
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.elect_leaders()  # the next fault finds partitions where they belong
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.failover_clients",
        description="Seconds without service of four clients.",
    )
    parser.add_argument("--product", choices=("tidelog", "kafka"), default="tidelog")
    parser.add_argument(
        "--faults", default=",".join(SIGNALS), help="of: kill -9, clean stop, SIGSTOP"
    )
    parser.add_argument("--places", default=",".join(PLACES))
    parser.add_argument("--clients", default=",".join(CLIENTS))
    for name in ("be", "part", "bootstrap", "topic", "group"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.be:
        CLIENTS[told.be][int(told.part)](told.bootstrap, told.topic, told.group)
        return
    with running_cluster(told.product) as nodes:
        for fault in told.faults.split(","):
            for place in told.places.split(","):
                found = gaps(nodes, place, SIGNALS[fault], told.clients.split(","))
                print(
                    f"{told.product}: {fault} of the {place}:"
                    f" {', '.join(f'{name} {gap:.2f} s' for name, gap in found.items())}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
