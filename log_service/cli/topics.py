"""``tidelog topics``: create, list, describe, change and delete topics, and see their offsets."""

from collections.abc import Sequence
from typing import Any

import click

from log_service.cli.connection import open_admin
from log_service.cli.output import bootstrap_option, confirm, json_option, key_values, print_rows
from log_service.client.admin_values import ConfigResource, NewTopic
from log_service.client.blocking import BlockingAdmin
from log_service.common.types import TopicPartition
from log_service.storage.partition_metadata import format_uuid


@click.group()
def topics() -> None:
    """Create, list, describe, change and delete topics."""


config_option = click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A topic config; may be repeated.")


@topics.command(short_help="Create topics.")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), metavar="N", help="Partitions of each (default: the broker's num.partitions)."
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), metavar="N", help="Replicas of each partition (default: the broker's)."
)
@config_option
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine.")
@bootstrap_option
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap_servers: str,
) -> None:
    """Create topics NAMES.

    \b
    tidelog topics create orders -p 6 -c retention.ms=86400000
    """
    settings = key_values(configs, "--config")
    with open_admin(bootstrap_servers) as admin:
        present = {topic.name for topic in admin.list_topics()} if if_not_exists else set()
        wanted = [
            NewTopic(name=name, partition_count=partitions or -1, replication_factor=replication_factor or -1, configs=settings)
            for name in names
            if name not in present
        ]
        ids = admin.create_topics(wanted) if wanted else {}
    for name in names:
        click.echo(f"created {name} ({format_uuid(ids[name])})" if name in ids else f"{name} was there already")


@topics.command("list")
@click.option("--internal", is_flag=True, help="Show the topics that the broker keeps for itself, too.")
@json_option
@bootstrap_option
def list_topics(*, internal: bool, as_json: bool, bootstrap_servers: str) -> None:
    """List all topics."""
    with open_admin(bootstrap_servers) as admin:
        found = admin.list_topics(is_internal_included=internal)
    rows = [{"name": topic.name, "partitions": topic.partition_count, "topic_id": format_uuid(topic.topic_id)} for topic in found]
    print_rows(
        rows, ["name", "partitions", "topic_id"], as_json=as_json, empty="there are no topics; create one with: tidelog topics create NAME"
    )


@topics.command(short_help="Show partitions and offsets, or configs.")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--configs", "with_configs", is_flag=True, help="Show every config and where its value comes from, instead of the partitions."
)
@json_option
@bootstrap_option
def describe(*, names: tuple[str, ...], with_configs: bool, as_json: bool, bootstrap_servers: str) -> None:
    """Describe topics NAMES: partitions with leaders, replicas and offsets, or their configs."""
    with open_admin(bootstrap_servers) as admin:
        rows = config_rows(admin, names) if with_configs else partition_rows(admin, names)
    columns = (
        (["topic"] if len(names) > 1 else []) + ["config", "value", "source"]
        if with_configs
        else ["topic", "partition", "leader", "isr", "start", "end", "epoch"]
    )
    print_rows(rows, columns, as_json=as_json)


def partition_rows(admin: BlockingAdmin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per partition."""
    described = admin.describe_topics(list(names))
    offsets = admin.describe_offsets(list(names))
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


def config_rows(admin: BlockingAdmin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per config."""
    found = admin.describe_configs([ConfigResource.topic(name) for name in names])
    return [
        {"topic": resource.name, "config": entry.name, "value": entry.value, "source": entry.source, "documentation": entry.documentation}
        for resource, entries in found.items()
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
    ]


@topics.command(short_help="Change configs, or add partitions.")
@click.argument("name")
@click.option("-p", "--partitions", type=click.IntRange(min=1), metavar="N", help="Grow to so many partitions; they never become fewer.")
@config_option
@click.option("--reset", "resets", multiple=True, metavar="KEY", help="Give a config its default back; may be repeated.")
@bootstrap_option
def alter(*, name: str, partitions: int | None, configs: tuple[str, ...], resets: tuple[str, ...], bootstrap_servers: str) -> None:
    """Change the configs of topic NAME, or give it more partitions."""
    changes: dict[str, str | None] = {**key_values(configs, "--config"), **dict.fromkeys(resets)}
    if not changes and partitions is None:
        raise click.UsageError("nothing to change: give --partitions, --config or --reset")
    with open_admin(bootstrap_servers) as admin:
        if changes:
            admin.alter_configs({ConfigResource.topic(name): changes})
        if partitions is not None:
            admin.create_partitions({name: partitions})
    click.echo(f"changed {name}")


@topics.command(short_help="Delete topics with all their records.")
@click.argument("names", nargs=-1, required=True)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def delete(*, names: tuple[str, ...], yes: bool, bootstrap_servers: str) -> None:
    """Delete topics NAMES with all their records."""
    if not yes:
        confirm(f"Delete {', '.join(names)} with all records?", "nothing was deleted")
    with open_admin(bootstrap_servers) as admin:
        admin.delete_topics(list(names))
    click.echo(f"deleted {', '.join(names)}")


@topics.command("delete-records", short_help="Delete records below an offset.")
@click.argument("name")
@click.option("-p", "--partition", type=click.IntRange(min=0), metavar="N", required=True)
@click.option(
    "--before", type=click.IntRange(min=-1), metavar="N", required=True, help="The first offset to keep; -1 deletes all that is committed."
)
@bootstrap_option
def delete_records(*, name: str, partition: int, before: int, bootstrap_servers: str) -> None:
    """Delete the records of a partition of topic NAME below an offset."""
    where = TopicPartition(name, partition)
    with open_admin(bootstrap_servers) as admin:
        starts = admin.delete_records({where: before})
    click.echo(f"{where} now begins at offset {starts[where]}")


@topics.command("apply-retention", short_help="Delete what retention no longer keeps.")
@click.argument("names", nargs=-1)
@json_option
@bootstrap_option
def apply_retention(*, names: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """Have the broker apply retention now, to topics NAMES or to all, and tell what went.

    A tidelog broker does this; others clean by themselves.
    """
    with open_admin(bootstrap_servers) as admin:
        results = admin.apply_retention(list(names) or None)
    columns = ["topic", "partition", "segments_deleted", "bytes_deleted", "log_start_offset"]
    print_rows([{column: getattr(result, column) for column in columns} for result in results], columns, as_json=as_json)
