"""``tidelog registry`` runs a schema registry that keeps its schemas in a cluster."""

from pathlib import Path

import click

from log_service.cli.http_services import given_properties, note_start, service_options
from log_service.cli.running import run, until_stopped
from log_service.client.settings_files import settings_from_environment
from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_REGISTRY_PORT

MISSING = "the schema registry needs packages that are not installed: pip install 'tidelog[http]'"

SERVERS = "kafkastore.bootstrap.servers"


@click.group()
def registry() -> None:
    """Serve the schemas of records, with the REST API of Confluent's clients."""


@registry.command()
@service_options(DEFAULT_REGISTRY_PORT)
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
    given = given_properties(
        file,
        overrides,
        listen=listen,
        bootstrap_servers=bootstrap_servers,
        servers_key=SERVERS,
        registry_key=None,
    )
    settings = read_registry_settings(
        given.text, given.name, given.over, settings_from_environment()
    )
    note_start(settings.unused)
    run(until_stopped, RegistryService(settings, say=click.echo).run)
