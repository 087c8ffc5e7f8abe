"""How long a cluster of three is without service when a node dies, hangs or stops: ``python -m benchmarks.failover --product tidelog``.

Three nodes that are broker and controller, each a process of its own; a topic of three replicas, of which two must be in sync. An
idempotent confluent-kafka producer with acks=all sends a small record every few milliseconds. The figure is the longest time between two
acknowledgements around the fault; a record that fails for good is counted. Where the active controller dies, also the time until a topic
can be created. Every fault hits a cluster that is whole; a node that was killed or stopped is started again after it.
"""

import argparse
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.apache_kafka import java_command
from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError
from log_service.broker.env import real_env
from log_service.broker.storage_format import FormatOptions, format_node
from log_service.client import BlockingAdmin
from log_service.config.server import parse_server_properties

NODES = (1, 2, 3)
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_S, WHOLE_S, SERVICE_S = 180.0, 180.0, 60.0
PAUSE_S, CALM_S = 0.005, 1.0
CLIENT = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "topic.metadata.refresh.interval.ms": 100,
    "socket.timeout.ms": 2_000,
    "delivery.timeout.ms": int(SERVICE_S * 1e3),
    "log_level": 0,
}
"""The client looks for a new leader each 100 ms, and waits 2 s for a node that hangs: by default it takes 1 s and 60 s of its own."""


