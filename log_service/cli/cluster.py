"""``tidelog cluster`` shows brokers, API versions, the quorum, features and log directories.

It also elects leaders and reassigns partitions. The commands for health, for plans of moves and for
rolling restarts are in ``cluster_status``, ``cluster_moves`` and ``cluster_roll``.
"""

from collections.abc import Sequence
from typing import Any

import click

from log_service.cli import (
    cluster_moves,
    cluster_nodes,
    cluster_roll,
    cluster_status,
    cluster_voters,
)
from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.names import complete_topics, matching_topics, partitions_named
from log_service.cli.node_ids import NODE_ID, node_ids_of
from log_service.cli.output import (
    counted,
    json_option,
    key_values,
    print_json,
    print_result,
    print_rows,
    refuse_both,
    sized,
)
from log_service.cli.plan_view import plan_refusals
from log_service.cli.standard_input import confirm
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import (
    ElectionType,
    FeatureUpdate,
    ItemsFailed,
    LogDirDescription,
    UpgradeType,
)
from log_service.cluster_operations.membership import no_such_brokers, refuse_unknown_brokers
from log_service.cluster_operations.reading import active_controller, quorum_of, read_state
from log_service.cluster_plans.layout import NO_LEADER, PlanRefused
from log_service.cluster_plans.leaving import refuse_to_forget, what_is_on
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition

MAX_LEVEL = 2**15 - 1

broker_option = click.option(
    "--broker", "node_id", type=NODE_ID, metavar="ID", help="Ask this broker."
)


@click.group()
def cluster() -> None:
    """Show the cluster's health, plan where replicas go, and carry plans out."""


for _command in (
    cluster_status.status,
    cluster_moves.add,
    cluster_moves.remove,
    cluster_moves.rebalance,
    cluster_roll.roll,
    cluster_nodes.stop,
    cluster_nodes.start,
    cluster_moves.drain,
    cluster_moves.cluster_topics,
    cluster_moves.watch,
    cluster_moves.cancel,
    cluster_voters.voters,
):
    cluster.add_command(_command)


@cluster.command(short_help="Show the cluster's id and brokers.")
@json_option
@cluster_command
async def describe(*, as_json: bool, bootstrap_servers: str) -> None:
    """Show the cluster's id, its active controller and its brokers."""
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.describe_cluster()
        controller_id = await active_controller(admin, found)
    rows = [
        {
            "node_id": node.node_id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "controller": node.node_id == controller_id,
        }
        for node in found.nodes
    ]
    if as_json:
        document = {
            "cluster_id": found.cluster_id,
            "controller_id": None if controller_id == NO_LEADER else controller_id,
            "is_tidelog": found.is_tidelog,
        }
        print_json(document | {"brokers": rows})
        return
    controller = (
        "no active controller"
        if controller_id == NO_LEADER
        else f"active controller {controller_id}"
    )
    kind = "tidelog" if found.is_tidelog else "not tidelog"
    click.echo(f"cluster {found.cluster_id}  {counted(len(rows), 'broker')}  {kind}  {controller}")
    print_rows(rows, ["node_id", "host", "port", "rack", "controller"], as_json=False)


@cluster.command("api-versions", short_help="Show which APIs a broker speaks.")
@broker_option
@json_option
@cluster_command
async def api_versions(*, node_id: int | None, as_json: bool, bootstrap_servers: str) -> None:
    """Show each API that a broker speaks, and in which versions."""
    async with open_admin(bootstrap_servers) as admin:
        await require_broker(admin, node_id)
        found = await admin.describe_api_versions(node_id)
    rows = [{"api": name, "first": first, "last": last} for name, (first, last) in found.items()]
    print_rows(rows, ["api", "first", "last"], as_json=as_json)


