"""A stranger speaks Spark's own protocol at the ports that a JVM of Spark listens on.

Frames are those of ``org.apache.spark.network.protocol``: a length of 8 bytes, a byte that says the
type, and the type's own fields.
"""

import socket
import struct

import psutil

RPC_REQUEST, RPC_FAILURE, STREAM_REQUEST, STREAM_FAILURE = 3, 5, 6, 8
PATIENCE_S = 10.0


def listening_ports(pid: int) -> list[int]:
    """Return the TCP ports that a process listens on."""
    connections = psutil.Process(pid).net_connections("tcp")
    return sorted(each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN)


def call(port: int, message: bytes) -> bytes:
    """Send a message without a login before it, and return what comes: the type, and what belongs
    to that.
    """
    return _asked(port, bytes([RPC_REQUEST]) + struct.pack(">qi", 7, len(message)) + message)


def file_at(port: int, path: str) -> bytes:
    """Ask for a file without a login before, and return what comes."""
    return _asked(port, bytes([STREAM_REQUEST]) + struct.pack(">i", len(path)) + path.encode())


def _asked(port: int, frame: bytes) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection,
        connection.makefile("rb") as received,
    ):
        connection.sendall(struct.pack(">q", 8 + len(frame)) + frame)
        (length,) = struct.unpack(">q", received.read(8))
        return received.read(length - 8)
