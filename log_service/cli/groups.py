"""``tidelog groups``: list, describe and delete consumer groups, with their lag."""

from typing import Any

import click

from log_service.cli.connection import open_admin
from log_service.cli.output import bootstrap_option, confirm, counted, json_option, print_json, print_rows
from log_service.client.admin_values import GroupDescription
from log_service.client.blocking import BlockingAdmin
from log_service.common.types import TopicPartition

STATES = ["Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead", "Assigning", "Reconciling"]


@click.group()
def groups() -> None:
    """List, describe and delete consumer groups; see their lag."""


@groups.command("list", short_help="List all groups.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help="Only groups in this state (Stable, Empty, ...); may be repeated.",
)
@json_option
@bootstrap_option
def list_groups(*, states: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """List all groups."""
    with open_admin(bootstrap_servers) as admin:
        found = admin.list_groups(states=states)
    columns = ["group_id", "state", "protocol_type", "group_type"]
    print_rows(
        [{column: getattr(group, column) for column in columns} for group in found], columns, as_json=as_json, empty="there are no groups"
    )


@groups.command(short_help="Show offsets and lag, or members, of a group.")
@click.argument("group_id")
@click.option("--members", "with_members", is_flag=True, help="Show the members instead of the offsets.")
@json_option
@bootstrap_option
def describe(*, group_id: str, with_members: bool, as_json: bool, bootstrap_servers: str) -> None:
    """Describe a group: committed offsets and lag (high watermark - committed offset) per partition, or its members."""
    with open_admin(bootstrap_servers) as admin:
        group = admin.describe_groups([group_id])[group_id]
        if group.state == "Dead":
            raise click.ClickException(f"there is no group {group_id!r}; see: tidelog groups list")
        offsets = offset_rows(admin, group) if as_json or not with_members else []
    members = member_rows(group)
    if as_json:
        told = {"group_id": group.group_id, "state": group.state, "coordinator": group.coordinator.node_id}
        print_json(told | {"offsets": offsets, "members": members})
        return
    click.echo(f"{group.group_id}  {group.state}  {counted(len(members), 'member')}  coordinator {group.coordinator.node_id}")
    if with_members:
        print_rows(members, ["member_id", "instance", "client", "host", "partitions"], as_json=False, empty="no members")
    else:
        print_rows(offsets, ["topic", "partition", "committed", "end", "lag", "client"], as_json=False, empty="no offsets are committed")


def offset_rows(admin: BlockingAdmin, group: GroupDescription) -> list[dict[str, Any]]:
    """Return a row per partition that the group has committed or was given."""
    committed = admin.list_group_offsets(group.group_id)
    owners = {where: member.client_id for member in group.members for where in member.assignment}
    partitions = sorted({*committed, *owners})
    ends = admin.describe_offsets(sorted({where.topic for where in partitions})) if partitions else {}
    rows = []
    for where in partitions:
        position = committed[where].offset if where in committed else None
        end = ends[where].high_watermark if where in ends else None
        rows.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "committed": position,
                "end": end,
                "lag": None if position is None or end is None else max(0, end - position),
                "client": owners.get(where),
            }
        )
    return rows


def member_rows(group: GroupDescription) -> list[dict[str, Any]]:
    """Return a row per member."""
    return [
        {
            "member_id": member.member_id,
            "instance": member.group_instance_id,
            "client": member.client_id,
            "host": member.client_host,
            "partitions": [str(TopicPartition(*where)) for where in member.assignment],
        }
        for member in group.members
    ]


@groups.command(short_help="Delete groups without members.")
@click.argument("group_ids", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def delete(*, group_ids: tuple[str, ...], yes: bool, bootstrap_servers: str) -> None:
    """Delete groups without members, with their committed offsets."""
    if not yes:
        confirm(f"Delete {', '.join(group_ids)} with all committed offsets?", "nothing was deleted")
    with open_admin(bootstrap_servers) as admin:
        admin.delete_groups(list(group_ids))
    click.echo(f"deleted {', '.join(group_ids)}")