@cluster.command(short_help="Show or change feature levels.")
@broker_option
@click.option(
    "--set",
    "updates",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Set the cluster's level of a feature; may be repeated.",
)
@click.option("--downgrade", is_flag=True, help="Let levels go down where nothing is lost by it.")
@click.option(
    "--unsafe-downgrade",
    is_flag=True,
    help="Let levels go down even where something is lost by it.",
)
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@cluster_command
async def features(
    *,
    node_id: int | None,
    updates: tuple[str, ...],
    downgrade: bool,
    unsafe_downgrade: bool,
    dry_run: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Show the feature levels that a broker supports, and show or change those of the cluster."""
    upgrade_type = UpgradeType.SAFE_DOWNGRADE if downgrade else UpgradeType.UPGRADE
    wanted = levels_of(updates, UpgradeType.UNSAFE_DOWNGRADE if unsafe_downgrade else upgrade_type)
    async with open_admin(bootstrap_servers) as admin:
        await require_broker(admin, node_id)
        if wanted:
            await admin.update_features(wanted, is_validated_only=dry_run)
            levels = {name: update.level for name, update in wanted.items()}
            print_result(
                f"{'this would be accepted: ' if dry_run else ''}set {', '.join(updates)}",
                levels,
                as_json=as_json,
            )
            return
        found = await admin.describe_features(node_id)
    rows = [
        {"feature": name, "first": first, "last": last, "level": found.finalized.get(name)}
        for name, (first, last) in sorted(found.supported.items())
    ]
    print_rows(
        rows,
        ["feature", "first", "last", "level"],
        as_json=as_json,
        empty="the broker tells no features",
    )


def levels_of(updates: Sequence[str], upgrade_type: UpgradeType) -> dict[str, FeatureUpdate]:
    """Return the feature updates in texts of the form NAME=LEVEL, by name.

    Raises:
        BadParameter: a text is not NAME=LEVEL, or its level is not a number.
    """
    levels = key_values(updates, "--set")
    for name, level in levels.items():
        if not (level.isdecimal() and len(level) < 6 and int(level) <= MAX_LEVEL):
            raise click.BadParameter(
                f"the level of {name} is {level!r}, not a number up to {MAX_LEVEL}",
                param_hint="--set",
            )
    return {
        name: FeatureUpdate(level=int(level), upgrade_type=upgrade_type)
        for name, level in levels.items()
    }


async def require_broker(admin: Admin, node_id: int | None) -> None:
    """Refuse a broker that the cluster does not have."""
    if node_id is None:
        return
    known = sorted(node.node_id for node in (await admin.describe_cluster()).nodes)
    if node_id not in known:
        raise click.ClickException(await no_such_brokers(admin, [node_id], known))


@cluster.command(short_help="Show the metadata quorum.")
@json_option
@cluster_command
async def quorum(*, as_json: bool, bootstrap_servers: str) -> None:
    """Show the leader of the metadata quorum, and the lag of its voters and observers."""
    from log_service.storage.partition_metadata import (  # noqa: PLC0415 - the other commands show no ids of directories
        format_uuid,
    )

    async with open_admin(bootstrap_servers) as admin:
        found = await admin.describe_metadata_quorum()
    state = quorum_of(found)
    rows: list[dict[str, Any]] = [
        {
            "node_id": each.node_id,
            "role": state.role_of(member),
            "log_end_offset": each.log_end_offset,
            "lag": member.lag,
            "last_caught_up_ms": each.last_caught_up_ms,
            "directory_id": format_uuid(each.directory_id),
            "endpoints": dict(found.endpoints.get(each.node_id, {})) if member.is_voter else {},
        }
        for each, member in zip([*found.voters, *found.observers], state.members, strict=True)
    ]
    if as_json:
        document = {
            "leader_id": found.leader_id,
            "leader_epoch": found.leader_epoch,
            "high_watermark": found.high_watermark,
        }
        print_json(document | {"replicas": rows})
        return
    click.echo(
        f"leader {found.leader_id}  epoch {found.leader_epoch}  high watermark"
        f" {found.high_watermark}"
    )
    for row in rows:
        row["listeners"] = ", ".join(
            f"{name}://{address}" for name, address in row["endpoints"].items()
        )
    print_rows(
        rows,
        ["node_id", "role", "log_end_offset", "lag", "directory_id", "listeners"],
        as_json=False,
    )


@cluster.command("log-dirs", short_help="Show log directories and what is in them.")
@click.argument("names", nargs=-1, metavar="[TOPICS...]", shell_complete=complete_topics)
@broker_option
@click.option(
    "--replicas",
    "with_replicas",
    is_flag=True,
    help="Show every replica; so do TOPICS, by name or pattern.",
)
@json_option
@cluster_command
async def log_dirs(
    *,
    names: tuple[str, ...],
    node_id: int | None,
    with_replicas: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Show the log directories of all brokers, or the replicas in them."""
    async with open_admin(bootstrap_servers) as admin:
        await require_broker(admin, node_id)
        wanted = (
            set(await matching_topics(admin, names, is_internal_included=True)) if names else None
        )
        found = await admin.describe_log_dirs(None if node_id is None else [node_id])
        present = {
            where.topic
            for by_path in found.values()
            for directory in by_path.values()
            for where in directory.replicas
        }
        if absent := sorted((wanted or set()) - present):
            await admin.describe_topics(absent)  # refuses those that are not there
    directories = [
        (broker, directory)
        for broker, by_path in sorted(found.items())
        for directory in by_path.values()
    ]
    if with_replicas or names:
        rows = [
            row
            for broker, directory in directories
            for row in replica_rows(broker, directory, wanted)
        ]
        columns = ["broker", "topic", "partition", "size", "lag", "future"] + (
            ["path"] if len(directories) > 1 else []
        )
        print_rows(
            rows,
            columns,
            as_json=as_json,
            empty="there is nothing in them",
            flexible=["path", "topic"],
        )
        return
    rows = [directory_row(broker, directory) for broker, directory in directories]
    print_rows(
        rows,
        ["broker", "path", "state", "replicas", "size", "usable", "total"],
        as_json=as_json,
        flexible=["path"],
    )


def directory_row(broker: int, directory: LogDirDescription) -> dict[str, Any]:
    """Return a log directory as a row."""
    size = sum(replica.size_bytes for replica in directory.replicas.values())
    return {
        "broker": broker,
        "path": directory.path,
        "state": "online" if directory.error is ErrorCode.NONE else directory.error.name,
        "replicas": len(directory.replicas),
        "size_bytes": size,
        "usable_bytes": directory.usable_bytes,
        "total_bytes": directory.total_bytes,
        "size": sized(size),
        "usable": sized(directory.usable_bytes),
        "total": sized(directory.total_bytes),
    }


def replica_rows(
    broker: int, directory: LogDirDescription, wanted: set[str] | None
) -> list[dict[str, Any]]:
    """Return the replicas in a log directory as rows."""
    return [
        {
            "broker": broker,
            "path": directory.path,
            "topic": where.topic,
            "partition": where.partition,
            "size_bytes": replica.size_bytes,
            "size": sized(replica.size_bytes),
            "lag": replica.offset_lag,
            "future": replica.is_future,
        }
        for where, replica in sorted(directory.replicas.items())
        if wanted is None or where.topic in wanted
    ]


@cluster.command(short_help="Show the producers that partitions remember.")
@click.argument(
    "partitions",
    nargs=-1,
    required=True,
    metavar="TOPIC[:0,2-4]...",
    shell_complete=complete_topics,
)
@json_option
@cluster_command
async def producers(*, partitions: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """Show the idempotent and transactional producers that partitions remember."""
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.describe_producers(await partitions_named(admin, partitions, "TOPIC"))
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp_ms": each.last_timestamp_ms,
            "transaction_start": (
                each.transaction_start_offset if each.transaction_start_offset >= 0 else None
            ),
        }
        for where, remembered in sorted(found.items())
        for each in remembered
    ]
    columns = ["topic", "partition", "producer_id", "epoch", "last_sequence", "last_timestamp_ms"]
    print_rows(
        rows,
        columns,
        as_json=as_json,
        empty="no producers are remembered",
        times=["last_timestamp_ms"],
    )


