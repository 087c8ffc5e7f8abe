"""Where the clients of a command get their settings: ``--command-config``, else the environment, else the installation in this directory.

Decides which of them holds. The file of ``--command-config`` stands alone. Without it a file named by TIDELOG_CLIENT_CONFIG holds, and
variables such as TIDELOG_SASL_PASSWORD hold over it. Where neither says anything, and no other servers are named, the commands use what
``tidelog up --secure`` wrote for the operator. A file with a password that others may read is told.
"""

import os
import stat
from pathlib import Path
from typing import Any

import click

from log_service.cli.output import COMMAND_CONFIG, DATA_SETTING, DEFAULT_DATA, default_servers
from log_service.common.errors import ConfigError
from log_service.config.client_properties import FILE_VARIABLE, settings_of_environment, settings_of_file
from log_service.config.client_security import SECRETS

OPERATOR_FILE = Path("security") / "clients" / "operator.properties"
"""What ``tidelog up --secure`` writes for the person who administers, below the directory of the data."""
MAX_FILE_BYTES = 1 << 20


def told_settings(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings that file and environment say.

    Raises:
        ClickException: the file cannot be read.
        ConfigError: it is no properties file.
    """
    context = click.get_current_context(silent=True)
    given: Path | None = None if context is None else context.find_root().meta.get(COMMAND_CONFIG)
    if given is not None:
        return read_file(given)
    named, variables = os.environ.get(FILE_VARIABLE), settings_of_environment(os.environ)
    if named or variables:
        return (read_file(Path(named)) if named else {}) | variables
    own = Path(os.environ.get(DATA_SETTING) or DEFAULT_DATA) / OPERATOR_FILE
    return read_file(own) if own.is_file() and bootstrap_servers == default_servers() else {}


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings of a properties file; one with a secret that others may read is told on standard error.

    Raises:
        ClickException: it cannot be read.
        ConfigError: it is no properties file.
    """
    try:
        with path.open("rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(MAX_FILE_BYTES)
        settings = settings_of_file(content.decode(), str(path))
    except OSError as error:
        raise click.ClickException(f"the settings of clients cannot be read: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a properties file in UTF-8") from error
    if SECRETS & settings.keys() and mode & (stat.S_IRGRP | stat.S_IROTH):
        click.echo(f"warning: {path} holds a password, and others may read it; see: chmod 600 {path}", err=True)
    return settings
