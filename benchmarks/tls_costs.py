"""Measures TLS on a node: handshakes a second, and the memory of an idle connection.

``python -m benchmarks.tls_costs`` runs it. Both ends run in this process, over memory, so that no
network and no second process are in the figures. A handshake is measured on the listener's side
alone, by the CPU time of its steps. Memory is the growth of the process, for connections that have
shaken hands and wait.
"""

import argparse
import gc
import os
import ssl
import tempfile
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import trio

from log_service.common.env import Connection
from log_service.config.tls import tls_config
from log_service.network.sockets import SocketNetwork
from log_service.security.tls.connection import TlsConnection
from log_service.security.tls.contexts import client_context, server_context
from tests.helpers.authority import Authority, Issued

KIB = 1_024


def handshakes_per_cpu_second(issued: Issued, protocol: str, count: int) -> float:
    """Return the full handshakes a second of one core as the listener.

    Client certificates are included.
    """
    texts = issued.properties() | {"ssl.enabled.protocols": protocol, "ssl.client.auth": "required"}
    server = server_context(tls_config(texts), Path.read_bytes).context
    client = client_context(tls_config(texts), Path.read_bytes).context
    spent = 0
    for _ in range(count):
        forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = server.wrap_bio(forth, back, server_side=True)
        theirs = client.wrap_bio(back, forth, server_hostname="localhost")
        while True:
            is_over = _step(theirs)
            began = time.thread_time_ns()
            is_over = _step(ours) and is_over
            spent += time.thread_time_ns() - began
            if is_over:
                break
    return count / (spent / 1e9)


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def kib_of_connections(texts: dict[str, str], count: int, burst_bytes: int, is_tls: bool) -> float:  # noqa: FBT001 - for a pool of processes
    """Return ``kib_per_connection`` of a process that has measured nothing else."""
    return trio.run(
        partial(kib_per_connection, texts, count, burst_bytes=burst_bytes, is_tls=is_tls)
    )


async def kib_per_connection(
    texts: dict[str, str], count: int, *, burst_bytes: int, is_tls: bool
) -> float:
    """Return the memory of a listener's connection and of its client.

    The listener has sent ``burst_bytes`` to the client over each connection, and both wait.
    """
    server = server_context(tls_config(texts), Path.read_bytes).context
    client = client_context(tls_config(texts), Path.read_bytes).context
    network = SocketNetwork()
    kept: list[tuple[Connection, Connection]] = []
    listener = await network.listen("127.0.0.1", 0)
    gc.collect()
    before = _resident_kib()
    for _ in range(count):
        bare = await network.connect("127.0.0.1", listener.port), await listener.accept()
        pair: tuple[Connection, Connection] = bare
        if is_tls:
            secured = (
                TlsConnection(bare[0], client, server_hostname="localhost"),
                TlsConnection(bare[1], server),
            )
            async with trio.open_nursery() as nursery:
                for end in secured:
                    nursery.start_soon(end.handshake)
            pair = secured
        await _burst(pair[1], pair[0], burst_bytes)
        kept.append(pair)
    gc.collect()
    grown = _resident_kib() - before
    for pair in kept:
        for each in pair:
            each.close()
    listener.close()
    return grown / count


async def _burst(ours: Connection, theirs: Connection, size_bytes: int) -> None:
    if not size_bytes:
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours.send_gathered, [bytes(size_bytes)])
        received, buffer = 0, bytearray(64 * KIB)
        while received < size_bytes:
            received += await theirs.receive_into(buffer)


def _resident_kib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / KIB


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--handshakes", type=int, default=500)
    parser.add_argument("--connections", type=int, default=500)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        authority = Authority(Path(directory))
        key_types: tuple[Literal["ec", "rsa"], ...] = ("ec", "rsa")
        for key_type in key_types:
            issued = authority.issue("node", key_type=key_type)
            for protocol in ("TLSv1.2", "TLSv1.3"):
                rate = handshakes_per_cpu_second(issued, protocol, given.handshakes)
                print(f"handshakes per CPU second, mTLS, {key_type}, {protocol}: {rate:.0f}")
        issued = authority.issue("node")
        for is_tls in (False, True):
            for burst_bytes in (0, 4 << 20):
                with get_context("spawn").Pool(1) as process:
                    kib = process.apply(
                        kib_of_connections,
                        (issued.properties(), given.connections, burst_bytes, is_tls),
                    )
                kind = "TLS" if is_tls else "plain"
                print(
                    f"KiB per connection, both its ends, {kind}, after sending {burst_bytes >> 20}"
                    f" MiB: {kib:.1f}"
                )


if __name__ == "__main__":
    main()
