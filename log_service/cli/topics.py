"""``tidelog topics`` creates, lists, describes, changes and deletes topics, by name or pattern.

It shows their offsets, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.names import complete_topics, matching_topics
from log_service.cli.numbers import WholeNumber
from log_service.cli.output import json_option, key_values, print_result, print_rows
from log_service.cli.standard_input import confirm
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, NewTopic
from log_service.cluster_operations.reading import observers_among
from log_service.common.types import TopicPartition
from log_service.storage.partition_metadata import format_uuid


@click.group()
def topics() -> None:
    """Create, list, describe, change and delete topics."""


config_option = click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A topic config; may be repeated.",
)


@topics.command(short_help="Create topics.")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "-p",
    "--partitions",
    type=WholeNumber(min=1, bits=32),
    metavar="N",
    help="Partitions of each (default: the broker's num.partitions).",
)
@click.option(
    "-r",
    "--replication-factor",
    type=WholeNumber(min=1, bits=16),
    metavar="N",
    help="Replicas of each partition (default: the broker's).",
)
@config_option
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine.")
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@cluster_command
async def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Create topics NAMES.

    \b
    tidelog topics create orders -p 6 -c retention.ms=86400000
    """
    settings = key_values(configs, "--config")
    async with open_admin(bootstrap_servers) as admin:
        present = (
            {topic.name for topic in await admin.list_topics(is_internal_included=True)}
            if if_not_exists
            else set()
        )
        wanted = [
            NewTopic(
                name=name,
                partition_count=partitions or -1,
                replication_factor=replication_factor or -1,
                configs=settings,
            )
            for name in names
            if name not in present
        ]
        ids = await admin.create_topics(wanted, is_validated_only=dry_run) if wanted else {}
    rows = [
        {
            "name": name,
            "created": name in ids,
            "topic_id": format_uuid(ids[name]) if name in ids else None,
        }
        for name in names
    ]
    if dry_run:
        print_result(
            "\n".join(f"{topic.name} would be accepted" for topic in wanted),
            [topic.name for topic in wanted],
            as_json=as_json,
        )
        return
    lines = [
        (
            f"created {row['name']} ({row['topic_id']})"
            if row["created"]
            else f"{row['name']} was there already"
        )
        for row in rows
    ]
    print_result("\n".join(lines), rows, as_json=as_json)


@topics.command("list", short_help="List all topics.")
@click.argument("names", nargs=-1, metavar="[NAMES...]", shell_complete=complete_topics)
@click.option(
    "--internal", is_flag=True, help="Show the topics that the broker keeps for itself, too."
)
@json_option
@cluster_command
async def list_topics(
    *, names: tuple[str, ...], internal: bool, as_json: bool, bootstrap_servers: str
) -> None:
    """List all topics, or NAMES, which may be patterns like 'orders-*'."""
    async with open_admin(bootstrap_servers) as admin:
        wanted = set(await matching_topics(admin, names, is_internal_included=internal))
        found = [
            topic
            for topic in await admin.list_topics(is_internal_included=internal)
            if topic.name in wanted
        ]
    rows = [
        {
            "name": topic.name,
            "partitions": topic.partition_count,
            "topic_id": format_uuid(topic.topic_id),
        }
        for topic in found
    ]
    print_rows(
        rows,
        ["name", "partitions", "topic_id"],
        as_json=as_json,
        empty="there are no topics; create one with: tidelog topics create NAME",
    )


FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "under_replicated": (
        lambda row: (
            len(row["isr"]) + len(set(row["observers"]) - set(row["isr"])) < len(row["replicas"])
        )
    ),
    "unavailable": lambda row: row["leader"] < 0,
    "under_min_isr": lambda row: len(row["isr"]) < row["min_isr"],
    "at_min_isr": lambda row: len(row["isr"]) == row["min_isr"],
}
MIN_ISR = "min.insync.replicas"


