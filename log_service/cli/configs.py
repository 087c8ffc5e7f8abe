"""``tidelog configs`` shows and changes configs of topics, brokers and other resources.

The others are the cluster, groups and the metrics of clients. This module defines the options that
name a resource. By default the command shows only values that were set, without the defaults. A
change affects only the keys that it names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.names import complete_groups, complete_topics, matching_topics
from log_service.cli.node_ids import NODE_ID
from log_service.cli.output import (
    bootstrap_option,
    counted,
    json_option,
    key_values,
    print_result,
    print_rows,
)
from log_service.cli.running import run
from log_service.cli.secret_values import with_secrets_read
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)
from log_service.common.errors import ConfigError

Resources = list[ConfigResource]
KINDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.BROKER: "broker",
    ResourceType.GROUP: "group",
    ResourceType.CLIENT_METRICS: "client metrics",
}
PLACES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
    "STATIC_BROKER_CONFIG": "file",
    "DYNAMIC_GROUP_CONFIG": "group",
    "DYNAMIC_CLIENT_METRICS_CONFIG": "client metrics",
    "DEFAULT_CONFIG": "default",
}
"""Short names of the places where a value was set. JSON has Kafka's names."""


@click.group()
def configs() -> None:
    """Show and change the configs of topics, brokers, the cluster, groups and clients' metrics."""


