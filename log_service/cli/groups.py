"""``tidelog groups`` shows consumer groups and share groups, with lag and members.

It also resets and deletes their committed offsets, and deletes groups.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.group_resets import (
    DurationParameter,
    Target,
    as_csv,
    chosen_partitions,
    planned,
    read_csv,
    time_before_now_ms,
)
from log_service.cli.names import (
    complete_groups,
    complete_topics,
    matching_groups,
    partitions_named,
)
from log_service.cli.numbers import WholeNumber
from log_service.cli.output import (
    counted,
    json_option,
    print_json,
    print_result,
    print_rows,
    readable,
    refuse_both,
    say,
)
from log_service.cli.running import in_thread
from log_service.cli.share_groups import (
    SHARE,
    described_share_group,
    queue_positions,
    share_groups_among,
    whole_topics,
)
from log_service.cli.standard_input import confirm
from log_service.cli.times import TimeParameter
from log_service.client.admin.admin import Admin
from log_service.client.admin.share_groups import ShareGroupDescription
from log_service.client.admin.values import GroupDescription, OffsetAndMetadata
from log_service.cluster_operations.group_offsets import Move
from log_service.common.installation_names import TABLE_GROUP_PREFIX, TRANSFORM_GROUP_PREFIX
from log_service.common.types import TopicPartition

STATES = [
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Dead",
    "Assigning",
    "Reconciling",
]

NO_GROUPS = "there are no groups"
ABSENT = "Dead"
"""The state of a group that does not exist."""
SENDING_NOTE = (
    "note: {group} is how far the transform {table} has got, which sends to a topic. Set back, its"
    " next run sends the records once more, behind what is there; set forward, it leaves them out."
)
MIRROR_NOTE = (
    "note: {group} mirrors how far {table} of a tidelog project has got. That keeps its own"
    " progress: its next run sets the group back.\nTo have records read again, call in the"
    " project's folder: tidelog replay {table} --from TIME (or --everything, --dead-letters). Joins"
    " and aggregates take --everything alone, and archives have no replay: that command says so,"
    " and what to do instead."
)


@click.group()
def groups() -> None:
    """Manage groups of consumers, queues and Kafka Streams, with their lag and offsets."""


group_arguments = click.argument(
    "group_ids", nargs=-1, metavar="[GROUPS...]", shell_complete=complete_groups
)


@groups.command("list", short_help="List all groups.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help="Only groups in this state (Stable, Empty, ...); may be repeated.",
)
@group_arguments
@json_option
@cluster_command
async def list_groups(
    *, states: tuple[str, ...], group_ids: tuple[str, ...], as_json: bool, bootstrap_servers: str
) -> None:
    """List all groups, or GROUPS, which may be patterns like 'billing-*'."""
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.list_groups(states=states)
        if group_ids:
            wanted = await matching_groups(admin, group_ids)
            known = {group.group_id for group in (await admin.list_groups() if states else found)}
            for group_id in wanted:
                require_group(group_id, is_there=group_id in known)
            found = [group for group in found if group.group_id in wanted]
    columns = ["group_id", "state", "protocol_type", "group_type"]
    rows = [{column: getattr(group, column) for column in columns} for group in found]
    print_rows(
        rows, columns, as_json=as_json, empty="no group is in that state" if states else NO_GROUPS
    )


@groups.command(short_help="Show offsets and lag, members or state.")
@group_arguments
@click.option(
    "--members", "with_members", is_flag=True, help="Show the members instead of the offsets."
)
@click.option(
    "--state",
    "with_state",
    is_flag=True,
    help="Show one line per group: state, assignor, members, lag.",
)
@json_option
@cluster_command
async def describe(
    *,
    group_ids: tuple[str, ...],
    with_members: bool,
    with_state: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Describe GROUPS, by id or pattern, or all: committed offsets and lag, or members, or state.

    Lag is high watermark - committed offset. Of a queue (share group) it shows the start
    offsets. Its lag counts unfinished records, because some after the start may be finished.

    \b
    tidelog groups describe billing
    tidelog groups describe --state
    """
    refuse_both({"--members": with_members, "--state": with_state})
    async with open_admin(bootstrap_servers) as admin:
        documents = [
            await described(admin, group) for group in await found_groups(admin, group_ids)
        ]
    if as_json:
        print_json(documents[0] if len(group_ids) == 1 and len(documents) == 1 else documents)
    elif with_state:
        columns = ["group_id", "state", "assignor", "members", "partitions", "lag"]
        print_rows([state_row(each) for each in documents], columns, as_json=False, empty=NO_GROUPS)
    elif not documents:
        say(NO_GROUPS)
    else:
        for number, each in enumerate(documents):
            say(("\n" if number else "") + headline(each))
            show(each, with_members=with_members)


