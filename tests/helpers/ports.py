"""Finds free ports of the loopback address for servers of tests."""

import atexit
import socket
from collections import deque

MAX_KEPT = 256

_kept: deque[socket.socket] = deque(maxlen=MAX_KEPT)
"""Sockets that keep ports away from others: bound, but not listening.

A server that sets SO_REUSEADDR can listen there.
"""


@atexit.register
def _close_kept() -> None:
    """Close the sockets at the end, or Python would warn of each."""
    while _kept:
        _kept.popleft().close()


def free_port() -> int:
    """Return a port that is free now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return ports that are free now, all of them different.

    They stay reserved until ``MAX_KEPT`` others were handed out. No other process that asks for a
    free port gets one of them, even while a server that a test kills and starts again is down.
    """
    sockets = []
    for _ in range(count):
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        sockets.append(bound)
    for bound in sockets:
        if len(_kept) == MAX_KEPT:
            _kept.popleft().close()
        _kept.append(bound)
    return [int(each.getsockname()[1]) for each in sockets]


def is_free(port: int) -> bool:
    """Return whether a server that sets SO_REUSEADDR could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