def resource_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name resources."""
    options = (
        click.option(
            "-t",
            "--topic",
            "topic_names",
            multiple=True,
            metavar="NAME",
            shell_complete=complete_topics,
            help="A topic, or a pattern like 'orders-*'.",
        ),
        click.option(
            "--broker",
            "broker_ids",
            type=NODE_ID,
            multiple=True,
            metavar="ID",
            help="A broker by its node id.",
        ),
        click.option(
            "--cluster-default",
            "is_cluster",
            is_flag=True,
            help="What holds for every broker that says nothing else.",
        ),
        click.option(
            "-g",
            "--group",
            "group_ids",
            multiple=True,
            metavar="ID",
            shell_complete=complete_groups,
            help="A group.",
        ),
        click.option(
            "--client-metrics",
            "metrics_names",
            multiple=True,
            metavar="NAME",
            help="Which metrics clients push (metrics, interval.ms, match), under a name that you"
            " choose.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


async def named_resources(
    admin: Admin,
    *,
    topic_names: Sequence[str],
    broker_ids: Sequence[int],
    is_cluster: bool,
    group_ids: Sequence[str],
    metrics_names: Sequence[str],
) -> Resources:
    """Return the resources that the options name."""
    topics = (
        await matching_topics(admin, topic_names, is_internal_included=True) if topic_names else []
    )
    return [
        *map(ConfigResource.topic, topics),
        *map(ConfigResource.broker, broker_ids),
        *([ConfigResource.all_brokers()] if is_cluster else []),
        *map(ConfigResource.group, group_ids),
        *map(ConfigResource.client_metrics, metrics_names),
    ]


def require_one(named: Mapping[str, object]) -> None:
    """Refuse options that name no resource."""
    if not any(named.values()):
        raise click.UsageError(
            "name what: --topic NAME, --broker ID, --cluster-default, --group ID or"
            " --client-metrics NAME"
        )


def shown(resource: ConfigResource) -> str:
    """Return the name of a resource in the form in which a user types it."""
    kind = KINDS.get(resource.resource_type, resource.resource_type.name.lower())
    return f"{kind} {resource.name}" if resource.name else "cluster default"


def row_of(resource: ConfigResource, entry: ConfigEntry) -> dict[str, Any]:
    """Return a config as a row."""
    return {
        "resource_type": KINDS.get(resource.resource_type, resource.resource_type.name.lower()),
        "resource": resource.name or None,
        "config": entry.name,
        "value": entry.value,
        "source": entry.source,
        "is_default": entry.is_default,
        "is_read_only": entry.is_read_only,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": name, "value": value, "source": source}
            for name, value, source in entry.synonyms
        ],
        "documentation": entry.documentation,
    }


def default_of(entry: ConfigEntry) -> str | None:
    """Return the default value of a config, None if the cluster does not report it.

    It is the value of the last synonym that is a default.
    """
    found = [value for _, value, source in entry.synonyms if source == "DEFAULT_CONFIG"]
    return found[-1] if found else entry.value if entry.is_default else None


@configs.command("list", short_help="Show every config that was set.")
@json_option
@cluster_command
async def list_configs(*, as_json: bool, bootstrap_servers: str) -> None:
    """Show every config that was set, anywhere in the cluster.

    That is on topics, brokers while they run, the whole cluster, groups and clients' metrics.
    """
    async with open_admin(bootstrap_servers) as admin:
        topics = await matching_topics(admin, (), is_internal_included=True)
        nodes = [node.node_id for node in (await admin.describe_cluster()).nodes]
        resources = [
            *map(ConfigResource.topic, topics),
            *map(ConfigResource.broker, nodes),
            ConfigResource.all_brokers(),
        ]
        resources += await admin.list_config_resources(
            (ResourceType.GROUP, ResourceType.CLIENT_METRICS)
        )
        found = await admin.describe_configs(resources)
    own = {
        "topic": {"DYNAMIC_TOPIC_CONFIG"},
        "broker": {"DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"},
        "group": {"DYNAMIC_GROUP_CONFIG"},
        "client metrics": {"DYNAMIC_CLIENT_METRICS_CONFIG"},
    }
    rows = [
        {"what": shown(resource), **row}
        for resource, entries in found.items()
        for row in (row_of(resource, entries[name]) for name in sorted(entries))
        if row["source"] in own[row["resource_type"]]
        and (resource.name or row["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG")
        if not (
            resource.resource_type is ResourceType.BROKER
            and resource.name
            and row["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        )
    ]
    hint = "nothing is configured; see: tidelog configs describe --help"
    print_rows(
        rows, ["what", "config", "value"], as_json=as_json, empty=hint, flexible=["value", "config"]
    )


@configs.command(short_help="Show configs, their defaults and where values come from.")
@resource_options
@click.argument("keys", nargs=-1)
@click.option(
    "-a",
    "--all",
    "with_defaults",
    is_flag=True,
    help="Show defaults too; without it, what was set.",
)
@click.option(
    "--synonyms",
    "with_synonyms",
    is_flag=True,
    help="Show every place that sets a config, the one that holds first.",
)
@json_option
@cluster_command
async def describe(
    *,
    keys: tuple[str, ...],
    with_defaults: bool,
    with_synonyms: bool,
    as_json: bool,
    bootstrap_servers: str,
    **named: Any,
) -> None:
    """Show the configs KEYS, or all that were set, of the named resources.

    \b
    tidelog configs describe --topic orders
    tidelog configs describe --topic 'orders-*' retention.ms cleanup.policy
    tidelog configs describe --broker 1 --all --synonyms
    """
    require_one(named)
    async with open_admin(bootstrap_servers) as admin:
        resources = await named_resources(admin, **named)
        found = await admin.describe_configs(resources)
    rows: list[dict[str, Any]] = []
    for resource, entries in found.items():
        refuse_unknown(resource, entries, keys)
        chosen = [
            entry
            for _, entry in sorted(entries.items())
            if entry.name in keys or (not keys and (with_defaults or is_set(entry)))
        ]
        for entry in chosen:
            rows.append(
                {
                    "what": shown(resource),
                    **row_of(resource, entry),
                    "default": default_of(entry),
                    "set_by": place_of(entry.source),
                }
            )
            if with_synonyms and not as_json:
                rows += [
                    {"config": f"  {name}", "value": value, "set_by": place_of(source)}
                    for name, value, source in entry.synonyms
                ]
    columns = (["what"] if len(found) > 1 else []) + ["config", "value", "default", "set_by"]
    hint = "" if with_defaults else "; --all shows the defaults"
    print_rows(
        rows,
        columns,
        as_json=as_json,
        empty=f"nothing is configured{hint}",
        flexible=["value", "default", "config"],
    )


def place_of(source: str) -> str:
    """Return the short name of the level at which a value was set, such as topic or broker."""
    return PLACES.get(source, source.lower())


def is_set(entry: ConfigEntry) -> bool:
    """Return whether the config was set, and is not a default."""
    return not entry.is_default


def refuse_unknown(
    resource: ConfigResource, entries: dict[str, ConfigEntry], keys: Sequence[str]
) -> None:
    """Refuse keys that the resource does not have."""
    for key in keys:
        if key not in entries:
            raise click.ClickException(
                f"{shown(resource)} has no config {key!r}; see: tidelog configs describe --all"
            )


@configs.command("set", short_help="Set configs.")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@resource_options
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@bootstrap_option
def set_configs(
    *, pairs: tuple[str, ...], dry_run: bool, as_json: bool, bootstrap_servers: str, **named: Any
) -> None:
    """Set each KEY to VALUE on the named resources.

    \b
    tidelog configs set retention.ms=86400000 --topic orders
    tidelog configs set log.retention.ms=3600000 --cluster-default
    tidelog configs set 'metrics=*' interval.ms=30000 --client-metrics all

    A secret comes from a file, or from the standard input for @-. Other keys take a value that
    begins with @ as it is.

    \b
    tidelog configs set ssl.key.password=@password.txt --broker 1
    """
    values = with_secrets_read(key_values(pairs, "KEY=VALUE"))
    run(
        change,
        bootstrap_servers,
        dict(values),
        named,
        dry_run=dry_run,
        as_json=as_json,
        done=f"set {', '.join(values)}",
    )


@configs.command(short_help="Give configs their defaults back.")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@resource_options
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@cluster_command
async def unset(
    *, keys: tuple[str, ...], dry_run: bool, as_json: bool, bootstrap_servers: str, **named: Any
) -> None:
    """Reset each KEY to its default on the named resources."""
    for key in keys:
        if "=" in key:
            raise click.BadParameter(f"{key!r} is more than a key", param_hint="KEY")
    await change(
        bootstrap_servers,
        dict.fromkeys(keys),
        named,
        dry_run=dry_run,
        as_json=as_json,
        done=f"unset {', '.join(keys)}",
    )


@configs.command(short_help="Add values to lists.")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@resource_options
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@cluster_command
async def append(
    *, pairs: tuple[str, ...], dry_run: bool, as_json: bool, bootstrap_servers: str, **named: Any
) -> None:
    """Add VALUE to the list config KEY of the named resources.

    \b
    tidelog configs append cleanup.policy=compact --topic orders
    """
    await change_list(
        ConfigOperation.APPEND, pairs, bootstrap_servers, named, dry_run=dry_run, as_json=as_json
    )


@configs.command(short_help="Take values from lists.")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@resource_options
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@cluster_command
async def subtract(
    *, pairs: tuple[str, ...], dry_run: bool, as_json: bool, bootstrap_servers: str, **named: Any
) -> None:
    """Remove VALUE from the list config KEY of the named resources."""
    await change_list(
        ConfigOperation.SUBTRACT, pairs, bootstrap_servers, named, dry_run=dry_run, as_json=as_json
    )


async def change_list(
    operation: ConfigOperation,
    pairs: Sequence[str],
    bootstrap_servers: str,
    named: dict[str, Any],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Append values to lists, or remove values from them."""
    values = key_values(pairs, "KEY=VALUE")
    changes = {key: ConfigChange(operation=operation, value=value) for key, value in values.items()}
    word = "appended to" if operation is ConfigOperation.APPEND else "took from"
    await change(
        bootstrap_servers,
        changes,
        named,
        dry_run=dry_run,
        as_json=as_json,
        done=f"{word} {', '.join(values)}",
    )


async def change(
    bootstrap_servers: str,
    changes: dict[str, Any],
    named: dict[str, Any],
    *,
    dry_run: bool,
    as_json: bool,
    done: str,
) -> None:
    """Make the same changes to every named resource, and report them.

    Raises:
        UsageError: no resource is named.
        ConfigError: no resource matches.
    """
    require_one(named)
    async with open_admin(bootstrap_servers) as admin:
        resources = await named_resources(admin, **named)
        if not resources:
            raise ConfigError("there is nothing to change")
        await admin.alter_configs(dict.fromkeys(resources, changes), is_validated_only=dry_run)
    subject = shown(resources[0]) if len(resources) == 1 else counted(len(resources), "resource")
    text = f"{'this would be accepted: ' if dry_run else ''}{done} on {subject}"
    rows = [
        {"resource": shown(resource), "changed": sorted(changes), "is_dry_run": dry_run}
        for resource in resources
    ]
    print_result(text, rows, as_json=as_json)