async def found_groups(
    admin: Admin, group_ids: Sequence[str]
) -> list[GroupDescription | ShareGroupDescription]:
    """Return the groups that match ids or patterns. Raises ClickException if one does not exist."""
    wanted = await matching_groups(admin, group_ids)
    shared = await share_groups_among(admin, wanted) if wanted else set()
    others = [group_id for group_id in wanted if group_id not in shared]
    found: dict[str, GroupDescription | ShareGroupDescription] = {}
    if others:
        found.update(await admin.describe_groups(others))
    if shared:
        found.update(await admin.describe_share_groups(sorted(shared)))
    for group_id in wanted:
        require_group(group_id, is_there=found[group_id].state != ABSENT)
    return [found[group_id] for group_id in wanted]


def require_group(group_id: str, *, is_there: bool) -> None:
    """Refuse a group that does not exist."""
    if not is_there:
        raise click.ClickException(f"there is no group {group_id!r}; see: tidelog groups list")


async def described(
    admin: Admin, group: GroupDescription | ShareGroupDescription
) -> dict[str, Any]:
    """Return everything known about a group."""
    if isinstance(group, ShareGroupDescription):
        return await described_share_group(admin, group)
    return {
        "group_id": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator.node_id,
        "offsets": await offset_rows(admin, group),
        "members": member_rows(group),
    }


def headline(document: dict[str, Any]) -> str:
    """Return the first line of the text that describes a group."""
    members = counted(len(document["members"]), "member")
    return (
        f"{readable(document['group_id'])}  {document['state']}  {members} "
        f" coordinator {document['coordinator']}"
    )


def show(document: dict[str, Any], *, with_members: bool) -> None:
    """Print a group's members, or its offsets."""
    if with_members:
        columns = ["member_id", "instance", "client", "host", "partitions"]
        print_rows(
            document["members"],
            columns,
            as_json=False,
            empty="no members",
            flexible=["partitions", "member_id"],
        )
    else:
        is_queue = document["protocol_type"] == SHARE
        columns = [
            "topic",
            "partition",
            "start" if is_queue else "committed",
            "end",
            "lag",
            "client",
        ]
        empty = "it has not begun to read anything" if is_queue else "no offsets are committed"
        print_rows(document["offsets"], columns, as_json=False, empty=empty)


def state_row(document: dict[str, Any]) -> dict[str, Any]:
    """Return a group as one row. Its lag is None if no partition's lag is known."""
    offsets = document["offsets"]
    lags = [row["lag"] for row in offsets if row["lag"] is not None]
    return {
        **document,
        "members": len(document["members"]),
        "partitions": len(offsets),
        "lag": sum(lags) if lags or not offsets else None,
    }


async def offset_rows(admin: Admin, group: GroupDescription) -> list[dict[str, Any]]:
    """Return a row per partition that has a committed offset of the group or is assigned to it."""
    committed = await admin.list_group_offsets(group.group_id)
    owners = {where: member.client_id for member in group.members for where in member.assignment}
    partitions = sorted({*committed, *owners})
    ends = (
        await admin.describe_offsets(sorted({where.topic for where in partitions}))
        if partitions
        else {}
    )
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


