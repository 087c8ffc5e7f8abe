"""``tidelog console`` runs the web console of a cluster."""

import logging
from pathlib import Path

import click

from log_service.cli.output import key_values
from log_service.cli.running import run, until_stopped
from log_service.client.settings_files import settings_from_environment
from log_service.common.errors import ConfigError

MISSING = "the console needs packages that are not installed: pip install 'tidelog[http]'"


@click.command()
@click.argument(
    "file",
    metavar="[FILE]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="The cluster.")
@click.option(
    "--listen", metavar="URL", help="Where browsers connect.  [default: http://127.0.0.1:8080]"
)
@click.option("--registry", metavar="URL", help="The schema registry, if there is one.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property that wins over the file; may be repeated.",
)
def console(
    *,
    file: Path | None,
    bootstrap_servers: str | None,
    listen: str | None,
    registry: str | None,
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
    options = {
        "bootstrap.servers": bootstrap_servers,
        "listeners": listen,
        "schema.registry.url": registry,
    }
    over = key_values(overrides, "--set") | {key: value for key, value in options.items() if value}
    text = "" if file is None else file.read_text()
    name = str(file or "the command line")
    settings = read_console_settings(text, name, over, settings_from_environment())
    if settings.unused:
        click.echo(f"these keys have no meaning here: {', '.join(settings.unused)}", err=True)
    logging.getLogger("log_service.http").setLevel(logging.INFO)
    run(until_stopped, ConsoleService(settings, say=click.echo).run)
