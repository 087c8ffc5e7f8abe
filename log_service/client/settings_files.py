"""Reads client settings from a properties file in Kafka's format and from environment variables.

``config.client_properties`` interprets the text of the file and the variables.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from log_service.common.errors import ConfigError
from log_service.config.client_properties import (
    FILE_VARIABLE,
    servers_of_file,
    settings_of_environment,
    settings_of_file,
    unknown_warning,
)

MAX_FILE_BYTES = 1 << 20
READ_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH


def settings_from_file(path: Path | str) -> dict[str, Any]:
    """Return the settings of a properties file with Kafka's keys.

    They are keyword arguments, as in ``BlockingAdmin(servers, **settings)``. Keys that not every
    client has, such as serializers, are ignored.

    Raises:
        ConfigError: the file cannot be read, is not a properties file, or has a value that its key
            does not allow.
    """
    return read_settings_file(path).settings


def settings_from_environment(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the client settings in an environment. None means the environment of this process.

    ``TIDELOG_CLIENT_CONFIG`` names a properties file. Variables such as ``TIDELOG_SASL_PASSWORD``
    override it.

    Raises:
        ConfigError: as ``settings_from_file``.
    """
    given = os.environ if environ is None else environ
    named = given.get(FILE_VARIABLE)
    return (settings_from_file(named) if named else {}) | settings_of_environment(given)


class SettingsFile(NamedTuple):
    """Content of a settings file.

    ``is_open`` means that users other than its owner may read the file. ``warning`` is a text about
    keys that no client has, or None.
    """

    settings: dict[str, Any]
    is_open: bool
    warning: str | None


def read_settings_file(path: Path | str) -> SettingsFile:
    """Return the content of a settings file. Raises as ``settings_from_file``."""
    text, is_open = _read(path)
    return SettingsFile(settings_of_file(text, str(path)), is_open, unknown_warning(text))


def servers_from_file(path: Path | str) -> str | None:
    """Return the ``bootstrap.servers`` of a properties file, None without that key.

    Raises as ``settings_from_file``.
    """
    return servers_of_file(_read(path)[0])


def _read(path: Path | str) -> tuple[str, bool]:
    """Return the text of a file, and whether users other than its owner may read it."""
    try:
        with Path(path).open("rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(MAX_FILE_BYTES)
        return content.decode(), bool(mode & READ_BY_OTHERS)
    except OSError as error:
        raise ConfigError(
            f"the settings of clients cannot be read: {path}: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a properties file in UTF-8") from error
