"""``tidelog rest`` runs a REST proxy of a cluster."""

from importlib.util import find_spec
from pathlib import Path

import click

from log_service.cli.http_services import given_properties, note_start, service_options
from log_service.cli.running import run, until_stopped
from log_service.client.settings_files import settings_from_environment
from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_REST_PORT

MISSING = "the REST proxy needs packages that are not installed: pip install 'tidelog[http]'"
MISSING_SCHEMAS = (
    "a schema registry needs packages that are not installed: pip install 'tidelog[http,schemas]'"
)


@click.group()
def rest() -> None:
    """Serve records and topics over HTTP, with the API of Confluent's REST proxy."""


@rest.command()
@service_options(DEFAULT_REST_PORT)
@click.option(
    "--registry", metavar="URL", help="The schema registry, for Avro, Protobuf and JSON Schema."
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
    given = given_properties(
        file, overrides, listen=listen, bootstrap_servers=bootstrap_servers, registry=registry
    )
    settings = read_rest_settings(given.text, given.name, given.over, settings_from_environment())
    if settings.registry_url and find_spec("fastavro") is None:
        raise ConfigError(MISSING_SCHEMAS)
    note_start(settings.unused)
    run(until_stopped, RestService(settings, say=click.echo).run)
