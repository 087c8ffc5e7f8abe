"""Measures the schema registry over HTTP: lookups, registrations, latency, CPU and memory.

The peer is ``GET /healthz`` of the same process: the HTTP server alone, without a registry behind
it. Another registry that could be measured beside ours is not on any package index. The clients are
threads that send one request at a time over a connection that stays open, by hand, because a client
library would take more of the processor than the registry.
"""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Self

import psutil

from benchmarks.broker_process import BenchmarkError, BrokerProcess, cpu_s, free_port
from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row

HEALTH = "GET /healthz"
SUBJECTS, CONNECTIONS = 1_000, 8
LOOKUPS, REGISTRATIONS, SAMPLES, MANY = 40_000, 2_000, 4_000, 10_000
PATIENCE_S = 60.0
FIELDS = tuple(
    {"name": f"field_{each}", "type": ["null", "string"], "default": None} for each in range(10)
)
Frames = Callable[[int], bytes]
"""Returns the bytes of the request of a number."""


@contextlib.contextmanager
def registry(bench: Bench) -> Iterator[Sides]:
    """Start a broker and a registry with a thousand subjects, and yield both sides."""
    with contextlib.ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-registry-"))
        )
        broker: BrokerProcess = stack.enter_context(bench.kinds[OURS](directory).running())
        served = stack.enter_context(Served.running(broker.address, directory))
        served.register_all("s", SUBJECTS)
        numbers = count(1)
        yield Sides(
            measures={
                OURS: partial(_measure, served, bench, numbers),
                HEALTH: partial(_measure_health, served, bench),
            },
            peer=HEALTH,
        )