@cluster.command(short_help="Elect leaders.")
@click.argument(
    "partitions", nargs=-1, metavar="[TOPIC[:0,2-4]...]", shell_complete=complete_topics
)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect any replica where there is no leader; records may be lost.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an unclean election.")
@json_option
@cluster_command
async def elect(
    *, partitions: tuple[str, ...], unclean: bool, yes: bool, as_json: bool, bootstrap_servers: str
) -> None:
    """Elect the preferred leaders of partitions, or of all that need it."""
    if unclean and not yes:
        await confirm("Elect leaders that may lack records?", "nothing was elected")
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    async with open_admin(bootstrap_servers) as admin:
        wanted = await partitions_named(admin, partitions, "TOPIC") if partitions else None
        elected = await elected_of(admin, wanted, kind)
    rows = [{"topic": where.topic, "partition": where.partition} for where in sorted(elected)]
    print_rows(rows, ["topic", "partition"], as_json=as_json, empty="no election was needed")


async def elected_of(
    admin: Admin, wanted: Sequence[TopicPartition] | None, kind: ElectionType
) -> set[TopicPartition]:
    """Elect leaders and return the partitions that got one.

    A partition that needs no election is not reported as an error.
    """
    try:
        return set(await admin.elect_leaders(wanted, kind))
    except ItemsFailed as error:
        if any(each.code is not ErrorCode.ELECTION_NOT_NEEDED for each in error.errors.values()):
            raise
        return set(error.results)


