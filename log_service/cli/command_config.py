"""Chooses the settings of a command's clients: a file, the environment or the local installation.

With ``--command-config`` only the given file counts. Without that option the file named by
TIDELOG_CLIENT_CONFIG is used, and variables such as TIDELOG_SASL_PASSWORD take precedence over it.
If neither sets anything, and the command connects to its default servers, it uses the file that
``tidelog up --secure`` wrote for the operator. A warning names keys that no client has, and a file
with a password that others may read.
"""

import os
from pathlib import Path
from typing import Any

import click

from log_service.cli.output import COMMAND_CONFIG, DATA_SETTING, DEFAULT_DATA, default_servers
from log_service.client.settings_files import read_settings_file
from log_service.common.errors import ConfigError
from log_service.config.client import SECRETS
from log_service.config.client_properties import FILE_VARIABLE, settings_of_environment
from log_service.config.client_security import SECURITY_SETTINGS, client_security

OPERATOR_FILE = Path("security") / "clients" / "operator.properties"
"""The operator's settings file that ``tidelog up --secure`` writes, below the data directory."""


def configured_settings(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings of a command's clients, from the files and variables of this module.

    Raises:
        ConfigError: the file cannot be read, or is not a properties file, or its settings
            contradict each other.
    """
    context = click.get_current_context(silent=True)
    given: Path | None = None if context is None else context.find_root().meta.get(COMMAND_CONFIG)
    if given is not None:
        return read_whole_file(given)
    if named := os.environ.get(FILE_VARIABLE):
        return read_file(Path(named)) | settings_of_environment(os.environ)
    if settings := settings_of_environment(os.environ):
        return settings
    own = Path(os.environ.get(DATA_SETTING) or DEFAULT_DATA) / OPERATOR_FILE
    return read_file(own) if own.is_file() and bootstrap_servers == default_servers() else {}


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings of a properties file.

    Keys that no client has, and a secret that others may read, are reported on standard error.

    Raises:
        ConfigError: the file cannot be read, or is not a properties file.
    """
    settings, is_open, warning = read_settings_file(path)
    if warning is not None:
        click.echo(f"warning: {path}: {warning}", err=True)
    if is_open and SECRETS & settings.keys():
        click.echo(
            f"warning: {path} holds a password, and others may read it; see: chmod 600 {path}",
            err=True,
        )
    return settings


def read_whole_file(path: Path) -> dict[str, Any]:
    """Return the settings of a properties file that must be complete without the environment.

    Raises:
        ConfigError: as ``read_file``, or the settings contradict each other. The text of
            the second error names the file, and keys as the file spells them.
    """
    settings = read_file(path)
    try:
        client_security(settings)
    except ConfigError as error:
        text = str(error)
        for name in sorted(SECURITY_SETTINGS, key=len, reverse=True):
            text = text.replace(name, name.replace("_", "."))
        raise ConfigError(f"{path}: {text}") from error
    return settings
