"""Adds the options that the commands of HTTP services share, and reads their properties.

An option takes precedence over the file. The file takes precedence over the environment, and over
the cluster of a ``tidelog up`` in this directory.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from log_service.cli.output import default_servers, key_values
from log_service.cli.registry_connection import REGISTRY_SETTING
from log_service.common.installation_names import SERVERS_SETTING
from log_service.config.properties import parse_properties

File = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenProperties:
    """The properties of a service: the text of file ``name``, and ``over``, which overrides it."""

    text: str = field(repr=False)
    name: str
    over: Mapping[str, str] = field(repr=False)


def service_options(port: int) -> Callable[[click.decorators.FC], click.decorators.FC]:
    """Return a decorator that adds FILE, ``-b``, ``--listen`` and ``--set`` to a command."""
    options = (
        click.argument("file", metavar="[FILE]", required=False, type=File),
        click.option("-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster."),
        click.option(
            "--listen",
            metavar="URL",
            help=f"Where clients connect.  [default: http://127.0.0.1:{port}]",
        ),
        click.option(
            "--set",
            "overrides",
            multiple=True,
            metavar="KEY=VALUE",
            help="A property that wins over the file; may be repeated.",
        ),
    )

    def decorate(command: click.decorators.FC) -> click.decorators.FC:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def given_properties(
    file: Path | None,
    overrides: Sequence[str],
    *,
    listen: str | None,
    bootstrap_servers: str | None,
    registry: str | None = None,
    servers_key: str = "bootstrap.servers",
    registry_key: str | None = "schema.registry.url",
    more: Mapping[str, str] | None = None,
) -> GivenProperties:
    """Return the properties that the arguments of a command give to its service.

    ``servers_key`` and ``registry_key`` are the keys of the cluster and the registry, which the
    environment may give, too. ``registry_key`` is None for a service without a registry. ``more``
    has the values of the service's own options by key.

    Raises:
        ConfigError: the environment's settings of clients cannot be read.
    """
    text = "" if file is None else file.read_text()
    named = {servers_key: bootstrap_servers, "listeners": listen, registry_key: registry}
    chosen = {key: value for key, value in named.items() if key is not None and value}
    chosen |= {key: value for key, value in (more or {}).items() if value}
    over = {**key_values(overrides, "--set"), **chosen}
    known = {**parse_properties(text), **over}
    if servers_key not in known:
        over[servers_key] = os.environ.get(SERVERS_SETTING, "").strip() or default_servers()
    known_registry = os.environ.get(REGISTRY_SETTING, "").strip()
    if known_registry and registry_key is not None and registry_key not in known:
        over[registry_key] = known_registry
    return GivenProperties(text=text, name=str(file or "the command line"), over=over)


def note_start(unused: Sequence[str]) -> None:
    """Warn of properties that the service does not know, and turn on log lines of level INFO."""
    if unused:
        click.echo(f"these keys have no meaning here: {', '.join(unused)}", err=True)
    logging.getLogger("log_service.http").setLevel(logging.INFO)
