"""``tidelog tokens`` manages delegation tokens (KIP-48).

With a token a program logs in without its owner's password. The token's HMAC is its password, and
no command takes that as an argument. Commands name a token by its id, and fetch the rest from the
broker. The HMAC is written to a file that only its owner may read, and printed only with
``--show``.
"""

import base64
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from log_service.cli.connection import CommandAdmin, cluster_command, open_admin
from log_service.cli.output import json_option, print_result, print_rows
from log_service.client.admin.access import DelegationTokenDescription
from log_service.common.private_files import replace_private

TRUST = {
    "ssl_ca": "ssl.truststore.location",
    "ssl_truststore_type": "ssl.truststore.type",
    "ssl_truststore_location": "ssl.truststore.location",
    "ssl_endpoint_identification_algorithm": "ssl.endpoint.identification.algorithm",
}
"""Settings of trusted authorities, and their keys in a file.

The password of a trust store is not written, so the user has to add it.
"""
COLUMNS = ["token", "owner", "renewers", "expires", "ends"]


@click.group()
def tokens() -> None:
    """Manage delegation tokens: passwords for programs, which expire by themselves.

    A user who has logged in makes them.
    """


def shown(token: DelegationTokenDescription) -> dict[str, object]:
    """Return a token as a row, without its secret."""
    return {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued": _time(token.issue_timestamp_ms),
        "expires": _time(token.expiry_timestamp_ms),
        "ends": _time(token.max_timestamp_ms),
    }


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@tokens.command("list", short_help="List tokens.")
@click.option(
    "--owner", multiple=True, metavar="User:NAME", help="Only the tokens of these owners."
)
@json_option
@cluster_command
async def list_tokens(*, owner: tuple[str, ...], as_json: bool, bootstrap_servers: str) -> None:
    """List the tokens that this user may see.

    These are its own, those that it may renew, and those that an ACL lets it describe.
    """
    async with open_admin(bootstrap_servers) as admin:
        found = await admin.describe_delegation_tokens(list(owner) or None)
    rows = [shown(token) for token in found]
    print_rows(
        rows,
        COLUMNS,
        as_json=as_json,
        empty="there are no tokens; see: tidelog tokens create --help",
        flexible=["renewers"],
    )


@tokens.command(short_help="Create a token.")
@click.option(
    "--owner",
    metavar="User:NAME",
    help="For another user than this one; needs the operation create_tokens on that user.",
)
@click.option(
    "--renewer", multiple=True, metavar="User:NAME", help="Who may renew it beside its owner."
)
@click.option(
    "--max-lifetime-ms",
    type=click.IntRange(1),
    help="After so long it ends, however often it is renewed.",
)
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the settings of a client that uses it (0600).",
)
@click.option(
    "--show", is_flag=True, help="Print the secret, in base64: it stays in the terminal's history."
)
@json_option
@cluster_command
async def create(
    *,
    owner: str | None,
    renewer: tuple[str, ...],
    max_lifetime_ms: int | None,
    target: Path | None,
    show: bool,
    as_json: bool,
    bootstrap_servers: str,
) -> None:
    """Create a token, and write a properties file with which a client logs in by it.

    \b
    tidelog tokens create --to job.properties --renewer User:scheduler
    tidelog topics list --command-config job.properties
    """
    if target is None and not show:
        raise click.UsageError("say where its secret goes: --to FILE, or --show")
    if target is not None and not os.access(target.parent, os.W_OK | os.X_OK):
        # The broker tells a secret once.
        raise click.UsageError(
            f"--to {target}: no file can be written in {target.parent}; no token was created"
        )
    async with open_admin(bootstrap_servers) as admin:
        token = await admin.create_delegation_token(
            owner=owner, renewers=renewer, max_lifetime_ms=max_lifetime_ms or -1
        )
        settings = admin.settings
    if target is not None:
        replace_private(target, _properties(token, settings))
    row = shown(token) | ({"hmac": base64.b64encode(token.hmac.reveal()).decode()} if show else {})
    text = f"token {token.token_id} of {token.owner} expires {row['expires']}"
    print_result(
        "\n".join(
            [
                text,
                *([f"hmac {row['hmac']}"] if show else []),
                *([f"written to {target}"] if target else []),
            ]
        ),
        row,
        as_json=as_json,
    )


@tokens.command(short_help="Let a token hold longer.")
@click.argument("token_id")
@click.option(
    "--period-ms",
    type=click.IntRange(1),
    help="For so long from now; default delegation.token.expiry.time.ms of the broker.",
)
@json_option
@cluster_command
async def renew(
    *, token_id: str, period_ms: int | None, as_json: bool, bootstrap_servers: str
) -> None:
    """Extend the life of a token, at most up to its maximum lifetime."""
    async with open_admin(bootstrap_servers) as admin:
        expires_ms = await admin.renew_delegation_token(
            (await named(admin, token_id)).hmac, period_ms=period_ms or -1
        )
    print_result(
        f"token {token_id} expires {_time(expires_ms)}",
        {"token": token_id, "expires": _time(expires_ms)},
        as_json=as_json,
    )


@tokens.command(short_help="Let a token expire.")
@click.argument("token_id")
@click.option("--period-ms", type=click.IntRange(0), help="So long from now; without it at once.")
@json_option
@cluster_command
async def expire(
    *, token_id: str, period_ms: int | None, as_json: bool, bootstrap_servers: str
) -> None:
    """Expire a token, at once or after a while."""
    async with open_admin(bootstrap_servers) as admin:
        await admin.expire_delegation_token(
            (await named(admin, token_id)).hmac, period_ms=-1 if period_ms is None else period_ms
        )
    print_result(
        f"token {token_id} expires{' now' if period_ms is None else f' in {period_ms} ms'}",
        {"token": token_id},
        as_json=as_json,
    )


async def named(admin: CommandAdmin, token_id: str) -> DelegationTokenDescription:
    """Return the token with an id.

    Raises:
        ClickException: there is no such token that this user may see.
    """
    for token in await admin.describe_delegation_tokens():
        if token.token_id == token_id:
            return token
    raise click.ClickException(f"this user sees no token {token_id}; see: tidelog tokens list")


def _properties(token: DelegationTokenDescription, settings: Mapping[str, Any]) -> str:
    """Return the settings of a client that logs in with the token.

    It trusts the same authorities as this command.
    """
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    lines = [
        f"# Logs in as {token.owner} with delegation token {token.token_id}",
        f"security.protocol={protocol if protocol.startswith('SASL') else 'SASL_SSL'}",
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.jaas.config={token.jaas_config().reveal()}",
    ]
    lines += [
        f"{TRUST[name]}={settings[name]}"
        for name in TRUST
        if "\n" not in str(settings.get(name, "\n"))
    ]
    if "ssl_ca" in settings:
        lines.append("ssl.truststore.type=PEM")
    return "\n".join([*lines, ""])
