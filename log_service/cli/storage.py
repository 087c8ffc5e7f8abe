"""``tidelog storage`` formats directories of nodes before their first start.

Its options are those of ``kafka-storage``.
"""

import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from log_service.cli.node_files import read_node_file
from log_service.cli.output import json_option, print_rows
from log_service.cli.secret_values import warn_of_argument
from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText

if TYPE_CHECKING:
    from log_service.security.sasl.scram_argument import ScramArgument


@click.group()
def storage() -> None:
    """Format the directories of a node of a cluster. A node alone formats its own."""


@storage.command("random-uuid")
@json_option
def random_uuid(*, as_json: bool) -> None:
    """Print a new id, for a cluster or for a directory."""
    from log_service.raft.format import random_id  # noqa: PLC0415 - the other commands need no node
    from log_service.storage.partition_metadata import format_uuid  # noqa: PLC0415 - as above

    new_id = format_uuid(random_id(secrets.randbits))
    click.echo(json.dumps({"id": new_id}) if as_json else new_id)


@storage.command("format")
@click.option(
    "-c",
    "--config",
    "properties",
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The node's properties.",
)
@click.option(
    "-t",
    "--cluster-id",
    required=True,
    metavar="ID",
    help="The cluster's id, the same on each of its nodes.",
)
@click.option(
    "-g",
    "--ignore-formatted",
    is_flag=True,
    help="Leave directories that are formatted, and format the others.",
)
@click.option(
    "-s",
    "--standalone",
    is_flag=True,
    help="Begin a cluster with this controller as its only voter.",
)
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY,...",
    help="Begin a cluster with these voters.",
)
@click.option(
    "-N",
    "--no-initial-controllers",
    is_flag=True,
    help="Name no voters: this node joins a cluster that has some.",
)
@click.option(
    "-f",
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="A feature's first level; may be repeated.",
)
@click.option(
    "-r",
    "--release-version",
    metavar="VERSION",
    help="The release whose metadata the cluster begins with: 4.3.",
)
@click.option(
    "-S",
    "--add-scram",
    "scram_users",
    multiple=True,
    metavar="MECHANISM=[name=..,passwordfile=..]",
    help="A SCRAM user that the cluster begins with; may be repeated. The password is the first"
    " line of the file, or of the standard input for -. password=.. stands in the list of"
    " processes.",
)
@json_option
def format_(
    *,
    properties: Path,
    cluster_id: str,
    ignore_formatted: bool,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    features: tuple[str, ...],
    release_version: str | None,
    scram_users: tuple[str, ...],
    as_json: bool,
) -> None:
    """Format the log directories that FILE names.

    \b
    Three nodes with controller.quorum.voters in their files:
      id=$(tidelog storage random-uuid)
      tidelog storage format -t $id -c node1.properties      (and so on each node)
    """
    from log_service.broker.env import real_env  # noqa: PLC0415 - the other commands need no node
    from log_service.broker.logins.first_users import lockout_warning  # noqa: PLC0415 - as above
    from log_service.broker.storage_format import (  # noqa: PLC0415 - as above
        FormatOptions,
        format_node,
    )
    from log_service.storage.partition_metadata import format_uuid  # noqa: PLC0415 - as above

    config = read_node_file(properties)
    options = FormatOptions(
        cluster_id=cluster_id,
        is_standalone=standalone,
        initial_controllers=initial_controllers,
        is_without_controllers=no_initial_controllers,
        features=dict(map(_level, features)),
        release=release_version,
        is_formatted_ignored=ignore_formatted,
        scram_users=tuple(map(_scram_user, scram_users)),
    )
    identity = format_node(real_env(config), config, options)
    if identity.is_new and config.is_broker and config.is_controller and not no_initial_controllers:
        warning = lockout_warning(config, [user.name for user in options.scram_users])
        if warning is not None:
            click.echo(f"warning: {warning}", err=True)
    rows = [
        {
            "directory": str(directory),
            "directory_id": format_uuid(directory_id),
            "node": identity.node_id,
            "cluster": identity.cluster_id,
        }
        for directory, directory_id in identity.directory_ids.items()
    ]
    print_rows(
        rows,
        ["directory", "directory_id", "node", "cluster"],
        as_json=as_json,
        empty="there is no directory",
    )


def _scram_user(text: str) -> "ScramArgument":
    """Return the user in a SCRAM argument, with its password from the argument or from a file."""
    from log_service.security.sasl.scram_argument import (  # noqa: PLC0415 - the other commands need no node
        parse_scram_argument,
    )

    user = parse_scram_argument(text)
    if user.password_file is not None:
        return replace(user, password=_password(user.password_file), password_file=None)
    warn_of_argument(
        f"the password of {user.name}",
        "passwordfile=FILE, or passwordfile=- for the standard input",
    )
    return user


def _password(path: str) -> SecretText:
    """Return the first line of a file, or of the standard input if the name is ``-``."""
    try:
        with click.open_file(path, encoding="utf-8") as file:
            line = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the password in {path} cannot be read: {error}") from error
    if not line:
        raise ConfigError(f"the first line of {path} is empty; it must be the password")
    return SecretText(line)


def _level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals or not level.strip().isdecimal():
        raise ConfigError(f"--feature {text!r} is not name=level, for example kraft.version=1")
    return name.strip(), int(level)
