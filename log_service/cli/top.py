"""``tidelog top`` shows brokers, topics and groups of a running cluster, with their rates.

It uses only the client's API, so that it works on any Kafka cluster. The growth of offsets gives
the rates of topics, and the growth of commits the rates of groups. A broker's metrics page adds
bytes. This module decides which facts are read and when. ``top_rates`` turns two readings of the
cluster into rates, ``top_view`` turns rates into a screen.
"""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from log_service.cli.connection import CommandAdmin, cluster_command, open_admin
from log_service.cli.numbers import Number, WholeNumber
from log_service.cli.output import DATA_SETTING, DEFAULT_DATA, default_servers, print_json
from log_service.cli.registry_connection import checked_url
from log_service.cli.running import in_thread
from log_service.cli.top_metrics import TopicBytes, read_topic_bytes
from log_service.cli.top_rates import GroupLook, Look, Screen, TopicLook, screen_of
from log_service.cli.top_registry import installed_registry, read_registry
from log_service.cli.top_view import SORT_KEYS, show_live, table_text
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import PartitionOffsets
from log_service.cluster_operations.reading import active_controller
from log_service.common.errors import KafkaError
from log_service.common.types import TopicPartition

FIRST_PAUSE_S = 1.0


@click.command()
@click.option(
    "-n",
    "--interval",
    type=Number(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between looks.",
)
@click.option(
    "-s",
    "--sort",
    "sort_key",
    type=click.Choice(sorted(SORT_KEYS)),
    default="in",
    show_default=True,
    help="Order of topics.",
)
@click.option(
    "-l",
    "--limit",
    type=WholeNumber(min=1),
    default=20,
    show_default=True,
    help="Rows of each table.",
)
@click.option(
    "--metrics",
    "metrics_urls",
    multiple=True,
    metavar="URL",
    help="A broker's metrics page, for bytes: http://127.0.0.1:9404/metrics; may be repeated.",
)
@click.option(
    "--registry",
    "registry_url",
    metavar="URL",
    callback=checked_url,
    help="A schema registry to show.  [default: that of tidelog up here]",
)
@click.option(
    "--internal", is_flag=True, help="Show the topics that brokers keep for themselves, too."
)
@click.option("--once", is_flag=True, help="Show one screen and end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and end.")
@cluster_command
async def top(
    *,
    interval: float,
    sort_key: str,
    limit: int,
    metrics_urls: tuple[str, ...],
    registry_url: str | None,
    internal: bool,
    once: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Watch brokers, topics and groups, until q or Ctrl-C. Works on every Kafka cluster.

    \b
    Keys: s sorts by the next column, r turns the order around, q ends.
    tidelog top --once --sort size
    tidelog top --json -b kafka:9092
    """
    registry = registry_url or registry_of(bootstrap_servers)
    async with open_admin(bootstrap_servers) as admin:
        look_again = partial(look, admin, metrics_urls, registry, is_internal_included=internal)
        before = await look_again()
        if not (once or as_json):
            await show_live(look_again, before, interval, sort_key, limit)
            return
        await trio.sleep(min(interval, FIRST_PAUSE_S))
        screen = screen_of(before, await look_again())
    if as_json:
        print_json(as_values(screen))
    else:
        click.echo(table_text(screen, sort_key, limit))


def registry_of(bootstrap_servers: str) -> str | None:
    """Return the URL of the local ``tidelog up``'s schema registry.

    Return None if the servers are not those that commands use by default, or it has no registry.
    """
    if bootstrap_servers != default_servers():
        return None
    return installed_registry(Path(os.environ.get(DATA_SETTING) or DEFAULT_DATA))


async def look(
    admin: CommandAdmin,
    metrics_urls: Sequence[str],
    registry_url: str | None,
    *,
    is_internal_included: bool,
) -> Look:
    """Read the current state of the cluster.

    Raises:
        TidelogError: no broker responds, or a metrics page cannot be read.
    """
    cluster = await admin.describe_cluster()
    listed = await admin.list_topics(is_internal_included=is_internal_included)
    described = await admin.describe_topics([topic.name for topic in listed]) if listed else {}
    sizes = await sizes_of(admin)
    topics: dict[str, TopicLook] = {}
    offsets = await admin.describe_offsets(list(described)) if described else {}
    for name, topic in described.items():
        found = [offsets[where] for where in topic.topic_partitions if where in offsets]
        topics[name] = TopicLook(
            partition_count=len(topic.partitions),
            under_replicated_count=sum(
                len(each.isr) < len(each.replicas) for each in topic.partitions
            ),
            leaderless_count=sum(each.leader < 0 for each in topic.partitions),
            end_sum=sum(each.high_watermark for each in found),
            record_count=sum(each.high_watermark - each.log_start_offset for each in found),
            size_bytes=sizes.get(name),
            leaders=tuple(each.leader for each in topic.partitions),
        )
    traffic: dict[str, TopicBytes] = {}
    for url in metrics_urls:
        for name, counted in (await in_thread(read_topic_bytes, url)).items():
            traffic[name] = traffic.get(name, TopicBytes()) + counted
    return Look(
        at_s=time.monotonic(),
        cluster_id=cluster.cluster_id,
        controller_id=await active_controller(admin, cluster),
        brokers={node.node_id: f"{node.host}:{node.port}" for node in cluster.nodes},
        topics=topics,
        groups=await groups_of(admin, offsets),
        traffic=traffic,
        registry=(
            None
            if registry_url is None
            else await in_thread(read_registry, registry_url, admin.settings)
        ),
    )


async def groups_of(
    admin: Admin, ends: Mapping[TopicPartition, PartitionOffsets]
) -> dict[str, GroupLook]:
    """Return every group with its committed offsets and its lag. ``ends`` are the end offsets."""
    names = [group.group_id for group in await admin.list_groups()]
    described = await admin.describe_groups(names) if names else {}
    found: dict[str, GroupLook] = {}
    for name, group in described.items():
        committed = await admin.list_group_offsets(name)
        lags = [
            max(0, ends[where].high_watermark - each.offset)
            for where, each in committed.items()
            if where in ends
        ]
        found[name] = GroupLook(
            state=group.state,
            member_count=len(group.members),
            committed_sum=sum(each.offset for each in committed.values()),
            lag=sum(lags),
            topics=tuple(sorted({where.topic for where in committed})),
        )
    return found


async def sizes_of(admin: Admin) -> dict[str, int]:
    """Return the size of each topic in bytes, summed over all brokers.

    It is empty if the request fails, because a topic has just been deleted, or a broker is too old.
    """
    sizes: dict[str, int] = {}
    try:
        found = await admin.describe_log_dirs()
    except KafkaError:
        return sizes
    for directories in found.values():
        for directory in directories.values():
            for where, replica in directory.replicas.items():
                sizes[where.topic] = sizes.get(where.topic, 0) + max(0, replica.size_bytes)
    return sizes


def as_values(screen: Screen) -> dict[str, Any]:
    """Return a screen as plain values for JSON."""
    return {
        "cluster_id": screen.cluster_id,
        "controller_id": screen.controller_id,
        "interval_s": round(screen.interval_s, 3),
        "brokers": screen.brokers,
        "topics": screen.topics,
        "groups": screen.groups,
        "registry": screen.registry,
    }
