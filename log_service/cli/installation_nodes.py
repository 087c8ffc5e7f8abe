"""The nodes of a ``tidelog up`` installation, from another command: which there are, and how one starts, ends or restarts.

A broker is the installation's only if its cluster has the same id: an installation beside another cluster is left alone.
"""

from pathlib import Path
from typing import Any

import click

from log_service.cli.output import data_option
from log_service.client.blocking.admin import BlockingAdmin
from log_service.cluster_operations.waiting import wait_until_serving
from log_service.common.errors import TidelogError
from log_service.supervisor import state
from log_service.supervisor.control import ADD, REMOVE, RESTART, START, STOP, ControlRequest, ask
from log_service.supervisor.nodes import ClusterSpec, read_cluster

CONTROL_SECONDS = 180.0

nodes_option = data_option("The directory of the tidelog up whose nodes these are.")


def running_cluster(data: Path) -> ClusterSpec | None:
    """Return the nodes that a supervisor runs on a directory; None where there is none, or it runs a broker alone."""
    return read_cluster(data) if state.is_locked(data) else None


def required_cluster(data: Path) -> ClusterSpec:
    """Return the nodes that a supervisor runs.

    Raises:
        ClickException: there is none, or it runs a broker alone.
    """
    if not state.is_locked(data):
        raise click.ClickException(f"nothing runs on {data}: start it with tidelog up --brokers N, or name its directory with --data")
    cluster = read_cluster(data)
    if cluster is None:
        raise click.ClickException(f"tidelog up runs a broker alone on {data}: a cluster is started with --brokers N, on another directory")
    return cluster


def require_same_cluster(data: Path, cluster_id: str) -> None:
    """Refuse to operate an installation by what another cluster says.

    Raises:
        ClickException: the brokers that were asked are of another cluster.
    """
    own = required_cluster(data).cluster_id
    if own != cluster_id:
        raise click.ClickException(
            f"the brokers of --bootstrap-servers are of cluster {cluster_id}, and {data} is of cluster {own}: name that one's brokers"
        )


def runs_node(data: Path, admin: BlockingAdmin, node_id: int) -> bool:
    """Whether a supervisor on the directory runs that broker of this cluster."""
    cluster = running_cluster(data)
    if cluster is None or cluster.cluster_id != admin.describe_cluster().cluster_id:
        return False
    return any(node.node_id == node_id for node in cluster.nodes)


def start_node(data: Path, admin: BlockingAdmin) -> int:
    """Start one more node and return its id, once the cluster tells that it serves.

    Raises:
        ControlRefused: it does not start.
        ClusterNotReady: it does not join.
    """
    started: dict[str, Any] = ask(data, ControlRequest(command=ADD), timeout_s=CONTROL_SECONDS)
    node_id = int(started["node_id"])
    wait_until_serving(admin, node_id)
    return node_id


def stop_node(data: Path, node_id: int) -> None:
    """Stop a node for good. Raises as ``ask``."""
    ask(data, ControlRequest(command=REMOVE, node_id=node_id), timeout_s=CONTROL_SECONDS)


def restart_node(data: Path, node_id: int) -> None:
    """Restart a node in order. Raises as ``ask``."""
    ask(data, ControlRequest(command=RESTART, node_id=node_id), timeout_s=CONTROL_SECONDS)


def hold_node(data: Path, node_id: int) -> None:
    """Stop a node until ``release_node``. Raises as ``ask``."""
    ask(data, ControlRequest(command=STOP, node_id=node_id), timeout_s=CONTROL_SECONDS)


def release_node(data: Path, node_id: int) -> None:
    """Start a node that was stopped. Raises as ``ask``."""
    ask(data, ControlRequest(command=START, node_id=node_id), timeout_s=CONTROL_SECONDS)


def refuse_to_stop(data: Path, node_id: int) -> None:
    """Refuse to take away a node that the installation's files name as a controller.

    Raises:
        ClickException: it is one.
    """
    cluster = running_cluster(data)
    if cluster is not None:
        try:
            cluster.without(node_id)
        except TidelogError as error:
            raise click.ClickException(str(error)) from error