@groups.command(short_help="Move a group's committed offsets.")
@click.argument("group_id", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,2-4]",
    shell_complete=complete_topics,
    help="A topic, or some of its partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="Everything that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="To the first offset.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option(
    "--to-current", is_flag=True, help="To where it is (the end, where nothing is committed)."
)
@click.option("--to-offset", type=WholeNumber(min=0), metavar="N", help="To this offset.")
@click.option(
    "--shift-by", type=int, metavar="N", help="N offsets forward, or back where N is negative."
)
@click.option(
    "--to-time",
    type=TimeParameter(),
    help="To the first record as new as this: ISO 8601, or ms since 1970.",
)
@click.option(
    "--by-duration",
    type=DurationParameter(),
    help="To the first record of the last 90m, 2h30m, 1d, ...",
)
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="To what a file of topic,partition,offset lines says.",
)
@click.option("--execute", is_flag=True, help="Do it; without it, only show what would be done.")
@click.option(
    "--export",
    is_flag=True,
    help="Print topic,partition,offset lines for --from-file instead of a table.",
)
@json_option
@cluster_command
async def reset(
    *,
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    export: bool,
    as_json: bool,
    bootstrap_servers: str,
    **ways: Any,
) -> None:
    """Reset the committed offsets of GROUP_ID, which must have no members.

    Without --execute it only shows what it would do.

    \b
    tidelog groups reset billing --topic orders --to-earliest
    tidelog groups reset billing --topic orders:0,2 --to-time 2026-11-21T10:00
    tidelog groups reset billing --all-topics --shift-by -100 --execute
    """
    target = target_of(ways)
    for prefix, note in ((TABLE_GROUP_PREFIX, MIRROR_NOTE), (TRANSFORM_GROUP_PREFIX, SENDING_NOTE)):
        if group_id.startswith(prefix):
            say(note.format(group=group_id, table=group_id.rpartition(".")[2]), err=True)
    if target.path is not None and (topics or all_topics):
        raise click.UsageError(
            "--from-file names the partitions: leave out --topic and --all-topics"
        )
    async with open_admin(bootstrap_servers) as admin:
        is_shared = bool(await share_groups_among(admin, [group_id]))
        state, committed = await positions_of(admin, group_id, is_shared=is_shared)
        if target.path is not None:
            wanted = await in_thread(read_csv, target.path)
        else:
            wanted = dict.fromkeys(
                await chosen_partitions(admin, committed, topics, is_all=all_topics), 0
            )
        moves = await planned(admin, target, committed, wanted)
        if state == ABSENT and not committed:
            say(await absence(admin, group_id, is_made=execute and bool(moves)), err=True)
        if execute and moves:
            if state not in {"Empty", "Dead"}:
                raise click.ClickException(
                    f"group {group_id!r} is {state}: it has members, stop them first"
                )
            alter = admin.alter_share_group_offsets if is_shared else admin.alter_group_offsets
            await alter(group_id, {move.where: move.after for move in moves})
    show_moves(moves, as_json=as_json, export=export)
    if moves and not execute:
        click.echo("nothing was changed: --execute does it", err=True)


async def absence(admin: Admin, group_id: str, *, is_made: bool) -> str:
    """Return a note that a group does not exist.

    With ``is_made`` it says that the reset creates the group. Otherwise it names a similar group.
    """
    if is_made:
        return f"note: there was no group {group_id}: it is made with these offsets"
    near = get_close_matches(group_id, [each.group_id for each in await admin.list_groups()], n=1)
    return f"note: there is no group {group_id}" + (f"; did you mean {near[0]}?" if near else "")


async def positions_of(
    admin: Admin, group_id: str, *, is_shared: bool
) -> tuple[str, Mapping[TopicPartition, OffsetAndMetadata]]:
    """Return a group's state and its committed offsets, or the start offsets of a share group."""
    if is_shared:
        return (await admin.describe_share_groups([group_id]))[
            group_id
        ].state, await queue_positions(admin, group_id)
    state = (await admin.describe_groups([group_id]))[group_id].state
    return state, await admin.list_group_offsets(group_id) if state != "Dead" else {}


def target_of(ways: dict[str, Any]) -> Target:
    """Return the one target that the options give. Raises UsageError for none, and for two."""
    given = [
        (name, value) for name, value in ways.items() if value is not None and value is not False
    ]
    options = ", ".join(f"--{name.replace('_', '-')}" for name in ways)
    if len(given) != 1:
        raise click.UsageError(f"say where to, with exactly one of {options}")
    name, value = given[0]
    if name == "from_file":
        return Target(kind="file", path=value)
    if name == "by_duration":
        return Target(kind="time", value=time_before_now_ms(value))
    kind = name.removeprefix("to_").removesuffix("_by")
    return Target(kind=kind, value=0 if value is True else value)


