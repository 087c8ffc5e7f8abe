"""``tidelog cluster voters add | remove`` changes the voters of the metadata quorum (KIP-853).

Each command shows the voters before and after, and how many of them may fail. ``--execute`` changes
them. ``tidelog cluster quorum`` lists them. These commands refuse a quorum that is fixed in the
nodes' files (``controller.quorum.voters``).
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.node_files import read_node_file
from log_service.cli.node_ids import NODE_ID
from log_service.cli.output import json_option, print_result
from log_service.cli.plan_view import plan_refusals
from log_service.client.admin.values import RaftVoter
from log_service.cluster_operations.membership import (
    refuse_undone_removal,
    refuse_voter,
    refuse_voter_removal,
    remove_voter,
)

CATCH_UP_MS = 60_000

execute_option = click.option(
    "--execute", is_flag=True, help="Change the voters; without it nothing happens."
)


@click.group(short_help="Change who votes in the metadata quorum.")
def voters() -> None:
    """Change the voters of the metadata quorum. `tidelog cluster quorum` shows them."""


@voters.command("add", short_help="Make a controller a voter.")
@click.argument(
    "properties", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@execute_option
@json_option
@cluster_command
async def add(*, properties: Path, execute: bool, as_json: bool, bootstrap_servers: str) -> None:
    """Make the controller with the properties FILE a voter.

    The controller has to run already, and to follow the metadata log.

    \b
    On the new controller's host:
      tidelog storage format -N -t CLUSTER_ID -c node4.properties
      tidelog serve node4.properties
      tidelog cluster voters add node4.properties -b broker:9092 --execute
    """
    cluster_id, voter = _voter_of(properties)
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        before = await refuse_voter(admin, cluster_id, voter)
        if execute:
            await admin.add_raft_voter(voter, timeout_ms=CATCH_UP_MS)
    _print_voters(before, sorted({*before, voter.node_id}), execute=execute, as_json=as_json)


@voters.command("remove", short_help="Take a voter out of the quorum.")
@click.argument("node_id", type=NODE_ID, metavar="ID")
@execute_option
@json_option
@cluster_command
async def remove(*, node_id: int, execute: bool, as_json: bool, bootstrap_servers: str) -> None:
    """Take voter ID out of the metadata quorum. The node stays an observer until it is stopped.

    A node that runs with controller.quorum.auto.join.enable=true would vote again some seconds
    later: stop it first, or set that to false and start it again.
    """
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        before = await refuse_voter_removal(admin, node_id)
        if execute:
            await remove_voter(admin, node_id)
            await refuse_undone_removal(admin, node_id)
    _print_voters(
        before, [each for each in before if each != node_id], execute=execute, as_json=as_json
    )


def _voter_of(properties: Path) -> tuple[str, RaftVoter]:
    """Return the cluster id for which a controller was formatted, and the controller as a voter."""
    from log_service.broker.env import real_env  # noqa: PLC0415 - the other commands need no node
    from log_service.raft.format import own_endpoint  # noqa: PLC0415 - as above
    from log_service.storage.meta_properties import read_meta_properties  # noqa: PLC0415 - as above

    config = read_node_file(properties)
    if not config.is_controller:
        raise click.ClickException(
            f"{properties} is of a broker alone: only a node whose process.roles has controller can"
            " vote"
        )
    owner = read_meta_properties(real_env(config).files, config.metadata_log_dir)
    if owner is None or owner.directory_id is None:
        raise click.ClickException(
            f"{config.metadata_log_dir}, the metadata directory of {properties}, is not formatted"
            " on this machine: run this command on the controller's host, after tidelog storage"
            f" format --no-initial-controllers -c {properties}"
        )
    endpoint = own_endpoint(config)
    voter = RaftVoter(
        node_id=config.node_id,
        directory_id=owner.directory_id,
        endpoints={endpoint.name: (endpoint.host, endpoint.port)},
    )
    return owner.cluster_id, voter


def _print_voters(
    before: Mapping[int, bool], after: Collection[int], *, execute: bool, as_json: bool
) -> None:
    text = voters_text(before, after)
    document = {
        "before": list(before),
        "after": sorted(after),
        "may_fail": _spare(before, after),
        "is_executed": execute,
    }
    print_result(
        text if execute else f"{text}\nnothing was changed; --execute does it",
        document,
        as_json=as_json,
    )


def voters_text(before: Mapping[int, bool], after: Collection[int]) -> str:
    """Return the voters before and after a change, and how many of the new ones may fail.

    ``before`` maps each voter to whether it follows the leader.
    """
    text = (
        f"voters {_listed(before)} -> {_listed(sorted(after))}: {_spare(before, after)} of"
        f" {len(after)} may fail"
    )
    down = _down(before, after)
    if not down:
        return text
    return (
        f"{text} beside {_listed(down)}, which {'is' if len(down) == 1 else 'are'} down or behind"
    )


def _spare(before: Mapping[int, bool], after: Collection[int]) -> int:
    return max((len(after) - 1) // 2 - len(_down(before, after)), 0)


def _down(before: Mapping[int, bool], after: Collection[int]) -> list[int]:
    return [each for each in sorted(after) if not before.get(each, True)]


def _listed(node_ids: Collection[int]) -> str:
    return ", ".join(map(str, node_ids))
