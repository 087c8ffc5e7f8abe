"""The settings of clients outside of a program: a properties file as Kafka's tools take it, and variables of the environment.

Reads the file that is named; ``config.client_properties`` decides what its text and the variables mean.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from log_service.common.errors import ConfigError
from log_service.config.client_properties import FILE_VARIABLE, servers_of_file, settings_of_environment, settings_of_file, unknown_warning

MAX_FILE_BYTES = 1 << 20
READ_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH


def settings_from_file(path: Path | str) -> dict[str, Any]:
    """Return the settings of a properties file with Kafka's keys, for ``BlockingAdmin(servers, **settings)`` and its like.

    Keys that are not of every client, such as serializers, are left aside.

    Raises:
        ConfigError: it cannot be read, is no properties file, or a value is none of its key.
    """
    return read_settings_file(path).settings


def settings_from_environment(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the settings that the environment (None: this process's) asks for.

    ``TIDELOG_CLIENT_CONFIG`` names a properties file; variables such as ``TIDELOG_SASL_PASSWORD`` hold over it.

    Raises:
        ConfigError: as ``settings_from_file``.
    """
    given = os.environ if environ is None else environ
    named = given.get(FILE_VARIABLE)
    return (settings_from_file(named) if named else {}) | settings_of_environment(given)


class SettingsFile(NamedTuple):
    """What a file says, whether others than its owner may read it, and what is to be told of keys that no client has."""

    settings: dict[str, Any]
    is_open: bool
    warning: str | None


def read_settings_file(path: Path | str) -> SettingsFile:
    """Return what a file says. Raises as ``settings_from_file``."""
    text, is_open = _read(path)
    return SettingsFile(settings_of_file(text, str(path)), is_open, unknown_warning(text))


def servers_from_file(path: Path | str) -> str | None:
    """Return the ``bootstrap.servers`` of a properties file; None where it names none. Raises as ``settings_from_file``."""
    return servers_of_file(_read(path)[0])


def _read(path: Path | str) -> tuple[str, bool]:
    """Return the text of a file, and whether others than its owner may read it."""
    try:
        with Path(path).open("rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(MAX_FILE_BYTES)
        return content.decode(), bool(mode & READ_BY_OTHERS)
    except OSError as error:
        raise ConfigError(f"the settings of clients cannot be read: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a properties file in UTF-8") from error