class Nodes:
    """Three nodes of one product in ``directory``."""

    def __init__(self, product: str, directory: Path) -> None:
        self.product = product
        self.directory = directory
        self.processes: dict[int, psutil.Popen] = {}
        ports = _free_ports(2 * len(NODES))
        self.addresses = {node: f"127.0.0.1:{ports[node - 1]}" for node in NODES}
        self.controllers = {node: f"127.0.0.1:{ports[len(NODES) + node - 1]}" for node in NODES}
        for node in NODES:
            text = "".join(f"{key}={value}\n" for key, value in self._properties(node).items())
            self._file(node).write_text(text)
            self._format(node)

    def __enter__(self) -> Self:
        for node in NODES:
            self.start(node)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for process in self.processes.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
            process.wait()

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def _file(self, node: int) -> Path:
        return self.directory / f"node{node}.properties"

    def _properties(self, node: int) -> Mapping[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(f"{each}@{address}" for each, address in self.controllers.items()),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.addresses[node]},CONTROLLER://{self.controllers[node]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / f"data{node}"),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "4",
            "auto.leader.rebalance.enable": "false",
        }

    def _format(self, node: int) -> None:
        if self.product == "kafka":
            tool = [*java_command(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._file(node))]
            subprocess.run(tool, check=True, capture_output=True)
            return
        config, _ = parse_server_properties(self._file(node).read_text())
        format_node(real_env(config), config, FormatOptions(cluster_id=CLUSTER_ID))

    def start(self, node: int) -> None:
        """Start a node; ``until_whole`` waits for it."""
        if self.product == "kafka":
            argv = [*java_command(), "kafka.Kafka", str(self._file(node))]
        else:
            argv = [sys.executable, "-m", "log_service.cli.main", "serve", str(self._file(node))]
        with (self.directory / f"output{node}.txt").open("ab") as output:
            self.processes[node] = psutil.Popen(argv, stdout=output, stderr=output)

    def end(self, node: int, number: int) -> None:
        """Send a signal, and wait for the end of the process."""
        process = self.processes.pop(node)
        process.send_signal(number)
        process.wait(START_S)

    def active_controller(self) -> int:
        """Return which node leads the metadata quorum."""
        with BlockingAdmin(self.bootstrap) as admin:
            return int(admin.describe_metadata_quorum().leader_id)

    def until_whole(self, topic: str | None = None) -> None:
        """Wait until every node is a broker, and every replica of a topic in sync.

        Raises:
            BenchmarkError: that took too long.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": ERRORS_ONLY})
        deadline = time.monotonic() + WHOLE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                found = admin.list_topics(topic, timeout=5) if topic else admin.list_topics(timeout=5)
                partitions = found.topics[topic].partitions.values() if topic else ()
                if len(found.brokers) == len(NODES) and all(len(each.isrs) == len(NODES) for each in partitions):
                    time.sleep(CALM_S)
                    return
            time.sleep(0.2)
        raise BenchmarkError(f"the cluster was not whole after {WHOLE_S:.0f} s; see {self.directory}")

    def create_topic(self, name: str, leader: int) -> None:
        """Create a topic of one partition whose first replica is ``leader``."""
        replicas = [leader, *(node for node in NODES if node != leader)]
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": ERRORS_ONLY})
        topic = NewTopic(name, 1, replica_assignment=[replicas], config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[name].result(timeout=30)
        self.until_whole(name)

    def seconds_until_topic(self, name: str, asked: int) -> float:
        """Return how long it takes until node ``asked`` has a topic created, asking again after each refusal."""
        began = time.monotonic()
        admin = AdminClient({"bootstrap.servers": self.addresses[asked], "log_level": ERRORS_ONLY})
        while time.monotonic() - began < SERVICE_S:
            try:
                admin.create_topics([NewTopic(name, 1, 2)], request_timeout=5)[name].result()
            except KafkaException as error:
                if error.args[0].name() == "TOPIC_ALREADY_EXISTS":
                    break
                time.sleep(0.01)
                continue
            break
        return time.monotonic() - began


@dataclass(slots=True)
class Acknowledged:
    """When records were acknowledged, and what failed."""

    moments: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def note(self, error: object, _record: object) -> None:
        """Take one delivery report."""
        if error is None:
            self.moments.append(time.monotonic())
        else:
            self.failures.append(str(error))

    def longest_gap_s(self) -> float:
        """Return the longest time between two acknowledgements."""
        return max((later - earlier for earlier, later in zip(self.moments, self.moments[1:], strict=False)), default=SERVICE_S)


def seconds_without_service(nodes: Nodes, topic: str, fault: Callable[[], None]) -> tuple[float, int]:
    """Produce before, during and after a fault; return the longest gap, and how many records failed for good."""
    producer, seen = Producer({"bootstrap.servers": nodes.bootstrap, **CLIENT}), Acknowledged()
    began_fault: float | None = None
    recovered: float | None = None
    started = time.monotonic()
    while recovered is None or time.monotonic() < recovered + CALM_S:
        now = time.monotonic()
        if began_fault is None and seen.moments and now > started + CALM_S:
            began_fault = now
            fault()
        with contextlib.suppress(BufferError):
            producer.produce(topic, b"x" * 100, on_delivery=seen.note)
        producer.poll(PAUSE_S)
        is_late = began_fault is not None and now > began_fault + 2 * CALM_S
        if recovered is None and is_late and seen.moments and now - seen.moments[-1] < 0.1:
            recovered = now
        if now > started + 2 * SERVICE_S:
            break
    producer.flush(SERVICE_S)
    return seen.longest_gap_s(), len(seen.failures)


def measure(nodes: Nodes) -> Iterator[tuple[str, str]]:
    """Yield each figure with its name."""
    for name, number, is_controller in (
        ("kill -9 of a leader", signal.SIGKILL, False),
        ("kill -9 of a leader that is the active controller", signal.SIGKILL, True),
        ("clean stop of a leader", signal.SIGTERM, False),
        ("clean stop of a leader that is the active controller", signal.SIGTERM, True),
        ("SIGSTOP of a leader", signal.SIGSTOP, False),
    ):
        yield name, _after_signal(nodes, number, is_controller=is_controller)
    controller = nodes.active_controller()
    others = [node for node in NODES if node != controller]
    nodes.create_topic("led-elsewhere", others[0])
    nodes.processes[controller].send_signal(signal.SIGKILL)
    created_s = nodes.seconds_until_topic("after-the-controller", others[1])
    _start_again(nodes, controller)
    yield "kill -9 of the active controller: until a topic is created", f"{created_s:.2f} s"


def _after_signal(nodes: Nodes, number: int, *, is_controller: bool) -> str:
    controller = nodes.active_controller()
    victim = controller if is_controller else next(node for node in NODES if node != controller)
    topic = f"topic-{number}-{is_controller}"
    nodes.create_topic(topic, victim)
    gap_s, failed_count = seconds_without_service(nodes, topic, lambda: nodes.processes[victim].send_signal(number))
    if number == signal.SIGSTOP:
        nodes.processes[victim].send_signal(signal.SIGCONT)
    else:
        _start_again(nodes, victim)
    nodes.until_whole(topic)
    return f"{gap_s:.2f} s, {failed_count} records failed"


def _start_again(nodes: Nodes, node: int) -> None:
    nodes.processes.pop(node).wait(START_S)
    nodes.start(node)
    nodes.until_whole()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover", description="Seconds without service of three nodes.")
    parser.add_argument("--product", choices=("tidelog", "kafka"), default="tidelog")
    product = parser.parse_args().product
    with tempfile.TemporaryDirectory(prefix="failover-") as directory, Nodes(product, Path(directory)) as nodes:
        nodes.until_whole()
        for name, figure in measure(nodes):
            print(f"{product}: {name}: {figure}", flush=True)


if __name__ == "__main__":
    main()
