"""The floor: a process that answers from memory what a real broker has answered before, and passes everything else on to that one.

``python -m benchmarks.canned ADDRESS UPSTREAM produce|fetch`` listens on ADDRESS. A produce is answered by what the first one of the same
length on its connection got, a fetch by what the same fetch got before, sent from a file. Nothing is decoded, checked or written: what is
left is waking up, receiving and sending, by blocking calls, a thread for each connection. Where that is hardly faster than a broker, the
client, the kernel and the machine are what is measured.

Knows of the protocol only how a frame begins: size, API key, version, correlation id.
"""

import contextlib
import os
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import psutil

from benchmarks.broker_process import BrokerProcess, free_port, tidelog_in
from benchmarks.rounds import Bench, Family, Sides, of_shared_brokers
from benchmarks.table import Row

NAME = "canned answers"
API_KEYS = {"produce": 0, "fetch": 1}
HEADER = struct.Struct(">ihhi")
"""Size, API key, version, correlation id."""
SIZE_BYTES, CORRELATION, ANSWER_HEADER_BYTES = 4, slice(8, 12), 8
"""Of a frame: its size, where a request has its correlation id, and how much of an answer is size and correlation id."""
SMALL_BYTES = 64 << 10
BUFFER_BYTES = 64 << 20
"""Larger than any frame of a benchmark."""
WRITING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Canned:
    """An answer without its correlation id: the size before it, and the rest, as bytes or, where that is large, as a range of the file."""

    size: bytes
    rest: bytes | range


class Connection:
    """A client's connection, and one to the real broker behind it."""

    def __init__(self, client: socket.socket, upstream: str, api_key: int, shared: dict[bytes | int, Canned], memory: BinaryIO) -> None:
        self._client, self._api_key, self._memory = client, api_key, memory
        self._known: dict[bytes | int, Canned] = {} if api_key == API_KEYS["produce"] else shared
        self._upstream = connect(upstream)
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def serve(self) -> None:
        """Answer one request after the other until the client leaves."""
        with self._client, self._upstream, contextlib.suppress(ConnectionError):
            start = end = 0
            while received := self._client.recv_into(self._buffer[end:]):
                end += received
                while end - start >= SIZE_BYTES and end - start >= (size := SIZE_BYTES + HEADER.unpack_from(self._buffer, start)[0]):
                    self._answer(self._buffer[start : start + size])
                    start += size
                if start:
                    self._buffer[: end - start] = self._buffer[start:end]
                    start, end = 0, end - start

    def _answer(self, frame: memoryview) -> None:
        _, api_key, _, _ = HEADER.unpack_from(frame)
        if api_key != self._api_key:
            self._client.sendall(self._ask(frame))
            return
        key = len(frame) if self._api_key == API_KEYS["produce"] else bytes(frame[4:8]) + bytes(frame[12:])
        known = self._known.get(key)
        if known is None:
            answer = self._ask(frame)
            known = self._known[key] = Canned(answer[:SIZE_BYTES], self._kept(answer[ANSWER_HEADER_BYTES:]))
        self._send(known, bytes(frame[CORRELATION]))

    def _kept(self, rest: bytes) -> bytes | range:
        if len(rest) <= SMALL_BYTES:
            return rest
        with WRITING:
            position = self._memory.seek(0, os.SEEK_END)
            self._memory.write(rest)
        return range(position, position + len(rest))

    def _send(self, answer: Canned, correlation: bytes) -> None:
        if isinstance(answer.rest, bytes):
            self._client.sendall(answer.size + correlation + answer.rest)
            return
        self._client.sendall(answer.size + correlation, socket.MSG_MORE)
        position = answer.rest.start
        while position < answer.rest.stop:
            position += os.sendfile(self._client.fileno(), self._memory.fileno(), position, answer.rest.stop - position)

    def _ask(self, frame: memoryview) -> bytes:
        self._upstream.sendall(frame)
        size_bytes = self._receive(SIZE_BYTES)
        return size_bytes + self._receive(struct.unpack(">i", size_bytes)[0])

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
    address, upstream, api = sys.argv[1:]
    host, port = address.split(":")
    shared: dict[bytes | int, Canned] = {}
    with tempfile.TemporaryFile(buffering=0) as memory, socket.create_server((host, int(port))) as listening:
        while True:
            client, _ = listening.accept()
            connection = Connection(client, upstream, API_KEYS[api], shared, memory)
            threading.Thread(target=connection.serve, daemon=True).start()


@contextlib.contextmanager
def running_canned(api: str) -> Iterator[BrokerProcess]:
    """Start a broker and, before it, the process that answers ``api`` in its place."""
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
        installation = tidelog_in(directory, advertised_listeners=f"PLAINTEXT://{address}")
        process = psutil.Popen([sys.executable, "-m", "benchmarks.canned", address, installation.address, api])
        stack.callback(process.wait)
        stack.callback(process.kill)
        stack.enter_context(installation.running())
        yield BrokerProcess(address=address, process=process, start_s=0.0)


def with_floor(measure: Callable[[BrokerProcess, Bench], list[Row]], api: str) -> Family:
    """Return the family that does this with each of the brokers that stay alive, and with canned answers, which have no goals."""

    def measure_floor(bench: Bench) -> list[Row]:
        with contextlib.ExitStack() as stack:
            for other in bench.brokers().values():
                stack.enter_context(other.suspended())
            canned = stack.enter_context(running_canned(api))
            return [replace(row, goal=None) for row in measure(canned, bench)]

    @contextlib.contextmanager
    def family(bench: Bench) -> Iterator[Sides]:
        with of_shared_brokers(measure)(bench) as sides:
            yield replace(sides, measures={**sides.measures, NAME: partial(measure_floor, bench)})

    return family


if __name__ == "__main__":
    main()
