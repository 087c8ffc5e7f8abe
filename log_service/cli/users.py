"""``tidelog users`` manages the users that log in with SCRAM, and their passwords (KIP-554)."""

from collections.abc import Mapping
from typing import Any

import click

from log_service.cli.connection import cluster_command, open_admin
from log_service.cli.output import bootstrap_option, json_option, print_result, print_rows
from log_service.cli.passwords import asked_password, password_file_option
from log_service.cli.running import run
from log_service.cli.standard_input import confirm
from log_service.client.admin.access import (
    DEFAULT_MECHANISM,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramUser,
)
from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource
from log_service.common.errors import KafkaError
from log_service.security.sasl.credentials import SCRAM_MECHANISMS


@click.group()
def users() -> None:
    """Manage users that log in with a password (SCRAM-SHA-256 and -512).

    Users of PLAIN and of certificates are not kept in the cluster.
    """


@users.command("list", short_help="List users.")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@json_option
@cluster_command
async def list_users(*, names: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """List all users, or those with these names, and the mechanisms of their passwords."""
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.describe_scram_users(list(dict.fromkeys(names)) or None)
    rows = [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for user, mechanisms in sorted(found.items())
        for mechanism, iterations in sorted(mechanisms.items())
    ]
    print_rows(
        rows,
        ["user", "mechanism", "iterations"],
        as_json=as_json,
        empty="there are no users; see: tidelog users add --help",
    )


@users.command(short_help="Add a user, or give one a new password.")
@click.argument("name")
@click.option(
    "-m",
    "--mechanism",
    type=click.Choice(list(SCRAM_MECHANISMS)),
    default=DEFAULT_MECHANISM,
    show_default=True,
)
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
)
@password_file_option
@json_option
@bootstrap_option
def add(
    *,
    name: str,
    mechanism: str,
    iterations: int,
    password_file: Any,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Add a user, or give one a new password.

    The password is asked for, or read from a file: no command takes it as an argument.

    \b
    tidelog users add alice
    tidelog users add etl --password-file /run/secrets/etl
    """
    # The password is read here, because only the main thread can turn the terminal's echo off.
    password = asked_password(password_file, name)
    run(
        set_password,
        bootstrap_servers,
        ScramUser(name=name, password=password, mechanism=mechanism, iterations=iterations),
    )
    print_result(
        f"{name} logs in with {mechanism}",
        {"user": name, "mechanism": mechanism, "iterations": iterations},
        as_json=as_json,
    )


async def set_password(bootstrap_servers: str, user: ScramUser) -> None:
    """Set a user's password, and warn if no listener accepts SASL logins."""
    async with open_admin(bootstrap_servers) as admin:
        await admin.set_scram_users([user])
        if not await takes_logins(admin):
            text = (
                "no listener of the cluster takes logins with SASL, so that this user cannot log in"
                " by now"
            )
            click.echo(
                f"warning: {text}; where clients show certificates, see: tidelog certificates issue"
                " --help",
                err=True,
            )


async def takes_logins(admin: Admin) -> bool:
    """Return whether the first broker of the cluster has a listener with SASL.

    Return True if the configs of that broker cannot be read.
    """
    try:
        asked = ConfigResource.broker((await admin.describe_cluster()).nodes[0].node_id)
        configs = {
            name: entry.value or ""
            for name, entry in (await admin.describe_configs([asked]))[asked].items()
        }
    except (KafkaError, IndexError, KeyError):
        return True
    return listens_with_sasl(configs)


def listens_with_sasl(configs: Mapping[str, str]) -> bool:
    """Return whether one of a broker's ``listeners`` uses SASL, by the map of security protocols.

    Return True if the broker does not report its listeners.
    """
    listeners = [
        address.partition("://")[0].strip().upper()
        for address in configs.get("listeners", "").split(",")
        if address.strip()
    ]
    pairs = [
        pair.strip().upper().partition(":")
        for pair in configs.get("listener.security.protocol.map", "").split(",")
    ]
    protocols = {name: protocol for name, _, protocol in pairs}
    return not listeners or any(protocols.get(name, name).startswith("SASL_") for name in listeners)


@users.command(short_help="Remove users.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "-m",
    "--mechanism",
    type=click.Choice(list(SCRAM_MECHANISMS)),
    help="Only the password for this one; else all.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@cluster_command
async def remove(
    *,
    names: tuple[str, ...],
    mechanism: str | None,
    yes: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Remove users' passwords.

    A user who is logged in stays logged in until the session ends (connections.max.reauth.ms).
    """
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.describe_scram_users(list(dict.fromkeys(names)))
        doomed = [
            (user, each)
            for user, mechanisms in sorted(found.items())
            for each in mechanisms
            if mechanism in {None, each}
        ]
        if not doomed:
            raise click.ClickException(
                f"{', '.join(names)}: there is no password for {mechanism}; see: tidelog users list"
            )
        if not yes:
            await confirm(
                f"Take {', '.join(f'{user} ({each})' for user, each in doomed)} away?",
                "nothing was removed",
            )
        await admin.remove_scram_users(doomed)
    rows = [{"user": user, "mechanism": each} for user, each in doomed]
    print_result(
        "\n".join(f"removed {row['user']} ({row['mechanism']})" for row in rows),
        rows,
        as_json=as_json,
    )
