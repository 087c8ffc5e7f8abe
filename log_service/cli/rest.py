"""``tidelog rest`` runs a REST proxy in front of a cluster."""

import logging
from importlib.util import find_spec
from pathlib import Path

import click

from log_service.cli.output import key_values
from log_service.cli.running import run, until_stopped
from log_service.client.settings_files import settings_from_environment
from log_service.common.errors import ConfigError

MISSING = "the REST proxy needs packages that are not installed: pip install 'tidelog[http]'"
MISSING_SCHEMAS = (
    "a schema registry needs packages that are not installed: pip install 'tidelog[http,schemas]'"
)
File = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def rest() -> None:
    """Serve records and topics over HTTP, with the API of Confluent's REST proxy."""


@rest.command()
@click.argument("file", metavar="[FILE]", required=False, type=File)
@click.option("-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster.")
@click.option(
    "--listen", metavar="URL", help="Where clients connect.  [default: http://127.0.0.1:8082]"
)
@click.option(
    "--registry", metavar="URL", help="The schema registry, for Avro, Protobuf and JSON Schema."
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
    registry: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Serve a cluster over HTTP in the foreground until Ctrl-C or SIGTERM.

    FILE has the keys of Confluent's kafka-rest.properties. A request with a login acts at the
    cluster as its user. Several proxies may run beside each other. `tidelog up --rest` runs one.

    \b
    A file that is enough:
      listeners=http://127.0.0.1:8082
      bootstrap.servers=127.0.0.1:9092
    """
    try:
        from log_service.http.rest_proxy.service import RestService  # noqa: PLC0415 - an extra
        from log_service.http.rest_proxy.settings import read_rest_settings  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ConfigError(f"{MISSING} ({error.name})") from error
    options = {
        "bootstrap.servers": bootstrap_servers,
        "listeners": listen,
        "schema.registry.url": registry,
    }
    over = key_values(overrides, "--set") | {key: text for key, text in options.items() if text}
    text = "" if file is None else file.read_text()
    name = str(file or "the command line")
    settings = read_rest_settings(text, name, over, settings_from_environment())
    if settings.unused:
        unused = ", ".join(settings.unused)
        click.echo(f"these keys have no meaning here: {unused}", err=True)
    if settings.registry_url and find_spec("fastavro") is None:
        raise ConfigError(MISSING_SCHEMAS)
    logging.getLogger("log_service.http").setLevel(logging.INFO)
    run(until_stopped, RestService(settings, say=click.echo).run)
