"""``tidelog console`` runs the web console of a cluster."""

import gc
from pathlib import Path

import click

from log_service.cli.http_services import given_properties, note_start, service_options
from log_service.cli.running import run, until_stopped
from log_service.client.settings_files import settings_from_environment
from log_service.common.errors import ConfigError
from log_service.common.listeners import DEFAULT_CONSOLE_PORT

MISSING = "the console needs packages that are not installed: pip install 'tidelog[http]'"


@click.command()
@service_options(DEFAULT_CONSOLE_PORT)
@click.option("--registry", metavar="URL", help="The schema registry, if there is one.")
@click.option(
    "--metrics",
    multiple=True,
    metavar="URL",
    help="A broker's metrics page, for plots: http://127.0.0.1:9404/metrics; may be repeated.",
)
def console(
    *,
    file: Path | None,
    bootstrap_servers: str | None,
    listen: str | None,
    registry: str | None,
    metrics: tuple[str, ...],
    overrides: tuple[str, ...],
) -> None:
    """Serve the web console in the foreground until Ctrl-C or SIGTERM.

    Without authentication.method it acts by its own client settings, and listens on 127.0.0.1
    alone. With basic, people log in as users of the cluster, and may do what its ACLs allow them.
    `tidelog up` runs one.

    \b
    A file that is enough:
      listeners=http://127.0.0.1:8080
      bootstrap.servers=127.0.0.1:9092
    """
    try:
        from log_service.http.console.service import ConsoleService  # noqa: PLC0415 - an extra
        from log_service.http.console.settings import (  # noqa: PLC0415 - an extra
            read_console_settings,
        )
    except ModuleNotFoundError as error:
        raise ConfigError(f"{MISSING} ({error.name})") from error
    given = given_properties(
        file,
        overrides,
        listen=listen,
        bootstrap_servers=bootstrap_servers,
        registry=registry,
        more={"metrics.urls": ",".join(metrics)},
    )
    gc.freeze()  # so that no full collection goes through the modules, which takes 80 ms
    settings = read_console_settings(
        given.text, given.name, given.over, settings_from_environment()
    )
    note_start(settings.unused)
    run(until_stopped, ConsoleService(settings, say=click.echo).run)
