"""``tidelog cluster stop | start`` stops a node of ``tidelog up``, and starts it again.

This is for work on the node's disk or machine. The supervisor leaves the node down until
``tidelog cluster start``, or until the next ``tidelog up``, which starts all nodes. A node is
stopped only if the cluster works without it.
"""

from pathlib import Path

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.installation_nodes import nodes_option, require_same_cluster, required_cluster
from log_service.cli.node_ids import NODE_ID
from log_service.cli.output import counted, json_option, note, print_result
from log_service.cluster_operations.reading import read_state
from log_service.cluster_operations.waiting import wait_until_serving
from log_service.cluster_plans.rolling import obstacles_to_stay_down, single_replicas
from log_service.common.errors import TidelogError
from log_service.supervisor import state as supervisor_state
from log_service.supervisor.installation import Installation
from log_service.supervisor.nodes import NodeSpec


@click.command(short_help="Stop a node of tidelog up for a while.")
@click.argument("node_id", type=NODE_ID, metavar="ID")
@click.option("--force", is_flag=True, help="Stop it even where the cluster cannot be without it.")
@nodes_option
@json_option
@cluster_command
async def stop(
    *, node_id: int, force: bool, data: Path, as_json: bool, bootstrap_servers: str
) -> None:
    """Stop node ID of the `tidelog up` on --data, until `tidelog cluster start ID`.

    Other nodes lead its partitions first. The command refuses to stop a node that the cluster
    cannot be without, unless --force is given.
    """
    name = require_node(data, node_id).name
    if any(
        component.name == name and component.state == "stopped"
        for component in supervisor_state.read(data)
    ):
        raise click.ClickException(
            f"node {node_id} is stopped already; to start it: tidelog cluster start {node_id}"
        )
    async with open_admin(bootstrap_servers) as admin:
        state = await read_state(admin)
    require_same_cluster(data, state.cluster_id)
    why = obstacles_to_stay_down(state.layout, state.quorum, node_id)
    if why and not force:
        raise click.ClickException(
            f"node {node_id} is not stopped: {'; '.join(why)}. --force stops it all the same"
        )
    alone = len(single_replicas(state.layout, node_id))
    note(f"node {node_id} stops; others lead its partitions first")
    await Installation(data).hold(node_id)
    text = f"node {node_id} is stopped until: tidelog cluster start {node_id}"
    if alone:
        text += (
            f"\n{counted(alone, 'partition')} with a single replica {'is' if alone == 1 else 'are'}"
            " offline until then"
        )
    print_result(
        text, {"node_id": node_id, "state": "stopped", "offline_partitions": alone}, as_json=as_json
    )


@click.command(short_help="Start a node of tidelog up that was stopped.")
@click.argument("node_id", type=NODE_ID, metavar="ID")
@nodes_option
@json_option
@cluster_command
async def start(*, node_id: int, data: Path, as_json: bool, bootstrap_servers: str) -> None:
    """Start node ID, which `tidelog cluster stop` has stopped, and wait until it serves."""
    require_node(data, node_id)
    note(f"node {node_id} is to start")
    await Installation(data).release(node_id)
    async with open_admin(bootstrap_servers) as admin:
        await wait_until_serving(admin, node_id, note)
    print_result(
        f"node {node_id} serves again", {"node_id": node_id, "state": "ready"}, as_json=as_json
    )


def require_node(data: Path, node_id: int) -> NodeSpec:
    """Return a node of the installation on a data directory.

    Raises:
        ClickException: no cluster runs there, or it has no such node.
    """
    try:
        return required_cluster(data).node(node_id)
    except TidelogError as error:
        raise click.ClickException(str(error)) from error