class Served:
    """A registry in a process of its own, or another service over HTTP."""

    kind = "registry"
    """The command that serves."""
    servers_key = "kafkastore.bootstrap.servers"
    first_requests: tuple[tuple[str, str, str], ...] = (
        ("GET", "/readyz", ""),
        ("PUT", "/config", '{"compatibility":"BACKWARD"}'),
    )
    media_type = "application/vnd.schemaregistry.v1+json"

    def __init__(self, port: int, process: psutil.Process) -> None:
        self.port = port
        self.process = process

    @classmethod
    @contextlib.contextmanager
    def running(cls, bootstrap: str, directory: Path) -> Iterator[Self]:
        """Start one, and stop it at the end."""
        port = free_port()
        settings = (
            f"listeners=http://127.0.0.1:{port}",
            f"{cls.servers_key}={bootstrap}",
        )
        command = [sys.executable, "-m", "log_service.cli.main", cls.kind, "serve"]
        command += [part for setting in settings for part in ("--set", setting)]
        with (
            (directory / f"{cls.kind}.log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            try:
                served = cls(port, psutil.Process(process.pid))
                served._wait_until_ready()
                yield served
            finally:
                process.terminate()

    def frame(self, method: str, path: str, body: str = "") -> bytes:
        """Return the bytes of a request."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        content = body.encode()
        kind = f"Content-Type: {self.media_type}\r\n"
        return f"{head}{kind}Content-Length: {len(content)}\r\n\r\n".encode() + content

    def ask(self, frames: Frames, begin: int, end: int, connections: int = CONNECTIONS) -> float:
        """Send the requests of these numbers over connections, and return the seconds it took."""
        lots = [range(begin + each, end, connections) for each in range(connections)]
        with ThreadPoolExecutor(connections) as threads:
            began = time.perf_counter()
            list(threads.map(partial(self._ask_lot, frames), lots))
            return time.perf_counter() - began

    def times(self, frames: Frames, sample_count: int) -> list[float]:
        """Send requests one after the other, and return the seconds of each, in order of size."""
        found = []
        with Connection(self.port) as connection:
            for number in range(sample_count):
                began = time.perf_counter()
                connection.ask(frames(number))
                found.append(time.perf_counter() - began)
        return sorted(found)

    def register_all(self, prefix: str, subject_count: int) -> None:
        """Register a schema under each of so many subjects."""
        self.ask(partial(self.registration, prefix), 0, subject_count)

    def registration(self, prefix: str, number: int) -> bytes:
        """Return the request that registers a schema which only this subject has."""
        name = f"{prefix}{number}"
        text = json.dumps({"type": "record", "name": f"R_{name}", "fields": FIELDS})
        body = json.dumps({"schema": text})
        return self.frame("POST", f"/subjects/{name}-value/versions", body)

    def _ask_lot(self, frames: Frames, numbers: range) -> None:
        with Connection(self.port) as connection:
            for number in numbers:
                connection.ask(frames(number))

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with Connection(self.port) as connection:
                    for each in self.first_requests:
                        connection.ask(self.frame(*each))
                    return
            except (OSError, BenchmarkError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


class Connection:
    """A connection that stays open. It reads responses that say how long they are."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def ask(self, frame: bytes) -> None:
        """Send a request, and take its response.

        Raises:
            BenchmarkError: the status is not 200.
        """
        self._socket.sendall(frame)
        received = self._socket.recv(65_536)
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += self._more()
        if not head.startswith(b"HTTP/1.1 200 "):
            raise BenchmarkError(f"{frame[:80]!r} was answered {received[:300]!r}")

    def _more(self) -> bytes:
        received = self._socket.recv(65_536)
        if not received:
            raise BenchmarkError("the service closed the connection")
        return received


def _measure(served: Served, bench: Bench, numbers: Iterator[int]) -> list[Row]:
    """Measure one round of the registry."""
    number = next(numbers)
    lookups = bench.count(LOOKUPS, at_least=100)
    news = bench.count(REGISTRATIONS, at_least=20)
    rows: list[Row] = []
    for figure, frames in _lookups(served).items():
        rows += _throughput(served, figure, frames, lookups)
        rows.append(_p99(served, figure, frames, bench))
    known = partial(served.registration, "s")
    again: Frames = lambda each: known(each % SUBJECTS)  # noqa: E731
    rows += _throughput(served, "registration of a known schema", again, lookups // 4)
    fresh = partial(served.registration, f"round{number}x")
    rows += _throughput(served, "registration of a new schema", fresh, news)
    late: Frames = lambda each: fresh(news + each)  # noqa: E731
    rows.append(_p99(served, "registration of a new schema", late, bench, share=8))
    memory = served.process.memory_info().rss / 1e6
    schemas = SUBJECTS + number * (news + bench.count(SAMPLES / 8, at_least=20))
    rows.append(
        Row(figure="memory, after the registrations of all rounds", unit="MB", rounds=(memory,))
    )
    print(f"registry: {schemas} schemas take {memory:.0f} MB", file=sys.stderr)
    return rows


def _measure_health(served: Served, bench: Bench) -> list[Row]:
    """Measure the HTTP server alone, under the names of the lookups."""
    health = served.frame("GET", "/healthz")
    frames: Frames = lambda _number: health  # noqa: E731
    rows: list[Row] = []
    for figure in _lookups(served):
        rows += _throughput(served, figure, frames, bench.count(LOOKUPS, at_least=100))
        rows.append(_p99(served, figure, frames, bench))
    return rows


def _lookups(served: Served) -> dict[str, Frames]:
    """Return what is looked up, with the request of each number."""
    by_id = [served.frame("GET", f"/schemas/ids/{each + 1}") for each in range(SUBJECTS)]
    versions = [
        served.frame("GET", f"/subjects/s{each}-value/versions/latest") for each in range(SUBJECTS)
    ]
    return {
        "lookup by id": lambda number: by_id[number % SUBJECTS],
        "lookup of the latest version": lambda number: versions[number % SUBJECTS],
    }


def _throughput(served: Served, figure: str, frames: Frames, request_count: int) -> list[Row]:
    before = cpu_s(served.process)
    seconds = served.ask(frames, 0, request_count)
    cpu_us = (cpu_s(served.process) - before) * 1e6 / request_count
    return [
        Row(figure=figure, unit="/s", rounds=(request_count / seconds,)),
        Row(figure=f"  CPU of a {figure}", unit="us", rounds=(cpu_us,)),
    ]


def _p99(served: Served, figure: str, frames: Frames, bench: Bench, *, share: int = 1) -> Row:
    found = served.times(frames, bench.count(SAMPLES / share, at_least=20))
    p99_ms = found[len(found) * 99 // 100] * 1_000
    return Row(figure=f"  p99 of a {figure}, one at a time", unit="ms", rounds=(p99_ms,))
