"""The token of the warm Spark Connect server, without which the server runs no code.

Connect runs any code that it receives, and any user of the machine may connect to the loopback
address. So the server accepts only requests with its token (``spark.connect.authenticate.token``).
The token is in a file that only its owner may read, below the data directory. Processes get it
through their environment, never as an argument. A token in the environment takes precedence over
the file, for a server that the user runs.

Invariant: the token is in no argument, log or address that this package prints.
"""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from log_service.common.private_files import private_directory
from orchestration.settings import Settings

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable, which Spark's server and clients read
TOKEN_FILE = "connect.token"  # noqa: S105 - the name of a file
TOKEN_BYTES = 32
DIALLED_HOST = "localhost"
LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


def token_path(settings: Settings) -> Path:
    """Return the path of the warm server's token."""
    return settings.spark_scratch_directory / TOKEN_FILE


def kept_token(settings: Settings) -> str:
    """Return the token of the warm server, and create it at the first start.

    A file that others may have read or written is replaced by one with a new token.
    """
    path = token_path(settings)
    private_directory(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        is_private = not stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
        if is_private and (token := path.read_text().strip()):
            return token
        path.unlink(missing_ok=True)
        return kept_token(settings)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with os.fdopen(descriptor, "w") as file:
        file.write(token)
    return token


def token_for(settings: Settings, environ: Mapping[str, str]) -> str | None:
    """Return the token for a client of ``settings.spark_remote``, None if none is known."""
    if given := environ.get(TOKEN_VARIABLE):
        return given
    if urlsplit(settings.spark_remote or "").hostname not in LOCAL_HOSTS:
        return None
    return token_in_file(settings)


def token_in_file(settings: Settings) -> str | None:
    """Return the token in this installation's file, None if it has none or cannot be read."""
    try:
        return token_path(settings).read_text().strip() or None
    except OSError:
        return None


def dialled(remote: str) -> str:
    """Return the address to which a client with a token connects.

    Spark sends tokens without TLS only to the name ``localhost``.
    """
    address = urlsplit(remote)
    if address.hostname not in LOCAL_HOSTS:
        return remote
    port = f":{address.port}" if address.port else ""
    return address._replace(netloc=f"{DIALLED_HOST}{port}").geturl()
