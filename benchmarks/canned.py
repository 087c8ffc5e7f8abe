"""The floor of a produce: a process that sends a broker's earlier answers from memory.

``python -m benchmarks.canned ADDRESS UPSTREAM`` listens on ADDRESS, and passes all other requests
on to the real broker at UPSTREAM. A produce gets the answer to the first one of the same length on
its connection. Nothing is decoded, checked or written. Waking up, receiving and sending are left,
by blocking calls, a thread for each connection. No broker in Python can be faster than that. The
rest of a latency is the client's, the kernel's and the machine's.

Knows of the protocol only how a frame begins: size, API key, version, correlation id.
"""

import contextlib
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil

from benchmarks.broker_process import BrokerProcess, free_port, tidelog_in
from benchmarks.rounds import Bench, Family, Sides, of_shared_brokers
from benchmarks.table import Row

NAME = "canned answers"
PRODUCE = 0
HEADER = struct.Struct(">ihhi")
"""Size, API key, version, correlation id of a request.

An answer has the correlation id after its size.
"""
SIZE_BYTES, ANSWER_HEADER_BYTES = 4, 8
BUFFER_BYTES = 1 << 20
"""More bytes than any frame of a latency's producer."""


class Connection:
    """A client's connection, and one to the real broker behind it."""

    def __init__(self, client: socket.socket, upstream: str) -> None:
        self._client = client
        self._upstream = connect(upstream)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._known: dict[int, tuple[bytes, bytes]] = {}
        """The answer's size and the bytes behind its correlation id, by the length of a produce."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def serve(self) -> None:
        """Answer one request after the other until the client leaves."""
        with self._client, self._upstream, contextlib.suppress(ConnectionError):
            start = end = 0
            while received := self._client.recv_into(self._buffer[end:]):
                end += received
                while end - start >= SIZE_BYTES and end - start >= (
                    size := SIZE_BYTES + HEADER.unpack_from(self._buffer, start)[0]
                ):
                    self._client.sendall(self._answer(self._buffer[start : start + size]))
                    start += size
                self._buffer[: end - start] = self._buffer[start:end]
                start, end = 0, end - start

    def _answer(self, frame: memoryview) -> bytes:
        _, api_key, _, correlation = HEADER.unpack_from(frame)
        if api_key != PRODUCE:
            return self._ask(frame)
        known = self._known.get(len(frame))
        if known is None:
            answer = self._ask(frame)
            known = self._known[len(frame)] = answer[:SIZE_BYTES], answer[ANSWER_HEADER_BYTES:]
        return known[0] + struct.pack(">i", correlation) + known[1]

    def _ask(self, frame: memoryview) -> bytes:
        self._upstream.sendall(frame)
        size = self._receive(SIZE_BYTES)
        return size + self._receive(int.from_bytes(size))

    def _receive(self, count: int) -> bytes:
        received = self._upstream.recv(count, socket.MSG_WAITALL)
        if len(received) < count:
            raise ConnectionError("the broker has left")
        return received


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    connected = socket.create_connection((host, int(port)))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def main() -> None:
    """Serve for ever."""
    address, upstream = sys.argv[1:]
    host, port = address.split(":")
    with socket.create_server((host, int(port))) as listening:
        while True:
            client, _ = listening.accept()
            threading.Thread(target=Connection(client, upstream).serve, daemon=True).start()


@contextlib.contextmanager
def running_canned() -> Iterator[BrokerProcess]:
    """Start a broker and, before it, the process that answers produces in its place."""
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
        installation = tidelog_in(directory, advertised_listeners=f"PLAINTEXT://{address}")
        process = psutil.Popen(
            [sys.executable, "-m", "benchmarks.canned", address, installation.address]
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        stack.enter_context(installation.running())
        yield BrokerProcess(address=address, process=process, start_s=0.0)


def with_floor(measure: Callable[[BrokerProcess, Bench], list[Row]]) -> Family:
    """Return the family that measures each of the shared brokers, and canned answers.

    Canned answers have no goals.
    """

    def measure_floor(bench: Bench) -> list[Row]:
        with bench.others_suspended(NAME), running_canned() as canned:
            return [replace(row, goal=None) for row in measure(canned, bench)]

    @contextlib.contextmanager
    def family(bench: Bench) -> Iterator[Sides]:
        with of_shared_brokers(measure)(bench) as sides:
            yield replace(sides, measures={**sides.measures, NAME: partial(measure_floor, bench)})

    return family


if __name__ == "__main__":
    main()
