"""Reads secrets from files or standard input, and warns of a secret in an argument.

Arguments are visible to every account in the list of processes, and in the history of the shell.
"""

import click

from log_service.common.errors import ConfigError


def with_secrets_read(values: dict[str, str]) -> dict[str, str]:
    """Return configs in which a secret's ``@FILE`` is replaced by the content of the file.

    ``@-`` is replaced by the standard input. A newline at the end is removed. A value of any other
    key is kept, even if it begins with ``@``.

    Raises:
        ConfigError: a file cannot be read, or is empty.
    """
    return {key: _secret(key, value) if _is_secret(key) else value for key, value in values.items()}


def warn_of_argument(what: str, instead: str) -> None:
    """Warn on standard error of a secret in an argument."""
    click.echo(
        f"warning: {what} stands in the list of processes while the command runs, where others may"
        f" read it; give {instead}",
        err=True,
    )


def _is_secret(name: str) -> bool:
    from log_service.config.definition import (  # noqa: PLC0415 - the other commands need no keys of brokers
        ConfigType,
    )
    from log_service.config.describe import broker_key  # noqa: PLC0415 - as above

    key = broker_key(name)
    return key is not None and key.type is ConfigType.PASSWORD


def _secret(key: str, value: str) -> str:
    if not value.startswith("@"):
        if value:
            warn_of_argument(
                f"the value of {key}", f"{key}=@FILE, or {key}=@- for the standard input"
            )
        return value
    path = value[1:]
    try:
        with click.open_file(path, encoding="utf-8") as file:
            secret: str = file.read().removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the file {path!r} with the value of {key} cannot be read: {error}; a value that"
            " begins with '@' needs one"
        ) from error
    if not secret:
        raise ConfigError(f"the file {path!r} is empty; it has to hold the value of {key}")
    return secret
