"""Several nodes in one cluster, each a process of its own: tidelog's, Apache Kafka's, or some of
each.

    with ClusterNodes(TIDELOG, tmp_path) as nodes:
        nodes.kill(nodes.leader_of("orders", 0))
        nodes.start(...)

    with ClusterNodes({1: APACHE_KAFKA, 2: TIDELOG, 3: TIDELOG}, tmp_path, is_mixed=True) as nodes:
        nodes.replace(1, TIDELOG)

The first ``voter_count`` nodes are broker and controller, in a static quorum
(``controller.quorum.voters``); every further one is a broker. Where ``is_split``, the voters are
controllers alone. Each node is formatted by its own product's command, and is in a rack of its own.
A session is short, so that a node that was killed is fenced after three seconds. Nothing stays
behind.
"""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self

from click.testing import CliRunner

from log_service.cli.storage import storage
from log_service.client import BlockingAdmin, KafkaError, TopicPartition
from tests.helpers.failing_directories import node_of_failing_directories
from tests.helpers.forked_process import ForkedProcess, node, start_forked
from tests.helpers.ports import free_ports
from tests.integration.client_clusters import APACHE_KAFKA
from tests.integration.kafka_node import java, java_command, skip_unless_kafka_is_there

NODE_IDS = (1, 2, 3)
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_SECONDS = 90.0
STOP_SECONDS = 60.0
SESSION_SECONDS = 3.0
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})

COMMON = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "5000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
OF_KAFKA = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
}


class Ways(Protocol):
    """The network between nodes and those that connect to them.

    ``tests.chaos.network`` has one that can be cut.
    """

    def address_of(self, node_id: int, port: int) -> int:
        """Return the port that others are told instead of a node's own."""

    def open(self, node_id: int, process_id: int) -> None:
        """A node's process has started."""

    def close(self, node_id: int) -> None:
        """A node's process has ended."""


class Straight:
    """No one stands between."""

    def address_of(self, node_id: int, port: int) -> int:
        return port

    def open(self, node_id: int, process_id: int) -> None:
        """Nothing to do."""

    def close(self, node_id: int) -> None:
        """Nothing to do."""