@topics.command(short_help="Show partitions and offsets, or configs.")
@click.argument("names", nargs=-1, metavar="[NAMES...]", shell_complete=complete_topics)
@click.option(
    "--under-replicated",
    is_flag=True,
    help="Only partitions with a replica out of sync that is not an observer.",
)
@click.option("--unavailable", is_flag=True, help="Only partitions without a leader.")
@click.option(
    "--under-min-isr",
    is_flag=True,
    help="Only partitions with fewer in sync than min.insync.replicas.",
)
@click.option(
    "--at-min-isr", is_flag=True, help="Only partitions with just min.insync.replicas in sync."
)
@click.option(
    "--configs",
    "with_configs",
    is_flag=True,
    help="Show every config and where its value comes from, instead of the partitions.",
)
@json_option
@cluster_command
async def describe(
    *,
    names: tuple[str, ...],
    with_configs: bool,
    as_json: bool,
    bootstrap_servers: str,
    **filters: bool,
) -> None:
    """Describe topics NAMES, by name or pattern, or all.

    Shows partitions with leaders, replicas and offsets, or configs.
    """
    wanted_filters = [name for name, is_wanted in filters.items() if is_wanted]
    if with_configs and wanted_filters:
        raise click.UsageError(
            f"--configs and --{wanted_filters[0].replace('_', '-')} exclude each other"
        )
    async with open_admin(bootstrap_servers) as admin:
        wanted = (
            await matching_topics(admin, names, is_internal_included=True)
            if names
            else await matching_topics(admin, ())
        )
        if with_configs:
            rows = await config_rows(admin, wanted)
        else:
            rows = await partition_rows(admin, wanted)
            if any("min_isr" in name for name in wanted_filters):
                await note_min_isr(admin, wanted, rows)
            if "under_replicated" in wanted_filters:
                await note_observers(admin, rows)
            rows = [row for row in rows if all(FILTERS[name](row) for name in wanted_filters)]
    columns = (
        (["topic"] if len(wanted) > 1 else []) + ["config", "value", "source"]
        if with_configs
        else ["topic", "partition", "leader", "replicas", "isr", "start", "end", "epoch"]
    )
    print_rows(
        rows,
        columns,
        as_json=as_json,
        empty="there is no such partition" if wanted_filters else "there are no topics",
        flexible=["value", "replicas", "isr"],
    )


async def note_min_isr(admin: Admin, names: Sequence[str], rows: list[dict[str, Any]]) -> None:
    """Add the topic's min.insync.replicas to each row."""
    found = await admin.describe_configs([ConfigResource.topic(name) for name in names])
    wanted = {
        resource.name: int(entries[MIN_ISR].value or 1) for resource, entries in found.items()
    }
    for row in rows:
        row["min_isr"] = wanted[row["topic"]]


async def note_observers(admin: Admin, rows: list[dict[str, Any]]) -> None:
    """Add to each row its replicas on observers. By design, these are not in the ISR.

    A broker that does not respond is not listed as an observer.
    """
    active = [broker.node_id for broker in await admin.describe_brokers() if not broker.is_fenced]
    observers, _silent = await observers_among(admin, active)
    for row in rows:
        row["observers"] = sorted(observers.intersection(row["replicas"]))


