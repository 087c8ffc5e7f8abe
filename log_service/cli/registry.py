"""``tidelog registry`` runs a schema registry in front of a cluster."""

import logging
from pathlib import Path

import click

from log_service.cli.output import key_values
from log_service.cli.running import run, until_stopped
from log_service.client.settings_files import settings_from_environment
from log_service.common.errors import ConfigError

MISSING = "the schema registry needs packages that are not installed: pip install 'tidelog[http]'"


@click.group()
def registry() -> None:
    """Serve the schemas of records, with the REST API of Confluent's clients."""


@registry.command()
@click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster that holds the schemas."
)
@click.option(
    "--listen", metavar="URL", help="Where clients connect.  [default: http://127.0.0.1:8081]"
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property that wins over the file; may be repeated.",
)
def serve(
    *,
    file: Path | None,
    bootstrap_servers: str | None,
    listen: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Serve schemas in the foreground until Ctrl-C or SIGTERM.

    FILE has the keys of Confluent's schema-registry.properties. The schemas are records of the
    compacted topic _schemas, in Confluent's format. Several instances may share it: one writes, and
    the others forward writes to it. `tidelog up` runs one.

    \b
    A file that is enough:
      listeners=http://127.0.0.1:8081
      kafkastore.bootstrap.servers=127.0.0.1:9092
    """
    try:
        from log_service.http.schema_registry.service import (  # noqa: PLC0415 - an extra
            RegistryService,
        )
        from log_service.http.schema_registry.settings import (  # noqa: PLC0415 - an extra
            read_registry_settings,
        )
    except ModuleNotFoundError as error:
        raise ConfigError(f"{MISSING} ({error.name})") from error
    options = {"kafkastore.bootstrap.servers": bootstrap_servers, "listeners": listen}
    over = key_values(overrides, "--set") | {key: value for key, value in options.items() if value}
    text = "" if file is None else file.read_text()
    settings = read_registry_settings(
        text, str(file or "the command line"), over, settings_from_environment()
    )
    if settings.unused:
        click.echo(f"these keys have no meaning here: {', '.join(settings.unused)}", err=True)
    logging.getLogger("log_service.http").setLevel(logging.INFO)
    run(until_stopped, RegistryService(settings, say=click.echo).run)
