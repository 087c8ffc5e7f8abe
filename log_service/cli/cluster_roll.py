"""``tidelog cluster roll``: restart the brokers one by one, each only while the cluster can be without it.

Nodes of ``tidelog up`` are restarted by their supervisor, others by a command of the person's own, in which ``{id}`` and ``{host}`` stand
for the broker's. The cluster decides when the next one may go: all replicas are in sync, and all voters are up to date.
"""

import shlex
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from log_service.cli.connection import open_admin
from log_service.cli.installation_nodes import data_option, restart_node, runs_node
from log_service.cli.output import bootstrap_option, counted, json_option, print_json, print_rows
from log_service.client.blocking.admin import BlockingAdmin
from log_service.cluster_operations import waiting
from log_service.cluster_operations.reading import ClusterState, read_state
from log_service.cluster_operations.waiting import SYNC_SECONDS, Restart
from log_service.cluster_plans.rolling import roll_order, single_replicas

COMMAND_SECONDS = 600.0


@click.command(short_help="Restart brokers one by one.")
@click.argument("broker_ids", nargs=-1, type=click.IntRange(min=0), metavar="[ID...]")
@click.option("--execute", is_flag=True, help="Do it; without it, the order is only shown.")
@click.option("--dry-run", is_flag=True, help="Only show the order, as without --execute.")
@click.option("--command", metavar="TEXT", help="What restarts a broker, such as 'ssh {host} systemctl restart kafka'.")
@click.option(
    "--wait", "wait_seconds", type=click.FloatRange(min=1), default=SYNC_SECONDS, show_default=True, metavar="SECONDS",
    help="How long the cluster may take to be in sync before each restart.",
)  # fmt: skip
@data_option
@json_option
@bootstrap_option
def roll(
    *,
    broker_ids: tuple[int, ...],
    execute: bool,
    dry_run: bool,
    command: str | None,
    wait_seconds: float,
    data: Path,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Restart brokers ID, or all, one by one; each waits until all replicas are in sync. The active controller's comes last."""
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    with open_admin(bootstrap_servers) as admin:
        before = read_state(admin)
        order = [each for each in roll_order(before.layout, before.quorum) if not broker_ids or each in broker_ids]
        for broker_id in broker_ids:
            if broker_id not in order:
                raise click.ClickException(f"there is no broker {broker_id} that serves")
        rows = plan_rows(before, order)
        if not as_json:
            print_rows(rows, ["broker", "leaders", "alone", "controller"], as_json=False)
        if execute:
            restart = restarter(admin, command, data, order, before)
            waiting.roll(admin, before, order, restart, partial(click.echo, err=True), wait_seconds=wait_seconds)
    if as_json:
        print_json({"order": rows, "executed": execute})
    else:
        click.echo(f"{counted(len(order), 'broker')} restarted" if execute else "nothing was restarted; --execute does it")


def plan_rows(state: ClusterState, order: Sequence[int]) -> list[dict[str, Any]]:
    """Return each broker in its turn, with what it leads and what is offline while it is away."""
    return [
        {
            "broker": broker_id,
            "leaders": sum(each.leader == broker_id for each in state.layout.partitions),
            "alone": len(single_replicas(state.layout, broker_id)),
            "controller": broker_id == state.quorum.leader_id,
        }
        for broker_id in order
    ]


def restarter(admin: BlockingAdmin, command: str | None, data: Path, order: Sequence[int], state: ClusterState) -> Restart:
    """Return what restarts a broker and comes back when it serves again.

    Raises:
        ClickException: nothing here can restart one of them.
    """
    if command is None:
        strange = [each for each in order if not runs_node(data, admin, each)]
        if strange:
            text = f"broker {strange[0]} is no node of a tidelog up on {data}"
            raise click.ClickException(f"{text}: say with --command what restarts it, or name the directory with --data")
        return lambda broker_id: restart_node(data, broker_id)
    hosts = {broker.broker_id: broker.address.rpartition(":")[0] for broker in state.layout.brokers}

    def run(broker_id: int) -> None:
        words = [word.replace("{id}", str(broker_id)).replace("{host}", hosts[broker_id]) for word in shlex.split(command)]
        finished = subprocess.run(words, check=False, timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL)  # noqa: S603 - the person's own
        if finished.returncode:
            raise click.ClickException(
                f"{shlex.join(words)} ended with exit code {finished.returncode}: broker {broker_id} is not restarted"
            )

    return run
