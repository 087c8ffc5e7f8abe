"""Runs three nodes of one product, each broker and controller in a process of its own.

Figures of several nodes are taken on this cluster. A node is started the way a user starts it, and
killed, stopped or suspended by signals. CPU and memory are read from the system. Both products get
the same properties, and nothing else: ports, roles, where the logs lie, and the settings that a
figure asks for.
"""

import compileall
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import psutil
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import log_service
from benchmarks.apache_kafka import NAME as PEER
from benchmarks.apache_kafka import java_command
from benchmarks.broker_process import BenchmarkError, cpu_s
from benchmarks.table import OURS
from log_service.broker.env import real_env
from log_service.broker.storage_format import FormatOptions, format_node
from log_service.client import BlockingAdmin
from log_service.config.server import parse_server_properties

NODES = (1, 2, 3)
PRODUCTS = {OURS: "tidelog", PEER: "kafka"}
"""The products by their names in a table."""
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_S, WHOLE_S, SERVICE_S = 180.0, 180.0, 60.0
INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
"""The internal topics, as the keys of a node name them.

By their defaults two replicas of the latter two have to be in sync.
"""
CREATED_S = 10.0
"""The longest time to wait for a created topic before another client asks again.

A client that still believes in a controller that is gone waits five minutes for it.
"""
CALM_S = 1.0
"""How long a cluster has to stay whole before it is measured."""
SETTLED_S = 5.0
"""The same for a cluster that was suspended with every timeout as shipped."""


class Nodes:
    """Three nodes of one product in ``directory``. ``properties`` go to each of them.

    ``listeners`` are the names of listeners beside the one in the clear. ``beside`` has each node's
    address of them. Each node is in a session of its own, as services are.
    """

    def __init__(
        self,
        product: str,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        listeners: Sequence[str] = (),
    ) -> None:
        self.product = product
        self.directory = directory
        self.processes: dict[int, psutil.Popen] = {}
        self._properties = dict(properties or {})
        ports = free_ports((2 + len(listeners)) * len(NODES))
        self.addresses = {node: f"127.0.0.1:{ports[node - 1]}" for node in NODES}
        self.controllers = {node: f"127.0.0.1:{ports[len(NODES) + node - 1]}" for node in NODES}
        self.beside = {
            name: {
                node: f"127.0.0.1:{ports[(2 + index) * len(NODES) + node - 1]}" for node in NODES
            }
            for index, name in enumerate(listeners)
        }
        for node in NODES:
            text = "".join(f"{key}={value}\n" for key, value in self._all_properties(node).items())
            self._file(node).write_text(text)
            self._format(node)

    def __enter__(self) -> Self:
        for node in NODES:
            self.start(node)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
            process.wait()

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses.values())

    def _file(self, node: int) -> Path:
        return self.directory / f"node{node}.properties"

    def _all_properties(self, node: int) -> Mapping[str, str]:
        beside = "".join(f",{name}://{addresses[node]}" for name, addresses in self.beside.items())
        return {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": ",".join(
                f"{each}@{address}" for each, address in self.controllers.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": (
                f"PLAINTEXT://{self.addresses[node]},CONTROLLER://{self.controllers[node]}{beside}"
            ),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.directory / f"data{node}"),
            "log.segment.delete.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "4",
            "min.insync.replicas": "2",
            **{f"{topic}.replication.factor": str(len(NODES)) for topic in INTERNAL_TOPICS},
            "auto.leader.rebalance.enable": "false",
            **self._properties,
        }

    def _format(self, node: int) -> None:
        if self.product == "kafka":
            tool = [
                *java_command(),
                "kafka.tools.StorageTool",
                "format",
                "-t",
                CLUSTER_ID,
                "-c",
                str(self._file(node)),
            ]
            subprocess.run(tool, check=True, capture_output=True)
            return
        config, _ = parse_server_properties(self._file(node).read_text())
        format_node(real_env(config), config, FormatOptions(cluster_id=CLUSTER_ID))

    def start(self, node: int) -> None:
        """Start a node. ``until_whole`` waits for it."""
        if self.product == "kafka":
            argv = [*java_command(), "kafka.Kafka", str(self._file(node))]
        else:
            argv = [sys.executable, "-m", "log_service.cli.main", "serve", str(self._file(node))]
        with (self.directory / f"output{node}.txt").open("ab") as output:
            self.processes[node] = psutil.Popen(
                argv, stdout=output, stderr=output, start_new_session=True
            )

    def end(self, node: int, number: int) -> None:
        """Send a signal, and wait for the end of the process."""
        process = self.processes.pop(node)
        process.send_signal(number)
        process.wait(START_S)

    def restart(self, node: int) -> None:
        """Wait for the end of a killed or stopping node, and start it again.

        The cluster is whole afterwards.
        """
        self.processes.pop(node).wait(START_S)
        self.start(node)
        self.until_whole()

    def suspend(self) -> None:
        """Suspend all nodes: they keep memory and connections, and get no CPU."""
        for process in self.processes.values():
            process.suspend()

    def resume(self, calm_s: float = CALM_S) -> None:
        """Let all nodes go on, and wait until the cluster stays whole for ``calm_s``.

        Nodes that have every timeout as shipped need a longer ``calm_s``. Their metadata looks
        whole until the controller fences all of them, because they were silent, and takes them
        back.
        """
        for process in self.processes.values():
            process.resume()
        self.until_whole(calm_s=calm_s)

    def cpu_s(self) -> float:
        """Return the CPU seconds, user and system, of the running nodes."""
        return sum(cpu_s(process) for process in self.processes.values())

    def rss_bytes(self) -> int:
        """Return the memory of the running nodes, together."""
        return sum(int(process.memory_info().rss) for process in self.processes.values())

    def active_controller(self) -> int:
        """Return the node that leads the metadata quorum."""
        with BlockingAdmin(self.bootstrap) as admin:
            return int(admin.describe_metadata_quorum().leader_id)

    def admin(self, *nodes: int) -> AdminClient:
        """Return a client that knows the named nodes, or all."""
        addresses = [self.addresses[node] for node in nodes or NODES]
        return AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})

    def until_whole(self, topic: str | None = None, *, calm_s: float = CALM_S) -> None:
        """Wait until every node is a broker and every replica is in sync, for ``calm_s``.

        The replicas are those of a topic, or of all topics where none is named. Each node has to
        accept connections, too, because a node that was killed is a broker to the others until its
        session ends.

        Raises:
            BenchmarkError: that took too long.
        """
        admin = self.admin()

        def is_whole() -> bool:
            if not all(map(accepts, self.addresses.values())):
                return False
            with contextlib.suppress(KafkaException):
                found = (
                    admin.list_topics(topic, timeout=5) if topic else admin.list_topics(timeout=5)
                )
                partitions = [
                    each for one in found.topics.values() for each in one.partitions.values()
                ]
                is_there = topic is None or bool(partitions)
                return (
                    is_there
                    and len(found.brokers) == len(NODES)
                    and all(len(each.isrs) == len(each.replicas) for each in partitions)
                )
            return False

        until(is_whole, 0.2, f"the cluster in {self.directory} is whole", WHOLE_S, calm_s=calm_s)

    def create_topic(self, name: str, assignment: Sequence[Sequence[int]]) -> None:
        """Create a topic with those replicas, and wait until it is whole.

        ``assignment`` lists the nodes of each partition, the leader first.

        Raises:
            BenchmarkError: that took too long.
        """
        replicas = [list(each) for each in assignment]
        in_sync = str(min(2, *map(len, replicas)))
        topic = NewTopic(
            name,
            len(replicas),
            replica_assignment=replicas,
            config={"min.insync.replicas": in_sync},
        )
        until(
            lambda: self._is_created(topic),
            0.1,
            f"topic {name} is created in {self.directory}",
            WHOLE_S,
        )
        self.until_whole(name)

    def _is_created(self, topic: NewTopic) -> bool:
        admin = self.admin()
        try:
            admin.create_topics([topic])[topic.topic].result(timeout=CREATED_S)
        except TimeoutError:
            return False
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return True

    def leader(self, topic: str) -> int:
        """Return the node that leads a topic's first partition."""
        admin = self.admin()
        return int(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)

    @contextlib.contextmanager
    def topic(self, assignment: Sequence[Sequence[int]]) -> Iterator[str]:
        """Create a topic of a new name, and delete it afterwards.

        Disk space is then given back between figures.
        """
        name = new_name()
        self.create_topic(name, assignment)
        try:
            yield name
        finally:
            admin = self.admin()
            admin.delete_topics([name])[name].result(timeout=30)


