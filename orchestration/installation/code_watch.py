"""Lets daemon and webserver notice a new load of the project by the time of the socket's file.

Dagster's processes ask a code server each second which load of the project it serves. Each request
needs a new connection and takes two milliseconds on each side. That was the largest part of the
work of an idle installation. Here they look each second at the socket's file. A code server creates
it at its start, and touches it when it has loaded the project anew (``announce_reload``). They send
the request when the file has changed, and every ``ASK_S`` in any case, so that a dead code server
is noticed.

Code servers with a port are asked each second, as in Dagster.
Invariant: the file's time is read before the request, and is changed after the new load is served,
so that no load is missed.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from dagster._grpc.client import DagsterGrpcClient

ASK_S = 10.0

Stamp = tuple[int, int] | None


def announce_reload(socket_path: Path) -> None:
    """Touch the socket's file, so that daemon and webserver notice a new load of the project.

    The new load has to be served already.
    """
    with suppress(FileNotFoundError):
        os.utime(socket_path)


def stamp_of(socket_path: str) -> Stamp:
    """Return a stamp that changes with each load, None if no code server listens.

    It holds the inode and the time of the socket's file.
    """
    try:
        found = Path(socket_path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


class Asked:
    """Remembers the id that a code server gave one client last, and when.

    The id changes with each load of the project.
    """

    def __init__(self) -> None:
        self.server_id = ""
        self.stamp: Stamp = None
        self.at_s = 0.0

    def server_id_of(
        self, socket_path: str, ask: Callable[[], str], now_s: Callable[[], float]
    ) -> str:
        """Return the id of the load that the code server serves.

        ``ask`` requests it from the code server, and is called if the known id may be outdated.
        """
        stamp = stamp_of(socket_path)
        if stamp is None or stamp != self.stamp or now_s() - self.at_s >= ASK_S:
            self.stamp = None  # unknown while requests fail
            self.server_id, self.stamp, self.at_s = ask(), stamp, now_s()
        return self.server_id


def ask_seldom(now_s: Callable[[], float] = time.monotonic) -> None:
    """Make clients of this process ask a code server for its id only if that may have changed.

    This is for clients that reach the code server by a socket.
    """
    ask_server = DagsterGrpcClient.get_server_id

    def get_server_id(client: DagsterGrpcClient, *arguments: Any, **named: Any) -> str:
        def ask() -> str:
            return ask_server(client, *arguments, **named)

        if client.socket is None:
            return ask()
        asked: Asked = vars(client).setdefault("_asked", Asked())
        return asked.server_id_of(client.socket, ask, now_s)

    DagsterGrpcClient.get_server_id = get_server_id  # type: ignore[assignment, method-assign]
