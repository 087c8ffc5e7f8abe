"""Whose program listens on a port of this machine: asked before a secret is sent there.

Every account of a machine may listen on a loopback port that is free, or on another loopback address beside a server that listens on one.
Only Linux tells whose a listener is, in /proc; elsewhere none is known to be a stranger's.
"""

import os
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENING = "0A"


def strangers_at(port: int) -> frozenset[int]:
    """Return the user ids of the other accounts, root apart, that listen on a TCP port, whatever the address."""
    found: set[int] = set()
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        found.update(owner for line in lines if (owner := _listener(line, port)) is not None)
    return frozenset(found - {os.getuid(), 0})


def _listener(line: str, port: int) -> int | None:
    """Return the user id of a line of the table, where it is of a socket that listens on the port."""
    fields = line.split()
    is_it = len(fields) > 7 and fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port
    return int(fields[7]) if is_it else None
