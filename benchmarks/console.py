"""Measures the web console over a thousand topics of ten partitions: pages, CPU, turns and memory.

The peer is ``GET /healthz`` of the same process: the HTTP server alone, without a page behind it.
Requests come one at a time over a connection that stays open. A turn is the longest wait of
``/healthz`` on another connection meanwhile. The event loop was busy for so long at a stretch, and
the machine adds its own delays. Memory is taken after a topic was followed live while many records
came.
"""

import contextlib
import http.client
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from benchmarks.broker_process import BenchmarkError, BrokerProcess, cpu_s, free_port
from benchmarks.produce import produce_values
from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row, value_at_most
from log_service.client import BlockingAdmin, NewTopic

HEALTH = "GET /healthz"
TOPIC_COUNT, PARTITION_COUNT = 1_000, 10
TOPICS_AT_ONCE = 100
REQUESTS, PROBE_PAUSE_S, PATIENCE_S = 20, 0.002, 60.0
FOLLOWED_COUNT, FOLLOWED_BYTES, FOLLOW_S = 300_000, 100, 8.0
FOLLOWED = "topic-0"
PAGES = {
    "/topics": 300.0,
    "/topics?details=1": None,
    "/cluster": None,
    "/flow": None,
    "/groups": None,
    f"/topics/{FOLLOWED}": None,
    f"/topics/{FOLLOWED}/records": None,
}
"""The pages, with the most milliseconds that they may take."""
MAX_TURN_MS, MAX_MEMORY_MB = 20.0, 80.0


@contextlib.contextmanager
def console(bench: Bench) -> Iterator[Sides]:
    """Start a broker with many topics and a console, and yield both sides."""
    with contextlib.ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-console-"))
        )
        broker: BrokerProcess = stack.enter_context(bench.kinds[OURS](directory).running())
        _create_topics(broker.address, bench.count(TOPIC_COUNT, at_least=10))
        port = stack.enter_context(_running(broker.address, directory))
        yield Sides(
            measures={
                OURS: partial(_measure, broker.address, port, bench),
                HEALTH: partial(_measure_health, port, bench),
            },
            peer=HEALTH,
        )


def _create_topics(address: str, topic_count: int) -> None:
    with BlockingAdmin(address) as admin:
        for start in range(0, topic_count, TOPICS_AT_ONCE):
            numbers = range(start, min(start + TOPICS_AT_ONCE, topic_count))
            admin.create_topics(
                [
                    NewTopic(name=f"topic-{number}", partition_count=PARTITION_COUNT)
                    for number in numbers
                ]
            )


@contextlib.contextmanager
def _running(bootstrap: str, directory: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Start a console, and stop it at the end."""
    port = free_port()
    command = [sys.executable, "-m", "log_service.cli.main", "console", "-b", bootstrap]
    command += ["--listen", f"http://127.0.0.1:{port}"]
    with (
        (directory / "console.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    _ask(port, "/readyz")
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
            yield port, psutil.Process(process.pid)
        finally:
            process.terminate()


def _ask(port: int, path: str, connection: http.client.HTTPConnection | None = None) -> float:
    """Send a request, take its response, and return the seconds.

    Raises:
        BenchmarkError: the status is not 200.
    """
    link = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    began = time.perf_counter()
    link.request("GET", path)
    response = link.getresponse()
    body = response.read()
    took_s = time.perf_counter() - began
    if response.status != 200:
        raise BenchmarkError(f"{path} was answered {response.status}: {body[:300]!r}")
    if connection is None:
        link.close()
    return took_s


class _Probe(threading.Thread):
    """Asks ``/healthz`` over and over, and keeps the longest wait."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._is_over = threading.Event()
        self.longest_s = 0.0

    def run(self) -> None:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        _ask(self._port, "/healthz", link)
        while not self._is_over.wait(PROBE_PAUSE_S):
            self.longest_s = max(self.longest_s, _ask(self._port, "/healthz", link))
        link.close()

    def end(self) -> float:
        """Stop, and return the longest wait in seconds."""
        self._is_over.set()
        self.join()
        return self.longest_s


def _measure(address: str, served: tuple[int, psutil.Process], bench: Bench) -> list[Row]:
    """Measure one round of the console."""
    port, process = served
    rows: list[Row] = []
    for path, most_ms in PAGES.items():
        rows += _measure_page(port, process, bench, path, most_ms)
    return [*rows, _memory_after_a_tail(address, port, process, bench)]


def _measure_page(
    port: int, process: psutil.Process, bench: Bench, path: str, most_ms: float | None
) -> list[Row]:
    count = bench.count(REQUESTS, at_least=5)
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    _ask(port, path, link)
    before = cpu_s(process)
    times = sorted(_ask(port, path, link) for _ in range(count))
    cpu_ms = (cpu_s(process) - before) * 1_000 / count
    probe = _Probe(port)
    probe.start()
    for _ in range(count):
        _ask(port, path, link)
    turn_ms = probe.end() * 1_000
    link.close()
    goal = None if most_ms is None else value_at_most(most_ms)
    return [
        Row(figure=path, unit="ms", rounds=(times[len(times) // 2] * 1_000,), goal=goal),
        Row(figure=f"  CPU of {path}", unit="ms", rounds=(cpu_ms,)),
        Row(
            figure=f"  longest turn of {path}",
            unit="ms",
            rounds=(turn_ms,),
            goal=value_at_most(MAX_TURN_MS),
        ),
    ]


def _memory_after_a_tail(address: str, port: int, process: psutil.Process, bench: Bench) -> Row:
    """Follow a topic while many records come, and return the memory after it."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    link.request("GET", f"/topics/{FOLLOWED}/tail")
    response = link.getresponse()
    writer = threading.Thread(
        target=produce_values,
        args=(address, FOLLOWED, FOLLOWED_BYTES, bench.count(FOLLOWED_COUNT)),
    )
    writer.start()
    until = time.monotonic() + FOLLOW_S
    while time.monotonic() < until or writer.is_alive():
        response.readline()
    writer.join()
    link.close()
    return Row(
        figure="memory after a fast live view",
        unit="MB",
        rounds=(process.memory_info().rss / 1e6,),
        goal=value_at_most(MAX_MEMORY_MB),
    )


def _measure_health(served: tuple[int, psutil.Process], bench: Bench) -> list[Row]:
    """Measure the HTTP server alone, under the names of the pages."""
    port, process = served
    rows = _measure_page(port, process, bench, "/healthz", None)
    return [
        Row(figure=row.figure.replace("/healthz", path), unit=row.unit, rounds=row.rounds)
        for path in PAGES
        for row in rows
    ]
