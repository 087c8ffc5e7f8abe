"""``tidelog cluster roll`` restarts brokers one by one, as long as the cluster works without them.

The supervisor restarts nodes of ``tidelog up``. A command of the user restarts other nodes.
``{id}`` and ``{host}`` in it are replaced by the broker's id and host. The next broker may restart
once all replicas are in sync and all voters are up to date.
"""

import shlex
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import trio

from log_service.cli.connection import NO_LEADER_TEXT, cluster_command, open_admin
from log_service.cli.installation_nodes import nodes_option
from log_service.cli.node_ids import NODE_ID
from log_service.cli.numbers import Number
from log_service.cli.output import (
    counted,
    even_unread,
    json_option,
    note,
    print_json,
    print_rows,
    refuse_both,
)
from log_service.cli.plan_view import plan_refusals
from log_service.client.admin.admin import Admin
from log_service.cluster_operations.reading import ClusterState, read_state
from log_service.cluster_operations.rolling import (
    Restart,
    RollingRestart,
    Stage,
    brokers_to_restart,
)
from log_service.cluster_operations.waiting import SYNC_SECONDS
from log_service.cluster_plans.layout import NO_LEADER, ClusterLayout, PlanRefused
from log_service.cluster_plans.rolling import single_replicas
from log_service.supervisor.installation import Installation

COMMAND_SECONDS = 600.0
CTRL_C_SECONDS = 0.25
"""How long a program may take to end by itself after Ctrl-C."""