@cluster.command(short_help="Show or begin moves to other brokers.")
@click.argument(
    "partitions", nargs=-1, metavar="[TOPIC[:0,2-4]...]", shell_complete=complete_topics
)
@click.option(
    "--to", "targets", metavar="1,2,3", help="Move to these brokers, the preferred leader first."
)
@click.option("--cancel", is_flag=True, help="Take moves back.")
@json_option
@cluster_command
async def reassign(
    *,
    partitions: tuple[str, ...],
    targets: str | None,
    cancel: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Show the moves of partitions that are under way, begin moves, or cancel them."""
    if (targets is not None or cancel) and not partitions:
        raise click.UsageError("say what to move: TOPIC or TOPIC:0,2-4")
    refuse_both({"--to": targets is not None, "--cancel": cancel})
    brokers = node_ids_of(targets, "--to") if targets is not None else None
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        wanted = await partitions_named(admin, partitions, "TOPIC") if partitions else None
        if wanted is not None and brokers is not None:
            await refuse_fenced_targets(admin, wanted, brokers)
        if wanted is not None and (brokers is not None or cancel):
            await admin.alter_partition_reassignments(dict.fromkeys(wanted, brokers))
        moving = await admin.list_partition_reassignments(wanted)
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "replicas": list(each.replicas),
            "adding": list(each.adding_replicas),
            "removing": list(each.removing_replicas),
        }
        for where, each in sorted(moving.items())
    ]
    nothing = (
        "done: nothing had to be copied"
        if brokers is not None
        else "taken back: nothing moves"
        if cancel
        else "nothing moves"
    )
    print_rows(
        rows,
        ["topic", "partition", "replicas", "adding", "removing"],
        as_json=as_json,
        empty=nothing,
    )


async def refuse_fenced_targets(
    admin: Admin, partitions: Sequence[TopicPartition], broker_ids: Sequence[int]
) -> None:
    """Refuse to move replicas to fenced brokers: those that are down or not ready.

    Such a move would end only once the brokers are back. A fenced broker that already has a replica
    is refused only if a partition gets fewer replicas than it has.

    Raises:
        PlanRefused: some targets are fenced. The error names all of them.
    """
    fenced = {each.node_id for each in await admin.describe_brokers() if each.is_fenced}
    topics = (
        await admin.describe_topics(sorted({each.topic for each in partitions}))
        if fenced.intersection(broker_ids)
        else {}
    )
    waited_for: set[int] = set()
    for where in partitions if topics else ():
        present = topics[where.topic].partitions[where.partition].replicas
        waited_for.update(
            broker_ids if len(broker_ids) < len(present) else set(broker_ids).difference(present)
        )
    down = [each for each in broker_ids if each in fenced & waited_for]
    if down:
        who = (
            f"broker {down[0]} is" if len(down) == 1 else f"brokers {', '.join(map(str, down))} are"
        )
        them = "it" if len(down) == 1 else "them"
        raise PlanRefused(
            f"{who} fenced: down or not ready, and a move there would not end. Start {them} first,"
            " or name others with --to"
        )


@cluster.command(short_help="Forget a broker that is gone for good.")
@click.argument("node_id", type=NODE_ID)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def unregister(*, node_id: int, yes: bool, as_json: bool, bootstrap_servers: str) -> None:
    """Unregister broker NODE_ID, which must be gone for good.

    A running broker is refused: `tidelog cluster remove` empties it first.
    """
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        layout = (await read_state(admin)).layout
        await refuse_unknown_brokers(admin, layout, [node_id])
        refuse_to_forget(layout, node_id)
        if not yes:
            question = f"Broker {node_id} is down. It has {what_is_on(layout, node_id)}. Forget it?"
            await confirm(question, "nothing was forgotten")
        await admin.unregister_broker(node_id)
    print_result(f"broker {node_id} is forgotten", {"node_id": node_id}, as_json=as_json)
