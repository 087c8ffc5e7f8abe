"""Finds the nodes of a ``tidelog up`` installation for commands, and refuses unsafe operations.

It also declares the option that names the installation. Refusals are errors of click.
"""

from pathlib import Path

import click

from log_service.cli.output import data_option
from log_service.common.errors import TidelogError
from log_service.supervisor import state
from log_service.supervisor.installation import Installation
from log_service.supervisor.nodes import ClusterSpec

nodes_option = data_option("The directory of the tidelog up whose nodes these are.")


def required_cluster(data: Path) -> ClusterSpec:
    """Return the nodes that the supervisor of a data directory runs.

    Raises:
        ClickException: no supervisor runs, it is starting, or it runs a single broker.
    """
    if not state.is_locked(data):
        raise click.ClickException(
            f"nothing runs on {data}: start it with tidelog up --brokers N, or name its directory"
            " with --data"
        )
    cluster = Installation(data).nodes()
    if cluster is None and not state.read(data):
        raise click.ClickException(
            f"tidelog is starting on {data}: ask again when everything is ready"
        )
    if cluster is None:
        raise click.ClickException(
            f"tidelog up runs a broker alone on {data}: a cluster is started with --brokers N, on"
            " another directory"
        )
    return cluster


def require_same_cluster(data: Path, cluster_id: str) -> None:
    """Refuse to operate an installation if the brokers of the command are another cluster.

    Raises:
        ClickException: ``cluster_id`` is not the id of the installation's cluster.
    """
    own = required_cluster(data).cluster_id
    if own != cluster_id:
        raise click.ClickException(
            f"the brokers of --bootstrap-servers are of cluster {cluster_id}, and {data} is of"
            f" cluster {own}: name that one's brokers"
        )


def refuse_to_stop(data: Path, node_id: int) -> None:
    """Refuse to remove a node that the installation's files name as a controller.

    Raises:
        ClickException: the node is such a controller.
    """
    cluster = Installation(data).nodes()
    if cluster is not None:
        try:
            cluster.without(node_id)
        except TidelogError as error:
            raise click.ClickException(str(error)) from error
