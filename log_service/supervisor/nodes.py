"""The nodes of an installation with several brokers on one machine, and their properties files.

An installation of ``tidelog up --brokers N`` keeps its nodes in ``cluster.json``: the cluster's id,
each node's id and roles, and the id that the next node gets, which no node had before. With three
or more nodes the first three are brokers and controllers, because a quorum of three survives the
loss of one. With fewer nodes, only node 1 is the controller. Nodes that join later are brokers,
because the voters are fixed in the files.

The properties files have the keys of Kafka's server.properties, so ``tidelog serve`` and Apache
Kafka start from them, too. Ports follow from the node's id. Node 1 has the broker port that
``tidelog up`` was given, node 2 the next one. A controller listens ``CONTROLLER_PORTS`` above its
broker port. In a secured installation, each node also has a listener that checks passwords,
``LOGIN_PORTS`` above its broker port.
"""

import json
import os
import socket
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from log_service.common.counts import agreed, counted
from log_service.common.errors import ConfigError, StorageError
from log_service.common.listeners import LOOPBACK
from log_service.common.urls import host_port
from log_service.config.properties import parse_properties
from log_service.supervisor.authority import write_private
from log_service.supervisor.components import (
    BROKER,
    DAY_MS,
    DECLARED_TOPICS_FILE,
    METRICS_KEY,
    check_ports_are_free,
    metrics_port_of,
    metrics_url,
    registry_properties,
)
from log_service.supervisor.protection import LOGIN_LISTENER, SECURE_LISTENER, login_server, protect
from log_service.supervisor.spec import Component, KafkaReadiness, ServiceContext