class ClusterNodes:
    """The nodes 1 to ``size``, of one product or of the product that ``product`` names for each.

    ``properties`` are server properties over those of all tests; ``racks`` are names of racks by
    node. Where ``is_mixed``, now or later, nodes of both products are in the cluster: the features
    ``unserved`` are at level 0. Where ``is_dynamic``, the one voter is found by
    ``controller.quorum.bootstrap.servers`` (kraft.version 1); the nodes ``joining`` are
    controllers, too, and become voters by themselves. The nodes ``late`` start when a test starts
    them. Where ``has_two_directories``, each node of tidelog has its logs in ``data/first`` and
    ``data/second``, its metadata log in ``data/metadata``, and ``fail_directory`` lets one of the
    two fail. ``login`` are settings of the client that asks the nodes here, ``format_arguments`` go
    to the command that formats, of either product.
    """

    def __init__(
        self,
        product: str | Mapping[int, str],
        directory: Path,
        properties: Mapping[str, str] = NO_PROPERTIES,
        *,
        size: int = 3,
        voter_count: int | None = None,
        racks: Mapping[int, str] = MappingProxyType({}),
        is_mixed: bool = False,
        is_dynamic: bool = False,
        is_split: bool = False,
        joining: Collection[int] = (),
        has_two_directories: bool = False,
        unserved: Sequence[str] = (),
        late: Collection[int] = (),
        ways: Ways | None = None,
        login: Mapping[str, Any] = MappingProxyType({}),
        format_arguments: Sequence[str] = (),
    ) -> None:
        self.node_ids = tuple(range(1, size + 1))
        self.products = (
            dict.fromkeys(self.node_ids, product) if isinstance(product, str) else dict(product)
        )
        self.directory = directory
        self.voters = self.node_ids[:voter_count]
        self.broker_ids = self.node_ids[voter_count:] if is_split else self.node_ids
        self._late = late
        self._is_dynamic = is_dynamic
        self._joining = joining
        self._has_two_directories = has_two_directories
        self._unserved = unserved if is_mixed else ()
        self._ways = ways or Straight()
        self.login = login
        self._format_arguments = format_arguments
        self._processes: dict[int, subprocess.Popen[bytes] | ForkedProcess] = {}
        if self._has_kafka:
            skip_unless_kafka_is_there()
        ports = free_ports(2 * size)
        own_ports = dict(zip(self.node_ids, ports[::2], strict=True))
        controllers = dict(zip(self.node_ids, ports[1::2], strict=True))
        self._own_ports = {
            node_id: own_ports[node_id] if node_id in self.broker_ids else controllers[node_id]
            for node_id in self.node_ids
        }
        self.ports = {
            node_id: self._ways.address_of(node_id, own_ports[node_id])
            for node_id in self.broker_ids
        }
        told_controllers = {
            node_id: self._ways.address_of(node_id, controllers[node_id]) for node_id in self.voters
        }
        self.controllers = {
            node_id: f"127.0.0.1:{port}" for node_id, port in told_controllers.items()
        }
        quorum = self._quorum()
        self.properties = {
            node_id: {
                **COMMON,
                **(OF_KAFKA if self._has_kafka else {}),
                **quorum,
                **self._listeners(node_id, controllers, told_controllers),
                "node.id": str(node_id),
                "broker.rack": racks.get(node_id, f"rack-{node_id}"),
                **self._directories(node_id),
                **({"controller.quorum.auto.join.enable": "true"} if node_id in joining else {}),
                **properties,
            }
            for node_id in self.node_ids
        }

    def _directories(self, node_id: int) -> dict[str, str]:
        data = self.data(node_id)
        if not self._has_two_directories:
            return {"log.dirs": str(data)}
        return {
            "log.dirs": f"{data / 'first'},{data / 'second'}",
            "metadata.log.dir": str(data / "metadata"),
        }

    def _quorum(self) -> dict[str, str]:
        if self._is_dynamic:
            return {"controller.quorum.bootstrap.servers": ",".join(self.controllers.values())}
        voters = (f"{node_id}@{address}" for node_id, address in self.controllers.items())
        return {"controller.quorum.voters": ",".join(voters)}

    def _listeners(
        self, node_id: int, controllers: Mapping[int, int], told_controllers: Mapping[int, int]
    ) -> dict[str, str]:
        if node_id not in self.broker_ids:
            bound, told = (
                f"CONTROLLER://127.0.0.1:{ports[node_id]}"
                for ports in (controllers, told_controllers)
            )
            return {"process.roles": "controller", "listeners": bound, "advertised.listeners": told}
        bound = f"PLAINTEXT://127.0.0.1:{self._own_ports[node_id]}"
        told = f"PLAINTEXT://127.0.0.1:{self.ports[node_id]}"
        if node_id not in self.voters:
            return {"process.roles": "broker", "listeners": bound, "advertised.listeners": told}
        return {
            "process.roles": "broker,controller",
            "listeners": f"{bound},CONTROLLER://127.0.0.1:{controllers[node_id]}",
            "advertised.listeners": f"{told},CONTROLLER://127.0.0.1:{told_controllers[node_id]}",
        }

    @property
    def _has_kafka(self) -> bool:
        return APACHE_KAFKA in self.products.values()

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        for node_id, texts in self.properties.items():
            self._file(node_id).write_text(
                "".join(f"{name}={value}\n" for name, value in texts.items())
            )
            self._format(node_id)
        try:
            self.start(*(node_id for node_id in self.node_ids if node_id not in self._late))
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_all()

    @property
    def bootstrap(self) -> str:
        """Return the addresses for clients, which are those of all brokers that do not come late."""
        return ",".join(
            f"127.0.0.1:{port}" for node_id, port in self.ports.items() if node_id not in self._late
        )

    @property
    def running(self) -> tuple[int, ...]:
        """The nodes that were started, and not ended since; a process may have ended by itself."""
        return tuple(sorted(self._processes))

    def data(self, node_id: int) -> Path:
        """The log directory of a node."""
        return self.directory / f"data{node_id}"

    def log(self, node_id: int) -> str:
        """Return the output of a node over all its starts."""
        return (self.directory / f"node{node_id}.log").read_text(errors="replace")

    def segments(self, node_id: int, topic: str, partition: int = 0) -> bytes:
        """Return the content of a node's segments of a partition, one after the other."""
        return b"".join(
            path.read_bytes()
            for path in sorted((self.data(node_id) / f"{topic}-{partition}").glob("*.log"))
        )

    # What happens to nodes

    def start(self, *node_ids: int) -> None:
        """Start nodes, and wait until they are in the cluster."""
        self.launch(*node_ids)
        for node_id in node_ids:
            self._wait_for_port(node_id)
        self.wait_until_told(*self._processes)

    def launch(self, *node_ids: int) -> None:
        """Start the processes of nodes, and wait for nothing."""
        for node_id in node_ids:
            assert node_id not in self._processes, f"node {node_id} runs already"
            process = self._processes[node_id] = self._launch(node_id)
            self._ways.open(node_id, process.pid)

    def fail_directory(self, node_id: int, name: str) -> None:
        """Let every write to one of the two log directories of a node fail from now on."""
        (self.data(node_id) / f"{name}.failed").touch()

    def wipe(self, node_id: int) -> None:
        """Give a node that does not run an empty disk, formatted anew."""
        assert node_id not in self._processes, f"node {node_id} runs"
        shutil.rmtree(self.data(node_id))
        self._format(node_id)

    def kill(self, node_id: int) -> None:
        """End a node at once: nothing more is written."""
        self._end(node_id, signal.SIGKILL)

    def stop(self, node_id: int) -> None:
        """Stop a node in order: it gives up what it leads first."""
        self._end(node_id, signal.SIGTERM)

    def stop_together(self, *node_ids: int) -> None:
        """Stop nodes in order, all at once."""
        for node_id in node_ids:
            self._processes[node_id].terminate()
        for node_id in node_ids:
            self._wait_for_end(node_id)

    def replace(self, node_id: int, product: str) -> None:
        """Stop a node in order, and start the other product over the same directory, with the same
        file.
        """
        self.stop(node_id)
        self.products[node_id] = product
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        """Stop a node's process where it is: its connections stay, and nothing is answered."""
        self._processes[node_id].send_signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """Let a paused process go on."""
        self._processes[node_id].send_signal(signal.SIGCONT)

    def ended_by_itself(self, node_id: int) -> int | None:
        """Forget the process of a node that has ended by itself, and return its exit code.

        None if it runs, or was ended.
        """
        process = self._processes.get(node_id)
        if process is None or process.poll() is None:
            return None
        self._forget(node_id)
        return process.returncode

    def wait_until_whole(self, *topics: str) -> None:
        """Start each node that does not run, and wait until all partitions of the topics are in
        sync.

        All of their replicas are in sync then.
        """
        self.start(
            *(
                node_id
                for node_id in self.node_ids
                if node_id not in self._processes and node_id not in self._late
            )
        )
        _until(partial(self._are_in_sync, topics), "all replicas are in sync")

    def wait_until_told(self, *node_ids: int) -> None:
        """Wait until clients are told exactly these nodes, as far as they are brokers, by each of
        them.
        """
        brokers = {node_id for node_id in node_ids if node_id in self.broker_ids}
        for node_id in brokers:
            _until(
                partial(self._is_told_by, node_id, brokers),
                f"node {node_id} tells nodes {sorted(brokers)}",
            )

    # What clients see

    def leader_of(self, topic: str, partition: int) -> int:
        """The node that leads a partition."""
        with BlockingAdmin(self.bootstrap, **self.login) as admin:
            return admin.describe_topics([topic])[topic].partitions[partition].leader

    def coordinator_of(self, group_id: str) -> int:
        """The node that coordinates a group, once there is one."""
        with BlockingAdmin(self.bootstrap, **self.login) as admin:
            return admin.describe_groups([group_id])[group_id].coordinator.node_id

    def controller(self, *, besides: Collection[int] = ()) -> int:
        """Return the node that leads the metadata quorum, as the running nodes say.

        ``besides`` are not asked, and not believed to lead.
        """
        alive = self._processes.keys() - set(besides)
        running = ",".join(
            f"127.0.0.1:{self.ports[node_id]}"
            for node_id in sorted(alive)
            if node_id in self.broker_ids
        )
        found: list[int] = []

        def is_known() -> bool:
            with BlockingAdmin(running, default_api_timeout_ms=5_000, **self.login) as admin:
                found.append(admin.describe_metadata_quorum().leader_id)
            return found[-1] in alive

        _until(is_known, "a node leads the quorum")
        return found[-1]

    def replicas_of(self, topic: str) -> list[tuple[int, ...]]:
        """The nodes that hold each partition of a topic, in order of the partitions."""
        with BlockingAdmin(self.bootstrap, **self.login) as admin:
            return [
                partition.replicas for partition in admin.describe_topics([topic])[topic].partitions
            ]

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Move a partition to other nodes, and wait until just these have it.

        All are in sync then, and one of them leads it.
        """
        with BlockingAdmin(self.bootstrap, **self.login) as admin:
            admin.alter_partition_reassignments({TopicPartition(topic, partition): replicas})

            def is_there() -> bool:
                found = admin.describe_topics([topic])[topic].partitions[partition]
                places = (list(found.replicas), set(found.isr), found.leader in replicas)
                return (
                    places == (list(replicas), set(replicas), True)
                    and not admin.list_partition_reassignments()
                )

            _until(is_there, f"{topic}-{partition} is on {replicas}")

    def wait_until_equal(self, *topics: str) -> None:
        """Wait until all replicas of the topics' partitions hold the same bytes.

        Followers fetch for a moment after the last response.
        """
        for topic in topics:
            for partition, replicas in enumerate(self.replicas_of(topic)):
                _until(
                    partial(self._are_equal, topic, partition, replicas),
                    f"the replicas of {topic}-{partition} hold the same bytes",
                )

    def _are_equal(self, topic: str, partition: int, replicas: Sequence[int]) -> bool:
        first, *others = replicas
        held = self.segments(first, topic, partition)
        return all(self.segments(other, topic, partition) == held for other in others)

    def _are_in_sync(self, topics: Sequence[str]) -> bool:
        with BlockingAdmin(self.bootstrap, **self.login) as admin:
            told = admin.describe_topics(list(topics)) if topics else {}
        return all(
            len(each.isr) == len(each.replicas)
            for topic in told.values()
            for each in topic.partitions
        )

    def _is_told_by(self, node_id: int, node_ids: set[int]) -> bool:
        with BlockingAdmin(
            f"127.0.0.1:{self.ports[node_id]}", default_api_timeout_ms=5_000, **self.login
        ) as admin:
            return {node.node_id for node in admin.describe_cluster().nodes} == node_ids

    # Processes

    def _file(self, node_id: int) -> Path:
        return self.directory / f"node{node_id}.properties"

    def _format(self, node_id: int) -> None:
        file = str(self._file(node_id))
        alone = ["--standalone"] if self._is_dynamic and node_id in self.voters else []
        if node_id in self._joining:
            alone = ["--no-initial-controllers"]
        levels = [word for name in self._unserved for word in ("--feature", f"{name}=0")]
        if self.products[node_id] == APACHE_KAFKA:
            words = (*alone, "-t", CLUSTER_ID, "-c", file, *levels, *self._format_arguments)
            java("kafka.tools.StorageTool", "format", *words, cwd=self.directory)
        else:
            done = CliRunner().invoke(
                storage,
                [
                    "format",
                    *alone,
                    "--cluster-id",
                    CLUSTER_ID,
                    "--config",
                    file,
                    *levels,
                    *self._format_arguments,
                ],
            )
            assert done.exit_code == 0, done.output

    def _launch(self, node_id: int) -> subprocess.Popen[bytes] | ForkedProcess:
        path = self.directory / f"node{node_id}.log"
        if self.products[node_id] == APACHE_KAFKA:
            command = [*java_command(), "kafka.Kafka", str(self._file(node_id))]
            with path.open("ab") as log:
                return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        overrides = [f"{name}={value}" for name, value in self.properties[node_id].items()]
        return start_forked(
            overrides,
            log=path,
            target=node_of_failing_directories if self._has_two_directories else node,
        )

    def _wait_for_port(self, node_id: int) -> None:
        process = self._processes[node_id]

        def is_there() -> bool:
            assert process.poll() is None, (
                f"node {node_id} ended with {process.returncode}: {self.log(node_id)[-2_000:]}"
            )
            with socket.socket() as probe:
                probe.settimeout(0.5)
                return probe.connect_ex(("127.0.0.1", self._own_ports[node_id])) == 0

        _until(is_there, f"node {node_id} takes connections")

    def _end(self, node_id: int, number: int) -> None:
        process = self._processes[node_id]
        process.send_signal(number)
        if number != signal.SIGKILL:
            process.send_signal(signal.SIGCONT)
        self._wait_for_end(node_id)

    def _wait_for_end(self, node_id: int) -> None:
        process = self._processes[node_id]
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            self._forget(node_id)

    def _forget(self, node_id: int) -> None:
        del self._processes[node_id]
        self._ways.close(node_id)

    def _end_all(self) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)


def _until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(KafkaError):
            if is_so():
                return
        assert time.monotonic() < deadline, f"it never came about that {what}"
        time.sleep(0.1)
