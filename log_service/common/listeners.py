"""Finds the user whose program listens at an address, before a secret is sent there.

Any account of a machine may listen on a free loopback port, or on another loopback address with the
same port as a server. Only Linux shows the user of a listener, in /proc. On other systems no
listener is reported as a stranger's.
"""

import os
import socket
from ipaddress import ip_address
from pathlib import Path

from log_service.common.addresses import Address, unmapped

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENING = "0A"
LOOPBACK = "127.0.0.1"
"""The address that only programs of this machine reach."""
DEFAULT_BROKER_PORT = 9092
"""Kafka's port: where a broker listens, and where clients look for it, if no other is named."""
DEFAULT_REGISTRY_PORT = 8081
"""The port of Confluent's registry: where a schema registry listens, if no other is named."""
DEFAULT_REST_PORT = 8082
"""The port of Confluent's REST proxy: where ours listens, if no other is named."""
DEFAULT_CONSOLE_PORT = 8080
"""The port on which web consoles of Kafka listen, if no other is named."""


def strangers_at(host: str, port: int) -> frozenset[int]:
    """Return the user ids of other accounts that listen on ``port`` of an address of ``host``.

    Root is left out.

    Raises:
        OSError: the host has no address.
    """
    dialled = {
        ip_address(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    }
    owners: set[int] = set()
    for table in TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 7 and fields[3] == LISTENING:
                address, _, listened = fields[1].partition(":")
                if int(listened, 16) == port and _takes(_address(address), dialled):
                    owners.add(int(fields[7]))
    return frozenset(owners - {os.getuid(), 0})


def _takes(listener: Address, dialled: set[Address]) -> bool:
    return listener.is_unspecified or listener in dialled


def _address(text: str) -> Address:
    """Parse an address in Linux's table of sockets.

    It consists of words of four bytes, each written as a number of a little-endian machine.
    """
    words = bytes.fromhex(text)
    packed = b"".join(words[start : start + 4][::-1] for start in range(0, len(words), 4))
    return unmapped(ip_address(packed))