async def partition_rows(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per partition."""
    described = await admin.describe_topics(list(names)) if names else {}
    offsets = await admin.describe_offsets(list(names)) if names else {}
    rows = []
    for name in names:
        for partition in described[name].partitions:
            found = offsets.get(TopicPartition(name, partition.partition))
            rows.append(
                {
                    "topic": name,
                    "topic_id": format_uuid(described[name].topic_id),
                    "partition": partition.partition,
                    "leader": partition.leader,
                    "replicas": list(partition.replicas),
                    "isr": list(partition.isr),
                    "start": found.log_start_offset if found else None,
                    "end": found.high_watermark if found else None,
                    "epoch": partition.leader_epoch,
                }
            )
    return rows


async def config_rows(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per config."""
    found = (
        await admin.describe_configs([ConfigResource.topic(name) for name in names])
        if names
        else {}
    )
    return [
        {
            "topic": resource.name,
            "config": entry.name,
            "value": entry.value,
            "source": entry.source,
            "documentation": entry.documentation,
        }
        for resource, entries in found.items()
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
    ]


@topics.command(short_help="Change configs, or add partitions.")
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "-p",
    "--partitions",
    type=WholeNumber(min=1, bits=32),
    metavar="N",
    help="Grow to so many partitions; they never become fewer.",
)
@config_option
@click.option(
    "--reset",
    "resets",
    multiple=True,
    metavar="KEY",
    help="Give a config its default back; may be repeated.",
)
@json_option
@cluster_command
async def alter(
    *,
    name: str,
    partitions: int | None,
    configs: tuple[str, ...],
    resets: tuple[str, ...],
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Change the configs of topic NAME, or give it more partitions."""
    changes: dict[str, str | None] = {**key_values(configs, "--config"), **dict.fromkeys(resets)}
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: give --partitions, --config or --reset")
    async with open_admin(bootstrap_servers) as admin:
        if changes:
            await admin.alter_configs({ConfigResource.topic(name): changes})
        if partitions is not None:
            await admin.create_partitions({name: partitions})
    print_result(
        f"changed {name}",
        {"name": name, "partitions": partitions, "configs": changes},
        as_json=as_json,
    )


@topics.command(short_help="Delete topics with all their records.")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def delete(
    *, names: tuple[str, ...], yes: bool, as_json: bool, bootstrap_servers: str
) -> None:
    """Delete topics NAMES, by name or pattern, with all their records."""
    async with open_admin(bootstrap_servers) as admin:
        wanted = await matching_topics(admin, names)
        if not yes:
            # A missing topic raises here, before the user is asked to confirm.
            await admin.describe_topics(wanted)
            await confirm(f"Delete {', '.join(wanted)} with all records?", "nothing was deleted")
        await admin.delete_topics(wanted)
    print_result(f"deleted {', '.join(wanted)}", wanted, as_json=as_json)


@topics.command("apply-retention", short_help="Delete what retention no longer keeps.")
@click.argument("names", nargs=-1, shell_complete=complete_topics)
@json_option
@cluster_command
async def apply_retention(*, names: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """Apply retention now, to topics NAMES or to all, and report the deleted records.

    A tidelog broker does this; others clean by themselves.
    """
    async with open_admin(bootstrap_servers) as admin:
        results = await admin.apply_retention(list(names) or None)
    columns = ["topic", "partition", "segments_deleted", "bytes_deleted", "log_start_offset"]
    print_rows(
        [{column: getattr(result, column) for column in columns} for result in results],
        columns,
        as_json=as_json,
    )


@topics.command(
    "apply-compaction", short_help="Keep of each key the latest record, where that is due."
)
@click.argument("names", nargs=-1, shell_complete=complete_topics)
@json_option
@cluster_command
async def apply_compaction(
    *, names: tuple[str, ...], as_json: bool, bootstrap_servers: str
) -> None:
    """Compact now the due part of topics NAMES, or of all compacted topics, and report it.

    Each topic's configuration decides what is due: min.cleanable.dirty.ratio and the compaction
    lags. A tidelog broker does this; others clean by themselves.
    """
    async with open_admin(bootstrap_servers) as admin:
        results = await admin.apply_compaction(list(names) or None)
    columns = [
        "topic",
        "partition",
        "records_before",
        "records_after",
        "bytes_before",
        "bytes_after",
    ]
    print_rows([asdict(result) for result in results], columns, as_json=as_json, flexible=["topic"])
    for result in results:
        if result.reason is not None:
            click.echo(
                f"{result.topic}-{result.partition} was not compacted: {result.reason}", err=True
            )
