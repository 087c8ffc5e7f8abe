"""``tidelog quotas`` shows, sets and removes quotas of users, clients and addresses.

This module defines the options that name an entity, and the notation of values. A quota of bytes
may have a unit, as in 10MiB.
"""

from collections.abc import Callable
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.output import json_option, key_values, print_result, print_rows, refuse_both
from log_service.cli.sizes import rate_of
from log_service.client.admin.values import QuotaEntity

KEYS = {
    "producer_byte_rate": "bytes per second that producers send",
    "consumer_byte_rate": "bytes per second that consumers are sent",
    "request_percentage": "percent of one thread that requests take",
    "controller_mutation_rate": "partitions per second that are created and deleted",
    "connection_creation_rate": "connections per second from an address",
}
BYTES = frozenset({"producer_byte_rate", "consumer_byte_rate"})


@click.group()
def quotas() -> None:
    """Limit the rates of users, clients and addresses.

    \b
    The quotas, all per second:
      producer_byte_rate        bytes that producers send
      consumer_byte_rate        bytes that consumers are sent
      request_percentage        percent of a thread's time
      controller_mutation_rate  partitions created and deleted
      connection_creation_rate  connections from an address
    """


def entity_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a quota's entity."""
    options = (
        click.option(
            "-u", "--user", metavar="NAME", help="A user; without logins that is ANONYMOUS."
        ),
        click.option("--default-user", is_flag=True, help="Each user that has no quota by name."),
        click.option(
            "-c",
            "--client-id",
            metavar="ID",
            help="A client id; with --user, of that user's clients.",
        ),
        click.option(
            "--default-client-id", is_flag=True, help="Each client id that has no quota by name."
        ),
        click.option("--ip", metavar="ADDRESS", help="An address that connects."),
        click.option("--default-ip", is_flag=True, help="Each address that has no quota by name."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def named_parts(given: dict[str, Any]) -> dict[str, str]:
    """Return the entity that the options name, as names by Kafka's entity types.

    An empty name is the default of a type.

    Raises:
        UsageError: options exclude each other.
    """
    parts: dict[str, str] = {}
    for kind in ("user", "client-id", "ip"):
        name, is_default = given[kind.replace("-", "_")], given[f"default_{kind.replace('-', '_')}"]
        refuse_both({f"--{kind}": name is not None, f"--default-{kind}": is_default})
        if name == "":
            raise click.UsageError(
                f"--{kind} needs a name; --default-{kind} is for those that have none by name"
            )
        if name is not None or is_default:
            parts[kind] = name or ""
    if "ip" in parts and len(parts) > 1:
        raise click.UsageError(
            "an address has quotas of its own: name no user and no client id with it"
        )
    return parts


def named_entity(given: dict[str, Any]) -> QuotaEntity:
    """Return the entity that the options name.

    Raises:
        UsageError: no user, client or address is named.
    """
    parts = named_parts(given)
    if not parts:
        raise click.UsageError("name whom: --user, --client-id, --ip, or one of their defaults")
    return QuotaEntity.of(parts)


def value_of(key: str, text: str) -> float:
    """Return a quota's value as a number. A quota of bytes may have a unit.

    Raises:
        BadParameter: the text is not a number, or there is no such quota.
    """
    if key not in KEYS:
        raise click.BadParameter(
            f"there is no quota {key!r}; there are {', '.join(KEYS)}", param_hint="KEY=VALUE"
        )
    if key in BYTES:
        return rate_of(text, hint="KEY=VALUE")
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a value of {key}; give a number: {KEYS[key]}", param_hint="KEY=VALUE"
        ) from None


@quotas.command(short_help="Show the quotas that are set.")
@entity_options
@json_option
@cluster_command
async def show(*, as_json: bool, bootstrap_servers: str, **given: Any) -> None:
    """Show all quotas, or those of the entities that the options name.

    \b
    tidelog quotas show
    tidelog quotas show --user alice
    tidelog quotas show --default-client-id --json
    """
    parts = named_parts(given)
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.describe_client_quotas(dict(parts))
    rows = [
        {
            "for": str(entity),
            "user": entity.user,
            "client_id": entity.client_id,
            "ip": entity.ip,
            "quota": key,
            "value": int(value) if value.is_integer() else value,
            "meaning": KEYS.get(key, ""),
        }
        for entity, values in sorted(found.items(), key=lambda item: str(item[0]))
        for key, value in sorted(values.items())
    ]
    empty = (
        f"no quotas are set{f' for {QuotaEntity.of(parts)}' if parts else ''}; see: tidelog quotas"
        " set --help"
    )
    print_rows(
        rows,
        ["for", "quota", "value", "meaning"],
        as_json=as_json,
        empty=empty,
        flexible=["meaning", "for"],
    )


@quotas.command("set", short_help="Set quotas.")
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...")
@entity_options
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@cluster_command
async def set_quotas(
    *, pairs: tuple[str, ...], dry_run: bool, as_json: bool, bootstrap_servers: str, **given: Any
) -> None:
    """Set each quota KEY to VALUE for the entity that the options name.

    \b
    tidelog quotas set producer_byte_rate=1MiB --user alice
    tidelog quotas set consumer_byte_rate=10MiB --default-client-id
    tidelog quotas set connection_creation_rate=5 --ip 10.0.0.7
    """
    values = {key: value_of(key, text) for key, text in key_values(pairs, "KEY=VALUE").items()}
    await change(
        named_entity(given),
        dict(values),
        bootstrap_servers,
        dry_run=dry_run,
        as_json=as_json,
        done=f"set {', '.join(values)}",
    )


@quotas.command(short_help="Remove quotas.")
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@entity_options
@click.option("--dry-run", is_flag=True, help="Only ask whether it would be accepted.")
@json_option
@cluster_command
async def remove(
    *, keys: tuple[str, ...], dry_run: bool, as_json: bool, bootstrap_servers: str, **given: Any
) -> None:
    """Remove the quotas KEY, or all, from the entity that the options name.

    \b
    tidelog quotas remove producer_byte_rate --user alice
    tidelog quotas remove --default-ip
    """
    entity = named_entity(given)
    for key in keys:
        if key not in KEYS:
            raise click.BadParameter(
                f"there is no quota {key!r}; there are {', '.join(KEYS)}", param_hint="KEY"
            )
    async with open_admin(bootstrap_servers) as admin:
        parts = {kind: name or "" for kind, name in entity.parts().items()}
        found = (await admin.describe_client_quotas(parts, is_strict=True)).get(entity, {})
    absent = [key for key in keys if key not in found]
    if absent or not found:
        raise click.ClickException(
            f"{entity} has no {' and no '.join(absent) or 'quotas'}; see: tidelog quotas show"
        )
    keys = keys or tuple(sorted(found))
    await change(
        entity,
        dict.fromkeys(keys),
        bootstrap_servers,
        dry_run=dry_run,
        as_json=as_json,
        done=f"removed {', '.join(keys)}",
    )


async def change(
    entity: QuotaEntity,
    changes: dict[str, float | None],
    bootstrap_servers: str,
    *,
    dry_run: bool,
    as_json: bool,
    done: str,
) -> None:
    """Change quotas of an entity, and print the result."""
    async with open_admin(bootstrap_servers) as admin:
        await admin.alter_client_quotas({entity: changes}, is_validated_only=dry_run)
    text = f"{'this would be accepted: ' if dry_run else ''}{done} for {entity}"
    print_result(
        text,
        [{"for": str(entity), "changed": sorted(changes), "is_dry_run": dry_run}],
        as_json=as_json,
    )
