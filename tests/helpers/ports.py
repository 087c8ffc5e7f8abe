"""Ports of the loopback address for what a test starts."""

import socket
from contextlib import ExitStack


def free_port() -> int:
    """Return a port that is free just now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return ports that are free just now, all of them different."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]