def new_name() -> str:
    return f"bench-{uuid4().hex[:8]}"


def spread(partition_count: int, factor: int = len(NODES)) -> list[list[int]]:
    """Return replicas of partitions that give every node the same share.

    That is the same share of leaders and of replicas.
    """
    around = len(NODES)
    return [
        [NODES[(first + step) % around] for step in range(factor)]
        for first in range(partition_count)
    ]


def led_by(node: int) -> list[list[int]]:
    """Return the replicas of one partition, on all nodes, whose leader is ``node``."""
    return [[node, *(each for each in NODES if each != node)]]


def accepts(address: str) -> bool:
    """Return whether a node accepts connections."""
    host, port = address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return True
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """Return so many ports that no process listens on."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def running_cluster(
    product: str, listeners: Sequence[str] = (), **properties: str
) -> Iterator[Nodes]:
    """Start a cluster in an empty directory that is removed afterwards.

    It is whole when the block begins. Underscores in names of properties stand for dots.
    """
    if product != "kafka":
        compileall.compile_dir(Path(log_service.__file__).parent, quiet=1)
    named = {name.replace("_", "."): value for name, value in properties.items()}
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        Nodes(product, Path(directory), named, listeners) as nodes,
    ):
        nodes.until_whole()
        yield nodes


def until(
    condition: Callable[[], bool],
    pause_s: float,
    what: str,
    deadline_s: float = 300.0,
    *,
    calm_s: float = 0.0,
) -> float:
    """Ask again until a state has held for ``calm_s``.

    Returns the seconds until it began to hold for the last time.

    Raises:
        BenchmarkError: it did not hold within the deadline. The text names ``what``.
    """
    began = time.monotonic()
    found: float | None = None
    while found is None or time.monotonic() < found + calm_s:
        if not condition():
            found = None
        elif found is None:
            found = time.monotonic()
            continue
        if time.monotonic() > began + deadline_s:
            raise BenchmarkError(f"{what}: not within {deadline_s:.0f} s")
        time.sleep(pause_s)
    return found - began
