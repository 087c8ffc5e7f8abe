"""Reads the settings file of a mirror. ``settings`` decides the meaning of its text."""

from pathlib import Path

from log_service.common.errors import ConfigError
from log_service.mirror.settings import MirrorSettings

MAX_FILE_BYTES = 1 << 20


def read_mirror_settings(path: Path) -> MirrorSettings:
    """Return the settings in a properties file.

    Raises:
        ConfigError: the file cannot be read or is not UTF-8; or as ``MirrorSettings.of``.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES).decode()
    except OSError as error:
        raise ConfigError(
            f"the mirror's settings cannot be read: {path}: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a properties file in UTF-8") from error
    return MirrorSettings.of(text, str(path))