@click.command(short_help="Restart brokers one by one.")
@click.argument("broker_ids", nargs=-1, type=NODE_ID, metavar="[ID...]")
@click.option("--execute", is_flag=True, help="Do it; without it, the order is only shown.")
@click.option("--dry-run", is_flag=True, help="Only show the order, as without --execute.")
@click.option(
    "--command",
    metavar="TEXT",
    help="What restarts a broker, such as 'ssh {host} systemctl restart kafka'.",
)
@click.option(
    "--wait",
    "wait_seconds",
    type=Number(min=1),
    default=SYNC_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the cluster may take to be in sync before each restart.",
)
@nodes_option
@json_option
@cluster_command
async def roll(
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
    """Restart brokers ID, or all, one by one. Each waits until all replicas are in sync.

    The active controller comes last. Without --command, `tidelog up` restarts its own nodes. All
    other brokers need --command.

    \b
    tidelog cluster roll --execute
    tidelog cluster roll --execute --command 'ssh {host} reboot-the-broker'
    """
    refuse_both({"--execute": execute, "--dry-run": dry_run})
    installation = Installation(data)
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        before = await read_state(admin)
        if before.quorum.leader_id == NO_LEADER:
            raise PlanRefused(NO_LEADER_TEXT)
        order = await brokers_to_restart(admin, before, broker_ids)
        words = words_of(command, order) if command is not None else []
        strange = (
            []
            if words
            else [each for each in order if not installation.runs(before.cluster_id, each)]
        )
        rows = plan_rows(before, order, "tidelog up" if not words else "--command", strange)
        if execute and strange:
            raise click.ClickException(f"{nothing_restarts(strange, data)}. Nothing was restarted")
        if not as_json:
            with even_unread(execute):
                show(rows, strange, data)
                print_down(before.layout)
        if execute:
            restart = commander(words, before) if words else installation.restart
            rolling = RollingRestart(before, order, restart, note, wait_seconds=wait_seconds)
            await carry_out(admin, rolling, command)
    if as_json:
        print_json({"order": rows, "executed": execute})
    else:
        click.echo(
            f"{counted(len(order), 'broker')} restarted"
            if execute
            else "nothing was restarted; --execute does it"
        )


def plan_rows(
    state: ClusterState, order: Sequence[int], by: str, strange: Collection[int]
) -> list[dict[str, Any]]:
    """Return a row per broker in restart order.

    A row counts the partitions that the broker leads, and those that no other broker can lead,
    which are offline during the restart. It also names the restarter: ``by``, or None for the
    brokers in ``strange``, which ``by`` cannot restart.
    """
    return [
        {
            "broker": broker_id,
            "leaders": sum(each.leader == broker_id for each in state.layout.partitions),
            "single_replicas": len(single_replicas(state.layout, broker_id)),
            "controller": broker_id == state.quorum.leader_id,
            "restarted_by": None if broker_id in strange else by,
        }
        for broker_id in order
    ]


def show(rows: Sequence[Mapping[str, Any]], strange: Sequence[int], data: Path) -> None:
    """Print the brokers in restart order, and warnings about the restart."""
    print_rows(
        rows, ["broker", "leaders", "single_replicas", "controller", "restarted_by"], as_json=False
    )
    single = sum(row["single_replicas"] for row in rows)
    if single:
        each = (
            "1 partition has a single replica: it is"
            if single == 1
            else f"{single} partitions have a single replica: each is"
        )
        click.echo(f"{each} offline while its broker restarts", err=True)
    if strange:
        click.echo(nothing_restarts(strange, data), err=True)


def print_down(layout: ClusterLayout) -> None:
    """Print the brokers that are down, because no other is restarted while replicas are missing."""
    for broker_id in layout.fenced:
        click.echo(
            f"broker {broker_id} is down: start it first, or the restart of the others waits"
            " for it",
            err=True,
        )


def nothing_restarts(strange: Sequence[int], data: Path) -> str:
    """Return the error text for brokers that this installation cannot restart, with advice."""
    is_one = len(strange) == 1
    brokers = (
        f"broker {strange[0]} is not a node"
        if is_one
        else f"brokers {', '.join(map(str, sorted(strange)))} are not nodes"
    )
    return (
        f"{brokers} of a tidelog up on {data}, so nothing here can restart"
        f" {'it' if is_one else 'them'}: say what does with --command 'ssh {{host}} systemctl"
        " restart kafka', or name the directory of their tidelog up with --data"
    )


def words_of(command: str, order: Sequence[int]) -> list[str]:
    """Split the user's command into words.

    Raises:
        BadParameter: the command cannot be split into words, or is the same for each of several
            brokers.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise click.BadParameter(
            f"{command!r} cannot be split into words: {error}", param_hint="--command"
        ) from error
    if not words:
        raise click.BadParameter("it is empty: say what restarts a broker", param_hint="--command")
    if len(order) > 1 and "{id}" not in command and "{host}" not in command:
        text = (
            f"{command!r} is the same for each of {len(order)} brokers: {{id}} and {{host}} stand"
            " for the broker's"
        )
        raise click.BadParameter(text, param_hint="--command")
    return words


def commander(words: Sequence[str], state: ClusterState) -> Restart:
    """Return a function that restarts a broker by a command and waits for the command to end."""
    hosts = {broker.broker_id: broker.address.rpartition(":")[0] for broker in state.layout.brokers}

    async def restart(broker_id: int) -> None:
        mine = [
            word.replace("{id}", str(broker_id)).replace("{host}", hosts[broker_id])
            for word in words
        ]
        try:
            exit_code = await exit_code_of(mine)
        except OSError as error:
            raise click.ClickException(
                f"{shlex.join(mine)} cannot be run ({error.strerror}): broker {broker_id} is not"
                " restarted"
            ) from error
        except trio.TooSlowError as error:
            raise click.ClickException(
                f"{shlex.join(mine)} had not ended after {COMMAND_SECONDS:.0f} s, and was killed"
            ) from error
        if exit_code:
            raise click.ClickException(
                f"{shlex.join(mine)} ended with exit code {exit_code}: broker {broker_id} is not"
                " restarted"
            )

    return restart


async def exit_code_of(words: Sequence[str]) -> int:
    """Run a program to its end and return its exit code.

    The program is killed after ``COMMAND_SECONDS``. It is also killed soon after Ctrl-C, which the
    terminal may have sent to it as well.

    Raises:
        OSError: the program cannot be run.
        TooSlowError: the program was killed after ``COMMAND_SECONDS``.
    """
    process = await trio.lowlevel.open_process(words, stdin=subprocess.DEVNULL)
    try:
        with trio.fail_after(COMMAND_SECONDS):
            return await process.wait()
    except KeyboardInterrupt:
        with trio.move_on_after(CTRL_C_SECONDS):
            await process.wait()
        raise
    finally:
        process.kill()


async def carry_out(admin: Admin, rolling: RollingRestart, command: str | None) -> None:
    """Restart the brokers.

    If that ends early, also by Ctrl-C, print which brokers are restarted and which restart is under
    way, with advice how to continue.

    Raises:
        Exit: 130, Ctrl-C.
    """
    try:
        await rolling.run(admin)
    except KeyboardInterrupt:
        lines = ["stopped", *await rolling.left_behind(admin)]
        if rolling.stage is Stage.RESTARTS and rolling.current is not None:
            lines.append(
                "tidelog up completes that restart by itself; tidelog status shows it"
                if command is None
                else (
                    f"the command that restarts broker {rolling.current} was cut off, too: see that"
                    " the broker runs"
                )
            )
        click.echo("\n".join([*lines, how_to_go_on(rolling, rolling.left, command)]), err=True)
        raise click.exceptions.Exit(130) from None
    except Exception:
        failed = (
            [] if rolling.current is None or rolling.current in rolling.left else [rolling.current]
        )
        click.echo(
            "\n".join(
                [
                    *await rolling.left_behind(admin),
                    how_to_go_on(rolling, [*failed, *rolling.left], command),
                ]
            ),
            err=True,
        )
        raise


def how_to_go_on(rolling: RollingRestart, left: Sequence[int], command: str | None) -> str:
    """Return advice how to continue a restart that ended early, for the brokers that are left."""
    if not left:
        after = (
            f"once broker {rolling.current} serves"
            if rolling.current is not None
            else "once all is in sync"
        )
        return (
            f"no other broker is left: {after}, tidelog cluster elect gives preferred leaders their"
            " partitions back"
        )
    words = [
        "tidelog cluster roll",
        *map(str, left),
        "--execute",
        *([] if command is None else ["--command", shlex.quote(command)]),
    ]
    return f"once tidelog cluster status says that all is well, go on with: {' '.join(words)}"
