"""``tidelog cluster`` commands that plan moves of replicas and carry them out.

These are ``rebalance``, ``add``, ``drain``, ``remove``, ``topics plan``, ``watch`` and ``cancel``.
Each planning command shows its plan, and ``--execute`` carries it out. An impossible plan is
refused before anything changes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import trio

from log_service.cli.cluster_voters import voters_text
from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.installation_nodes import (
    nodes_option,
    refuse_to_stop,
    require_same_cluster,
    required_cluster,
)
from log_service.cli.names import complete_topics, matching_topics, partitions_named
from log_service.cli.node_ids import NODE_ID, node_ids_of
from log_service.cli.numbers import WholeNumber
from log_service.cli.output import (
    counted,
    json_option,
    note,
    print_json,
    print_result,
    print_rows,
    sized,
)
from log_service.cli.plan_view import (
    POLL_SECONDS,
    ProgressLine,
    plan_options,
    plan_refusals,
    present,
)
from log_service.cli.running import in_thread
from log_service.client.admin.admin import Admin
from log_service.cluster_operations.membership import refuse_removal, refuse_unknown_brokers
from log_service.cluster_operations.moving import (
    moves_under_way,
    remove_throttles,
    take_back,
    throttled_brokers,
    throttled_topics,
)
from log_service.cluster_operations.reading import read_layout
from log_service.cluster_operations.removal import emptying, forget
from log_service.cluster_operations.waiting import wait_until_serving
from log_service.cluster_plans import plans
from log_service.cluster_plans.execution import PlanProgress
from log_service.cluster_plans.layout import PlanRefused
from log_service.cluster_plans.plan import Move
from log_service.cluster_plans.reassignment_file import plan_of, read
from log_service.common.types import TopicPartition
from log_service.supervisor.installation import Installation

BYTE_TOLERANCE = 0.1
INTERNAL_FACTOR = 3
MAX_FILE_BYTES = 64 << 20


@click.command(short_help="Even out replicas and leaders.")
@click.option(
    "--bytes", "by_bytes", is_flag=True, help="Even out bytes, too: to within a tenth of the mean."
)
@plan_options
@json_option
@cluster_command
async def rebalance(
    *, by_bytes: bool, throttle_bytes: int | None, as_json: bool, bootstrap_servers: str, **how: Any
) -> None:
    """Plan an even spread of replicas and leaders over brokers and racks.

    The plan copies as few replicas between brokers as possible.
    """
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        layout = await read_layout(admin)
        plan = plans.rebalance(
            layout,
            throttle_bytes=throttle_bytes,
            byte_tolerance=BYTE_TOLERANCE if by_bytes else None,
        )
        await present(
            admin,
            layout,
            plan,
            as_json=as_json,
            nothing="replicas and leaders are even already",
            **how,
        )


@click.command(short_help="Give new brokers their share.")
@click.argument("broker_ids", nargs=-1, type=NODE_ID, metavar="[ID...]")
@click.option(
    "--internal-factor",
    type=WholeNumber(min=0),
    default=INTERNAL_FACTOR,
    show_default=True,
    metavar="N",
    help="Replicas that __consumer_offsets and the like get at least, where there are as many"
    " brokers; 0 leaves them.",
)
@click.option(
    "--start",
    is_flag=True,
    help="Start one more node of the tidelog up on --data, and give it its share.",
)
@nodes_option
@plan_options
@json_option
@cluster_command
async def add(
    *,
    broker_ids: tuple[int, ...],
    internal_factor: int,
    start: bool,
    data: Path,
    throttle_bytes: int | None,
    as_json: bool,
    bootstrap_servers: str,
    **how: Any,
) -> None:
    """Plan which replicas to move to new brokers ID.

    Without ID, all brokers that have no replicas are the new ones. No other broker receives
    replicas, except of internal topics that have fewer than --internal-factor.
    """
    if start and broker_ids:
        raise click.UsageError("--start starts a broker with the next id: it excludes ID")
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        layout = await read_layout(admin)
        await refuse_unknown_brokers(admin, layout, broker_ids)
        if start:
            nodes = required_cluster(data)
            require_same_cluster(data, (await admin.describe_cluster()).cluster_id)
            if how["execute"] and not how["dry_run"]:
                note("one more broker starts")
                started = await Installation(data).start_one_more()
                await wait_until_serving(admin, started, note)
                note(f"broker {started} has joined")
                layout = await read_layout(admin)
            else:
                layout = layout.with_one_more(nodes.next_node_id, nodes.rack or None)
        await present(
            admin,
            layout,
            plans.join(layout, broker_ids, internal_factor, throttle_bytes=throttle_bytes),
            as_json=as_json,
            nothing="every broker has its share already",
            **how,
        )


@click.command(short_help="Empty brokers, which stay members.")
@click.argument("broker_ids", nargs=-1, required=True, type=NODE_ID, metavar="ID...")
@plan_options
@json_option
@cluster_command
async def drain(
    *,
    broker_ids: tuple[int, ...],
    throttle_bytes: int | None,
    as_json: bool,
    bootstrap_servers: str,
    **how: Any,
) -> None:
    """Plan to move all replicas off brokers ID to the others.

    A broker that is down is emptied, too. The copies come from the replicas that are left.
    """
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        layout = await read_layout(admin)
        await refuse_unknown_brokers(admin, layout, broker_ids)
        async with emptying(
            admin,
            layout,
            broker_ids,
            throttle_bytes=throttle_bytes,
            is_carried_out=_is_carried_out(how),
            say=note,
        ) as found:
            await present(
                admin,
                found.layout,
                found.plan,
                as_json=as_json,
                nothing="nothing is there to move: they are empty",
                **how,
            )


@click.command(short_help="Empty a broker and have the cluster forget it.")
@click.argument("broker_id", type=NODE_ID, metavar="ID")
@nodes_option
@plan_options
@json_option
@cluster_command
async def remove(
    *,
    broker_id: int,
    data: Path,
    throttle_bytes: int | None,
    as_json: bool,
    bootstrap_servers: str,
    **how: Any,
) -> None:
    """Plan to move all replicas off broker ID. --execute also removes the broker from the cluster.

    With --execute the node leaves the quorum, is stopped, and is unregistered. The command itself
    stops a node that `tidelog up` runs on --data. Any other broker that still runs is not
    unregistered, because it would register again at its next start. The command says when it can be
    stopped. Call the command again to unregister it.
    """
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        layout = await read_layout(admin)
        is_ours = Installation(data).runs((await admin.describe_cluster()).cluster_id, broker_id)
        if is_ours:
            refuse_to_stop(data, broker_id)
        voter_ids = await refuse_removal(admin, layout, broker_id)

        async def stop(node_id: int) -> None:
            note(f"broker {node_id} stops")
            await Installation(data).stop_for_good(node_id)

        is_carried_out, outcome = _is_carried_out(how), ""
        async with emptying(
            admin,
            layout,
            [broker_id],
            throttle_bytes=throttle_bytes,
            is_carried_out=is_carried_out,
            say=note,
        ) as found:
            if voter_ids and not as_json:
                click.echo(
                    "it also leaves the metadata quorum:"
                    f" {voters_text(voter_ids, set(voter_ids) - {broker_id})}"
                )
            nothing = f"broker {broker_id} is empty"
            is_empty = await present(
                admin, found.layout, found.plan, as_json=as_json, nothing=nothing, **how
            )
            if is_empty and is_carried_out:
                outcome = await forget(
                    admin, broker_id, stop if is_ours else None, found.cordon, note
                )
    if outcome and not as_json:
        click.echo(outcome)


def _is_carried_out(how: Mapping[str, Any]) -> bool:
    return how["execute"] and not how["dry_run"]


@click.group("topics", short_help="Plan the replicas of topics.")
def cluster_topics() -> None:
    """Plan replication factors of topics, and the brokers of their replicas."""


@cluster_topics.command("plan", short_help="Plan other replicas for topics.")
@click.argument("names", nargs=-1, metavar="[TOPIC...]", shell_complete=complete_topics)
@click.option(
    "-r",
    "--replication-factor",
    type=WholeNumber(min=1),
    metavar="N",
    help="Replicas that each partition is to have.",
)
@click.option(
    "--brokers", "broker_list", metavar="1,2,3", help="The brokers that the replicas are to be on."
)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan in Kafka's format, instead of topics.",
)
@plan_options
@json_option
@cluster_command
async def plan_topics(
    *,
    names: tuple[str, ...],
    replication_factor: int | None,
    broker_list: str | None,
    path: Path | None,
    throttle_bytes: int | None,
    as_json: bool,
    bootstrap_servers: str,
    **how: Any,
) -> None:
    """Plan another replication factor or other brokers for topics.

    Topics are named directly, by pattern, or in a plan file.

    \b
    tidelog cluster topics plan orders -r 3
    tidelog cluster topics plan 'orders-*' --brokers 1,2 --execute
    tidelog cluster topics plan --file plan.json --execute
    """
    if (path is None) == (not names):
        raise click.UsageError("say which topics, or --file with a plan")
    if path is not None and (replication_factor or broker_list):
        raise click.UsageError(
            "--file says where the replicas go: it excludes --replication-factor and --brokers"
        )
    if names and not replication_factor and not broker_list:
        raise click.UsageError("say what they are to have: --replication-factor or --brokers")
    brokers = node_ids_of(broker_list, "--brokers") if broker_list else []
    async with open_admin(bootstrap_servers) as admin, plan_refusals():
        file = read(await in_thread(_text_of, path), str(path)) if path is not None else None
        layout = await read_layout(admin)
        if file is not None:
            plan = plan_of(file, layout, throttle_bytes=throttle_bytes)
        else:
            await refuse_unknown_brokers(admin, layout, brokers)
            wanted = await matching_topics(admin, names, is_internal_included=True)
            plan = plans.change_topics(
                layout,
                wanted,
                replication_factor=replication_factor,
                brokers=brokers,
                throttle_bytes=throttle_bytes,
            )
        await present(
            admin,
            layout,
            plan,
            as_json=as_json,
            nothing="the replicas are like that already",
            **how,
        )


def _text_of(path: Path) -> str:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise PlanRefused(f"{path} is larger than {sized(MAX_FILE_BYTES)}, which no plan is")
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise PlanRefused(f"{path} is not text in UTF-8 (byte {error.start})") from error


# What is under way


def _rows(moving: Sequence[tuple[Move, int]]) -> list[dict[str, Any]]:
    return [
        {
            "topic": move.where.topic,
            "partition": move.where.partition,
            "from": list(move.before),
            "to": list(move.after),
            "copied": sized(arrived),
            "of": sized(move.copied_bytes),
            "copied_bytes": arrived,
            "total_bytes": move.copied_bytes,
        }
        for move, arrived in moving
    ]


COLUMNS = ["topic", "partition", "from", "to", "copied", "of"]


@click.command(short_help="Follow moves to their end.")
@click.option("--once", is_flag=True, help="Tell how far they are, and do not wait.")
@click.option(
    "--keep-throttle", is_flag=True, help="Leave throttles of replication as they are at the end."
)
@json_option
@cluster_command
async def watch(*, once: bool, keep_throttle: bool, as_json: bool, bootstrap_servers: str) -> None:
    """Follow the moves that are under way, by whatever tool began them.

    Once no move is left, the command removes the throttles of replication.
    """
    async with open_admin(bootstrap_servers) as admin:
        moving = await moves_under_way(admin)
        if once:
            print_rows(
                _rows(moving), COLUMNS, as_json=as_json, empty="nothing moves", flexible=["topic"]
            )
            return
        followed = await follow(admin, moving)
        removed = {"brokers": [], "topics": []} if keep_throttle else await lift_throttles(admin)
    sentence = f"{counted(followed, 'move')} complete" if followed else "nothing moves"
    if removed["brokers"] or removed["topics"]:
        sentence += "; throttles are taken away from " + " and ".join(
            text
            for text in (
                "brokers " + ", ".join(map(str, removed["brokers"])) if removed["brokers"] else "",
                "topics " + ", ".join(map(str, removed["topics"])) if removed["topics"] else "",
            )
            if text
        )
    print_result(sentence, {"completed": followed, "throttles_removed": removed}, as_json=as_json)


async def follow(admin: Admin, moving: Sequence[tuple[Move, int]]) -> int:
    """Show the progress of moves until none is under way, and return the number of moves seen."""
    line = ProgressLine()
    seen: dict[TopicPartition, int] = {}
    while moving:
        seen |= {move.where: move.copied_bytes for move, _ in moving}
        under_way = sum(move.copied_bytes for move, _ in moving)
        line.show(
            PlanProgress(
                complete=len(seen) - len(moving),
                moving=len(moving),
                waiting=0,
                copied_bytes=sum(seen.values())
                - under_way
                + sum(min(arrived, move.copied_bytes) for move, arrived in moving),
                total_bytes=sum(seen.values()),
            )
        )
        await trio.sleep(POLL_SECONDS)
        moving = await moves_under_way(admin)
    if seen:
        line.close()
    return len(seen)


async def lift_throttles(admin: Admin) -> dict[str, list[Any]]:
    """Remove throttles that moves left behind, and return the brokers and topics that had them."""
    brokers = await throttled_brokers(
        admin, [node.node_id for node in (await admin.describe_cluster()).nodes]
    )
    topics = await throttled_topics(
        admin, [topic.name for topic in await admin.list_topics(is_internal_included=True)]
    )
    await remove_throttles(admin, brokers=brokers, topics=topics)
    return {"brokers": brokers, "topics": topics}


@click.command(short_help="Put back what is under way.")
@click.argument("names", nargs=-1, metavar="[TOPIC[:0,2-4]...]", shell_complete=complete_topics)
@json_option
@cluster_command
async def cancel(*, names: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """Cancel all moves that are under way, or those of some topics.

    Added replicas are dropped, and the partition is where it was. Once no move is left, the command
    removes the throttles of replication. A complete move is not put back: --write-back of the
    command that began it writes the plan for that.
    """
    async with open_admin(bootstrap_servers) as admin:
        wanted = await partitions_named(admin, names, "TOPIC") if names else None
        moving = [move for move, _ in await moves_under_way(admin, wanted)]
        back = await take_back(admin, [move.where for move in moving]) if moving else set()
        if not await admin.list_partition_reassignments():
            await lift_throttles(admin)
    rows = [
        {"topic": move.where.topic, "partition": move.where.partition, "back_on": list(move.before)}
        for move in moving
        if move.where in back
    ]
    if as_json:
        print_json(rows)
    else:
        print_rows(
            rows,
            ["topic", "partition", "back_on"],
            as_json=False,
            empty="nothing moves",
            flexible=["topic"],
        )
