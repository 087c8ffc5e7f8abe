"""``tidelog groups``: list, describe and delete consumer groups, with their lag."""

from typing import Any

import click

from log_service.cli.output import bootstrap_option, json_option, print_rows
from log_service.client.admin_values import GroupDescription
from log_service.client.blocking import BlockingAdmin
from log_service.common.types import TopicPartition


@click.group()
def groups() -> None:
    """List, describe and delete consumer groups; see their lag."""


@groups.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in this state (Stable, Empty, ...); may be repeated.")
@json_option
@bootstrap_option
def list_groups(*, states: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """List all groups."""
    with BlockingAdmin(bootstrap_servers) as admin:
        found = admin.list_groups(states=states)
    columns = ["group_id", "state", "protocol_type", "group_type"]
    print_rows(
        [{column: getattr(group, column) for column in columns} for group in found], columns, as_json=as_json, empty="there are no groups"
    )


@groups.command()
@click.argument("group_id")
@click.option("--members", "with_members", is_flag=True, help="Show the members instead of the offsets.")
@json_option
@bootstrap_option
def describe(*, group_id: str, with_members: bool, as_json: bool, bootstrap_servers: str) -> None:
    """Describe a group: committed offsets and lag (high watermark - committed offset) per partition, or its members."""
    with BlockingAdmin(bootstrap_servers) as admin:
        group = admin.describe_groups([group_id])[group_id]
        if group.state == "Dead":
            raise click.ClickException(f"there is no group {group_id!r}; see: tidelog groups list")
        rows = member_rows(group) if with_members else offset_rows(admin, group)
    if not as_json:
        click.echo(f"{group.group_id}  {group.state}  {len(group.members)} members  coordinator {group.coordinator.node_id}")
    columns = (
        ["member_id", "instance", "client", "host", "partitions"]
        if with_members
        else ["topic", "partition", "committed", "end", "lag", "client"]
    )
    print_rows(rows, columns, as_json=as_json, empty="no offsets are committed" if not with_members else "no members")


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


@groups.command()
@click.argument("group_ids", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def delete(*, group_ids: tuple[str, ...], yes: bool, bootstrap_servers: str) -> None:
    """Delete groups without members, with their committed offsets."""
    if not yes:
        click.confirm(f"Delete {', '.join(group_ids)} with all committed offsets?", abort=True)
    with BlockingAdmin(bootstrap_servers) as admin:
        admin.delete_groups(list(group_ids))
    click.echo(f"deleted {', '.join(group_ids)}")