def show_moves(moves: Sequence[Move], *, as_json: bool, export: bool) -> None:
    """Print the old and new offsets of a reset, whether it was made or only planned."""
    if export and not as_json:
        click.echo(as_csv(moves), nl=False)
        return
    rows = [
        {
            "topic": move.where.topic,
            "partition": move.where.partition,
            "committed": move.before,
            "new": move.after,
            "lag": move.end - move.after,
            "note": move.note or None,
        }
        for move in moves
    ]
    columns = ["topic", "partition", "committed", "new", "lag"] + (
        ["note"] if any(move.note for move in moves) else []
    )
    print_rows(rows, columns, as_json=as_json, empty="the group has committed nothing")


@groups.command(short_help="Delete groups without members.")
@click.argument("group_ids", nargs=-1, required=True, shell_complete=complete_groups)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def delete(
    *, group_ids: tuple[str, ...], yes: bool, as_json: bool, bootstrap_servers: str
) -> None:
    """Delete groups without members, by id or pattern, with their committed offsets."""
    async with open_admin(bootstrap_servers) as admin:
        wanted = await matching_groups(admin, group_ids)
        if not yes:
            await confirm(
                f"Delete {', '.join(wanted)} with all committed offsets?", "nothing was deleted"
            )
        await admin.delete_groups(wanted)
    print_result(f"deleted {', '.join(wanted)}", wanted, as_json=as_json)


@groups.command("delete-offsets", short_help="Take committed offsets back.")
@click.argument("group_id", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:0,2-4]",
    shell_complete=complete_topics,
    help="A topic, or some of its partitions; may be repeated.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def delete_offsets(
    *, group_id: str, topics: tuple[str, ...], yes: bool, as_json: bool, bootstrap_servers: str
) -> None:
    """Delete the offsets that GROUP_ID has committed for topics that its members do not read.

    A share group forgets whole topics.
    """
    async with open_admin(bootstrap_servers) as admin:
        if await share_groups_among(admin, [group_id]):
            names = whole_topics(topics)
            if not yes:
                await confirm(
                    f"Have {group_id} forget {', '.join(names)}?", "nothing was forgotten"
                )
            await admin.delete_share_group_offsets(group_id, names)
            print_result(
                f"{group_id} has forgotten {', '.join(names)}",
                [{"topic": name} for name in names],
                as_json=as_json,
            )
            return
        wanted = await partitions_named(admin, topics, "--topic")
        committed = (
            await admin.list_group_offsets(group_id)
            if (await admin.describe_groups([group_id]))[group_id].state != "Dead"
            else {}
        )
        found = [where for where in wanted if where in committed]
        if not found:
            raise click.ClickException(
                f"group {group_id!r} has committed nothing there; see: tidelog groups describe"
                f" {group_id}"
            )
        if not yes:
            await confirm(
                f"Delete the offsets of {group_id} for {', '.join(map(str, found))}?",
                "nothing was deleted",
            )
        await admin.delete_group_offsets(group_id, found)
    rows = [{"topic": where.topic, "partition": where.partition} for where in found]
    print_result(
        f"deleted the offsets of {group_id} for {', '.join(map(str, found))}", rows, as_json=as_json
    )


@groups.command(short_help="Release the records that a member of a queue holds.")
@click.argument("group_id", metavar="GROUP_ID", shell_complete=complete_groups)
@click.option("--member", "member_id", required=True, metavar="ID", help="See: describe --members.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def release(
    *, group_id: str, member_id: str, yes: bool, as_json: bool, bootstrap_servers: str
) -> None:
    """Deliver all records again that a member of the queue GROUP_ID holds.

    Use it for a member that hangs. If the member still processes them, they are processed twice.

    \b
    tidelog groups release packers --member 4fJ9NbpORKqoWQ0vYPTyVA
    """
    async with open_admin(bootstrap_servers) as admin:
        partitions = list(await admin.list_share_group_offsets(group_id))
        if not yes:
            await confirm(
                f"Release the records that {member_id} of {group_id} holds?", "none was released"
            )
        nodes = await admin.release_share_records(group_id, member_id, partitions)
    if not nodes:
        raise click.ClickException(
            f"{member_id} holds no records of {group_id}; see: tidelog groups describe {group_id}"
            " --members"
        )
    print_result(
        f"released the records of {member_id}, at {counted(len(nodes), 'broker')}",
        {"group_id": group_id, "member_id": member_id, "nodes": list(nodes)},
        as_json=as_json,
    )
