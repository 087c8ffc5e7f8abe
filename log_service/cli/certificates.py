"""``tidelog certificates`` issues certificates to services of a secured installation.

``tidelog up --secure`` makes such an installation. Its local authority signs the certificates.
Decides which names a service may have. The names of the nodes, the operator and the platform are
reserved, because these users have rights of their own. A certificate alone gives no rights, because
ACLs do that.
"""

import re
from datetime import UTC, datetime
from pathlib import Path

import click

from log_service.cli.output import data_option, json_option, print_result, print_rows
from log_service.common.errors import ConfigError
from log_service.supervisor.protection import (
    DIRECTORY,
    NODE,
    OPERATOR,
    PLATFORM,
    REGISTRY,
    REST,
    is_protected,
    issue_client,
    known_certificates,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
TAKEN = frozenset({NODE, OPERATOR, PLATFORM, REGISTRY, REST})


@click.group()
def certificates() -> None:
    """Manage certificates of services on an installation of `tidelog up --secure`.

    The installation's local authority signs them.
    """


@certificates.command(short_help="Make a key and a certificate for a service.")
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Where key and settings are written.",
)
@click.option(
    "--replace", "is_replacing", is_flag=True, help="Write over the files of an earlier one."
)
@data_option("The installation's directory.")
@json_option
def issue(*, name: str, out: Path, is_replacing: bool, data: Path, as_json: bool) -> None:
    """Make a key and a certificate for a service that logs in as User:NAME.

    The settings of its clients are written beside them.

    \b
    DIR/NAME.pem         key and certificates, for their owner alone (0600)
    DIR/authority.pem    the authority that the service trusts
    DIR/NAME.properties  both, as Kafka's tools and --command-config take it

    \b
    tidelog certificates issue shop --out shop
    tidelog acls add --allow-principal shop --producer --topic orders
    """
    check_is_protected(data)
    check_name(name)
    made = out / f"{name}.pem"
    if made.exists() and not is_replacing:
        raise click.ClickException(
            f"{made} is there already: give --replace to write over it, or another --out"
        )
    issued = issue_client(data, name, out, datetime.now(UTC))
    lines = [
        f"{issued.properties_path} logs in as User:{name} until {issued.until:%Y-%m-%d}",
        f"no ACL comes with it; see: tidelog acls add --allow-principal {name} --help",
    ]
    row = {
        "name": name,
        "until": issued.until.isoformat(),
        "keystore": str(made),
        "properties": str(issued.properties_path),
    }
    print_result("\n".join(lines), row, as_json=as_json)


@certificates.command("list", short_help="List certificates of the installation.")
@data_option("The installation's directory.")
@json_option
def list_certificates(*, data: Path, as_json: bool) -> None:
    """List the certificates that the local authority has signed, with user, kind, end and path.

    Certificates of nodes, operator and platform are renewed while the installation runs. Those of
    services are not: issue them again, because their keys are elsewhere.
    """
    check_is_protected(data)
    rows = [
        {
            "user": each.name,
            "kind": each.kind,
            "until": each.until.isoformat(timespec="seconds"),
            "path": str(each.path),
        }
        for each in known_certificates(data)
    ]
    print_rows(rows, ["user", "kind", "until", "path"], as_json=as_json, empty="there are none")


def check_is_protected(data: Path) -> None:
    """Refuse an installation without a local authority.

    Raises:
        ConfigError: the installation has no authority.
    """
    if not is_protected(data):
        text = (
            f"there is no local authority in {data / DIRECTORY}: start the installation with"
            " tidelog up --secure"
        )
        raise ConfigError(
            f"{text}, or name the directory of another with --data; other clusters have an"
            " authority of their own"
        )


def check_name(name: str) -> None:
    """Refuse a name that is reserved, or that has a meaning in a certificate or an ACL.

    Raises:
        BadParameter: a service cannot have the name.
    """
    if not NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} has to be 1-63 letters, digits, '.', '_' and '-'", param_hint="NAME"
        )
    if name in TAKEN:
        raise click.BadParameter(
            f"{name} is a user of the installation itself, with rights of its own: choose another",
            param_hint="NAME",
        )