CLUSTER_FILE = "cluster.json"
PROPERTIES_FILE = "server.properties"
CLIENT_LISTENER = "PLAINTEXT"
BOTH_ROLES, BROKER_ROLE = "broker,controller", "broker"
VOTERS = 3
FACTOR = 3
CONTROLLER_PORTS = 1000
MAX_BROKERS = 100
FORMAT_SECONDS = 60.0
STOP_SECONDS = 45.0
"""A broker waits up to 30 s for a controller to let it go. Without a quorum no controller does.

Then it closes its logs in order.
"""
LAST_PORT = 65_535
REPLICA_COUNTS = (
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
"""Properties that count replicas of one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node; ``roles`` are those of ``process.roles``."""

    node_id: int
    roles: str

    @property
    def is_controller(self) -> bool:
        """Whether the node is a voter of the metadata quorum."""
        return self.roles == BOTH_ROLES

    @property
    def name(self) -> str:
        """The name of the node's component and of its directory."""
        return BROKER if self.node_id == 1 else f"{BROKER}{self.node_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """All nodes of an installation, in the order of their ids.

    ``rack`` is the ``broker.rack`` of all of them, empty for none.
    """

    cluster_id: str
    nodes: tuple[NodeSpec, ...]
    next_node_id: int
    rack: str = ""

    def node(self, node_id: int) -> NodeSpec:
        """Return the node with an id.

        Raises:
            ConfigError: no node has that id.
        """
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise ConfigError(
            f"this installation has no node {node_id}; it has"
            f" {', '.join(str(node.node_id) for node in self.nodes)}"
        )

    def with_one_more(self) -> "ClusterSpec":
        """Return the cluster with another broker."""
        node = NodeSpec(node_id=self.next_node_id, roles=BROKER_ROLE)
        return replace(self, nodes=(*self.nodes, node), next_node_id=self.next_node_id + 1)

    def without(self, node_id: int) -> "ClusterSpec":
        """Return the cluster without a broker.

        Raises:
            ConfigError: the node does not exist, or is a voter, which the files of all nodes name.
        """
        if self.node(node_id).is_controller:
            controllers = ", ".join(str(node.node_id) for node in self.nodes if node.is_controller)
            raise ConfigError(
                f"node {node_id} is a controller, and the files of all nodes name it: of this"
                f" installation {controllers} stay, and the others can be taken away. tidelog"
                f" cluster drain {node_id} empties it, tidelog cluster stop {node_id} stops it for"
                " a while"
            )
        return replace(self, nodes=tuple(node for node in self.nodes if node.node_id != node_id))


def new_cluster(count: int, cluster_id: str, rack: str = "") -> ClusterSpec:
    """Return a cluster of ``count`` nodes."""
    voters = VOTERS if count >= VOTERS else 1
    nodes = tuple(
        NodeSpec(node_id=number, roles=BOTH_ROLES if number <= voters else BROKER_ROLE)
        for number in range(1, count + 1)
    )
    return ClusterSpec(cluster_id=cluster_id, nodes=nodes, next_node_id=count + 1, rack=rack)


def read_cluster(data_directory: Path) -> ClusterSpec | None:
    """Read the nodes of an installation from ``cluster.json``. Return None for a single broker.

    Raises:
        StorageError: the file cannot be understood.
    """
    path = data_directory / CLUSTER_FILE
    try:
        content = json.loads(path.read_text())
        nodes = tuple(NodeSpec(**node) for node in content.pop("nodes"))
        return ClusterSpec(nodes=nodes, **content)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(
            f"{path} does not tell the nodes of an installation ({error}): put back the file as"
            " it was"
        ) from error


def write_cluster(data_directory: Path, cluster: ClusterSpec) -> None:
    """Write the nodes of an installation to ``cluster.json``."""
    data_directory.mkdir(parents=True, exist_ok=True)
    path = data_directory / CLUSTER_FILE
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(asdict(cluster), indent=2))
    beside.replace(path)


def cluster_of(data_directory: Path, count: int | None, rack: str | None) -> ClusterSpec | None:
    """Return the nodes with which an installation starts. None means a single broker.

    They are the nodes that it has, and further ones up to ``count`` if that is given. Without a
    ``rack`` the nodes of a new installation get a rack with the host's name, and those of an older
    one keep theirs.

    Raises:
        ConfigError: the installation already has more nodes, or is a single broker that others
            cannot join.
        StorageError: ``cluster.json`` cannot be understood.
    """
    present = read_cluster(data_directory)
    if present is None:
        if count is None:
            return None
        if (data_directory / BROKER).exists():
            raise ConfigError(
                f"{data_directory} holds a broker that was started without --brokers and has no"
                " listener for other nodes: name another directory with --data"
            )
        return new_cluster(count, _random_id(), socket.gethostname() if rack is None else rack)
    if count is not None and count < len(present.nodes):
        raise ConfigError(
            f"{data_directory} has {counted(len(present.nodes), 'broker')}, which is more than"
            f" {count}: take one away while it runs, with tidelog cluster remove ID --execute"
        )
    while count is not None and len(present.nodes) < count:
        present = present.with_one_more()
    return present if rack is None else replace(present, rack=rack)


def _random_id() -> str:
    """Return a cluster id as Kafka writes them.

    It has 22 characters for 16 random bytes, and does not begin with a dash.
    """
    while True:
        text = urlsafe_b64encode(os.urandom(16)).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def broker_port(first_port: int, node: NodeSpec) -> int:
    """Return the port on which clients reach a node."""
    return first_port + node.node_id - 1


def controller_port(first_port: int, node: NodeSpec) -> int:
    """Return the port on which a controller listens for the other nodes."""
    return first_port + CONTROLLER_PORTS + node.node_id - 1


def bootstrap_servers(cluster: ClusterSpec, host: str, first_port: int) -> str:
    """Return the addresses of all nodes, for clients."""
    return ",".join(host_port(host, broker_port(first_port, node)) for node in cluster.nodes)


def servers_of(data_directory: Path) -> list[str]:
    """Return the addresses of an installation's nodes, as its last start wrote them.

    Nodes without a usable properties file are left out.

    Raises:
        StorageError: ``cluster.json`` cannot be understood.
    """
    cluster = read_cluster(data_directory)
    servers = []
    for name in [node.name for node in cluster.nodes] if cluster is not None else [BROKER]:
        try:
            settings = parse_properties(
                (data_directory / name / PROPERTIES_FILE).read_text("utf-8")
            )
        except (OSError, ValueError, ConfigError):
            continue  # it was never started, or its file is unusable
        for listener in settings.get("listeners", "").split(","):
            protocol, _, address = listener.strip().partition("://")
            if protocol in {CLIENT_LISTENER, SECURE_LISTENER} and address:
                servers.append(address)
    return servers


def refuse_factors(overrides: Iterable[str], broker_count: int) -> None:
    """Refuse the user's properties that set more replicas than there are brokers.

    A topic with so many replicas could not be created.

    Raises:
        ConfigError: there are such properties. The text names all of them.
    """
    settings = dict(override.split("=", 1) for override in overrides)
    wanted = {key.strip(): value.strip() for key, value in settings.items()}
    too_many = [
        f"{key}={wanted[key]}"
        for key in REPLICA_COUNTS
        if wanted.get(key, "").isascii()
        and wanted.get(key, "").isdecimal()
        and int(wanted[key]) > broker_count
    ]
    if too_many:
        there = f"there {agreed(broker_count, 'is', 'are')} {counted(broker_count, 'broker')}"
        raise ConfigError(
            f"{', '.join(too_many)}: {there}, and a partition has at most one replica on each; "
            f"set at most {broker_count}, or run more brokers with --brokers N"
        )


def login_servers(cluster: ClusterSpec | None, first_port: int) -> list[str]:
    """Return the addresses of the listeners at which nodes check passwords.

    ``cluster`` is None for a single broker.
    """
    ports = (
        [first_port]
        if cluster is None
        else [broker_port(first_port, node) for node in cluster.nodes]
    )
    return [login_server(port) for port in ports]


def check_node_ports(cluster: ClusterSpec, host: str, first_port: int) -> None:
    """Refuse occupied ports before anything starts. The error names all of them.

    Raises:
        ConfigError: another process listens on one of them, or a port is above 65535.
    """
    wanted = []
    for node in cluster.nodes:
        wanted.append((host, broker_port(first_port, node), node.name, "--broker-port"))
        if node.is_controller:
            wanted.append(
                (
                    LOOPBACK,
                    controller_port(first_port, node),
                    f"the controller of {node.name}",
                    "--broker-port",
                )
            )
    _check_ports(wanted)


def check_login_ports(cluster: ClusterSpec | None, first_port: int) -> None:
    """Refuse occupied ports of listeners that check passwords. Raises as ``check_node_ports``."""
    servers = [server.rpartition(":") for server in login_servers(cluster, first_port)]
    _check_ports(
        [(host, int(port), "the login of the UI", "--broker-port") for host, _, port in servers]
    )


def _check_ports(wanted: Sequence[tuple[str, int, str, str]]) -> None:
    for _, port, what, option in wanted:
        if port > LAST_PORT:
            raise ConfigError(
                f"{what} would listen on port {port}, which is none: name a lower one with {option}"
            )
    check_ports_are_free(wanted)


def properties_of(
    cluster: ClusterSpec,
    node: NodeSpec,
    *,
    host: str,
    first_port: int,
    logs: Path,
    metrics: str | None,
) -> dict[str, str]:
    """Return a node's server properties, without encryption and login.

    ``logs`` is the directory of the node's logs. ``metrics`` is the listener of its metrics page,
    None for no page. Topics get a replication factor of 3 by default, or the number of brokers if
    that is lower.
    """
    factor = min(FACTOR, len(cluster.nodes))
    min_isr = str(max(1, factor - 1))
    listeners = f"{CLIENT_LISTENER}://{host_port(host, broker_port(first_port, node))}"
    if node.is_controller:
        listeners += f",CONTROLLER://{LOOPBACK}:{controller_port(first_port, node)}"
    voters = [each for each in cluster.nodes if each.is_controller]
    settings = {
        "node.id": str(node.node_id),
        "process.roles": node.roles,
        "cluster.id": cluster.cluster_id,
        "listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": ",".join(
            f"{each.node_id}@{LOOPBACK}:{controller_port(first_port, each)}" for each in voters
        ),
        "log.dirs": str(logs),
        "default.replication.factor": str(factor),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": min_isr,
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": min_isr,
        "log.retention.check.interval.ms": str(DAY_MS),
        "log.cleaner.backoff.ms": str(DAY_MS),
    }
    if cluster.rack:
        settings["broker.rack"] = cluster.rack
    if metrics is not None:
        settings[METRICS_KEY] = metrics
    return settings


def protected(settings: Mapping[str, str], protection: Mapping[str, str]) -> dict[str, str]:
    """Return a node's properties with TLS on its listener for clients and other brokers.

    A listener that checks passwords is added. ``protection`` are the properties that secure a node.
    """
    listeners = settings["listeners"].replace(f"{CLIENT_LISTENER}://", f"{SECURE_LISTENER}://", 1)
    client_port = int(listeners.partition(",")[0].rpartition(":")[2])
    listeners += f",{LOGIN_LISTENER}://{login_server(client_port)}"
    return {
        **settings,
        **protection,
        "listeners": listeners,
        "inter.broker.listener.name": SECURE_LISTENER,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFactory:
    """Makes the components of nodes.

    ``overrides`` are the user's own properties. They come last in the file of each node.
    """

    context: ServiceContext
    first_port: int
    overrides: tuple[str, ...] = ()
    is_secure: bool = False

    def component(self, cluster: ClusterSpec, node: NodeSpec) -> Component:
        """Return a node's component, and write its properties file.

        Only the owner may read the file, because the user's own lines may be secret.
        """
        directory = self.context.data_directory / node.name
        directory.mkdir(parents=True, exist_ok=True)
        address = host_port(self.context.host, broker_port(self.first_port, node))
        settings = properties_of(
            cluster,
            node,
            host=self.context.host,
            first_port=self.first_port,
            logs=directory / "logs",
            metrics=self._metrics(node),
        )
        settings["auto.create.topics.declarations"] = str(
            self.context.data_directory / DECLARED_TOPICS_FILE
        )
        protection = (
            protect(self.context.data_directory, self.context.host, [node.name])
            if self.is_secure
            else None
        )
        settings |= registry_properties(self.context, node.name, protection)
        if protection is not None:
            settings |= protected(settings, protection.node_properties(node.name))
        lines = [f"{key}={value}" for key, value in settings.items()]
        path = directory / PROPERTIES_FILE
        note = "# Written anew by `tidelog up`; change it there with --broker key=value."
        write_private(path, "\n".join([note, *lines, *self.overrides, ""]).encode())
        return Component(
            name=node.name,
            argv=(sys.executable, "-m", "log_service.cli.main", "serve", str(path)),
            readiness=KafkaReadiness(
                bootstrap_servers=address, client_config=self.context.operator_config
            ),
            address=address,
            metrics_url=metrics_url([*lines, *self.overrides]),
            start_deadline_s=60.0,
            stop_deadline_s=STOP_SECONDS,
            stop_group=BROKER,
        )

    def format(self, cluster: ClusterSpec, nodes: Iterable[NodeSpec]) -> None:
        """Format the directories of new controllers. Brokers format their own at their start.

        A controller must not do so. After a replaced disk it would start without a record of its
        vote, and could vote twice in one election. So call this only for nodes that were never
        started. A directory that is formatted already is not changed. Blocks.

        Raises:
            StorageError: a directory cannot be formatted. The text is the output of the command.
        """
        for node in nodes:
            if not node.is_controller or len(cluster.nodes) == 1:
                continue
            self.component(cluster, node)
            path = self.context.data_directory / node.name / PROPERTIES_FILE
            tool = [
                sys.executable,
                "-m",
                "log_service.cli.main",
                "storage",
                "format",
                "--ignore-formatted",
            ]
            command = [*tool, "--cluster-id", cluster.cluster_id, "--config", str(path)]
            finished = subprocess.run(  # noqa: S603 - our own
                command, check=False, capture_output=True, text=True, timeout=FORMAT_SECONDS
            )
            if finished.returncode:
                output = (finished.stderr or finished.stdout).strip()
                raise StorageError(f"the directories of {node.name} cannot be formatted: {output}")

    def _metrics(self, node: NodeSpec) -> str | None:
        if self.context.metrics_port is None:
            return None
        first = self.context.metrics_port
        port = (
            first
            if node.node_id == 1
            else metrics_port_of(self.context.host, None, usual=first + node.node_id - 1)
        )
        return None if port is None else host_port(self.context.host, port)

    def components(self, cluster: ClusterSpec) -> Sequence[Component]:
        """Return the components of all nodes, and write their properties files."""
        return [self.component(cluster, node) for node in cluster.nodes]
