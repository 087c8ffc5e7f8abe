"""Runs a broker in a process of its own, started the way a user starts it.

Its CPU and memory are read from the system. An ``Installation`` is a directory and the command line
for it: started as often as a figure wants, stopped in order or killed in between. Brokers are
started only here. ``apache_kafka`` prepares the peer's directory and uses the same.
"""

import compileall
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from uuid import uuid4

import psutil
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import log_service
from benchmarks.table import OURS

ERRORS_ONLY = 3
"""librdkafka's log level while a cluster starts.

At its default level it would warn of each leader that it cannot find yet.
"""
WARM_S_PER_GB, MAX_TOUCHES = 0.3, 8
"""The cost of writing once the pages are there, and the most attempts to get them."""
SCRATCH_BLOCK_BYTES = 972_873
"""About the size of a producer's request, and no multiple of a page.

The kernel then takes page cache of the same sizes as for a log.
"""
DEADLINE_S = 300.0
"""The longest time that a broker may take to start or to stop.

A JVM with 10,000 partitions on a busy machine takes more than a minute.
"""


class BenchmarkError(Exception):
    """The error for a figure that cannot be measured. Its text says why."""


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds, user and system, that a process has spent."""
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProcess:
    address: str
    process: psutil.Popen
    start_s: float
    """From the start of the process to the first accepted produce, or another sign of readiness."""

    def cpu_s(self) -> float:
        return cpu_s(self.process)

    def rss_bytes(self) -> int:
        return int(self.process.memory_info().rss)

    def stop(self) -> float:
        """Stop the process in order, and return the seconds that it took.

        A process that has ended already is no error.
        """
        started = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.resume()
        try:
            self.process.wait(DEADLINE_S)
        except psutil.TimeoutExpired as error:
            self.kill()
            raise BenchmarkError(
                f"the broker at {self.address} did not stop within {DEADLINE_S:.0f} s"
            ) from error
        return time.monotonic() - started

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Suspend the process: it keeps its memory and its connections, and gets no CPU."""
        self.process.suspend()
        try:
            yield
        finally:
            self.process.resume()

    def kill(self) -> None:
        """Kill the process by kill -9, as a power cut would end it."""
        self.process.kill()
        self.process.wait()

    @contextlib.contextmanager
    def topic(self, partition_count: int = 1) -> Iterator[str]:
        """Create a topic of a new name and delete it afterwards.

        Disk space is then given back between figures.
        """
        name = f"bench-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": ERRORS_ONLY})
        admin.create_topics([NewTopic(name, partition_count, 1)])[name].result(timeout=30)
        try:
            yield name
        finally:
            admin.delete_topics([name])[name].result(timeout=30)


def produce_first(address: str, topic: str = "first", partition: int = 0) -> None:
    """Return once a record was acknowledged.

    The client is new and retries at once, so that its patience is not measured.
    """
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "log_level": ERRORS_ONLY,
            "linger.ms": 0,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "topic.metadata.propagation.max.ms": int(DEADLINE_S * 1e3),
        }
    )
    producer.produce(
        topic,
        b"first",
        partition=partition,
        on_delivery=lambda error, _record: failures.append(error) if error else None,
    )
    if producer.flush(DEADLINE_S) or failures:
        raise KafkaException(failures[0] if failures else "the first record was not acknowledged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """A broker's directory and the command that starts it there."""

    name: str
    argv: tuple[str, ...]
    address: str
    directory: Path

    @contextlib.contextmanager
    def running(
        self, wait_until_ready: Callable[[str], None] = produce_first
    ) -> Iterator[BrokerProcess]:
        """Start the broker, and stop it in order unless it has ended by then."""
        output = self.directory / "output.txt"
        started = time.monotonic()
        with output.open("wb") as sink:
            process = psutil.Popen(self.argv, stdout=sink, stderr=subprocess.STDOUT)
        broker = BrokerProcess(address=self.address, process=process, start_s=0.0)
        try:
            self._wait_for_listener(process, output)
            wait_until_ready(self.address)
            broker = BrokerProcess(
                address=self.address, process=process, start_s=time.monotonic() - started
            )
            yield broker
        finally:
            broker.stop()

    def _wait_for_listener(self, process: psutil.Popen, output: Path) -> None:
        host, port = self.address.split(":")
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host, int(port)), timeout=1),
            ):
                return
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{self.name} did not start (exit code"
                    f" {process.returncode}):\n{output.read_text()[-2000:]}"
                )
            time.sleep(0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A listener beside the one in the clear."""

    name: str
    protocol: str
    address: str


def tidelog_in(directory: Path, *, beside: Sequence[Beside] = (), **more: str) -> Installation:
    """Prepare ``tidelog serve`` on a free port, with ``more`` among its properties.

    Its sources are compiled, as pip leaves a package.
    """
    compileall.compile_dir(Path(log_service.__file__).parent, quiet=1)
    address = f"127.0.0.1:{free_port()}"
    properties = write_properties(
        directory, address, **listener_properties(address, beside), **more
    )
    argv = (sys.executable, "-m", "log_service.cli.main", "serve", str(properties))
    return Installation(name=OURS, argv=argv, address=address, directory=directory)


def listener_properties(address: str, beside: Sequence[Beside]) -> dict[str, str]:
    """Return the listeners, the one in the clear first, and the protection of each."""
    return {
        "listeners": ",".join(
            [f"PLAINTEXT://{address}", *(f"{each.name}://{each.address}" for each in beside)]
        ),
        "listener_security_protocol_map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{each.name}:{each.protocol}" for each in beside)]
        ),
    }


def write_properties(directory: Path, address: str, **more: str) -> Path:
    """Write the properties of both brokers, and ``more``. Underscores stand for dots."""
    properties = directory / "server.properties"
    settings = {
        "node.id": "1",
        "listeners": f"PLAINTEXT://{address}",
        "log.dirs": f"{directory}/logs",
        "log.segment.delete.delay.ms": "0",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return properties


@contextlib.contextmanager
def running_broker(prepare: Callable[[Path], Installation] = tidelog_in) -> Iterator[BrokerProcess]:
    """Start a broker in an empty directory that is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory,
        prepare(Path(directory)).running() as broker,
    ):
        yield broker


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def touch_memory(size_bytes: int) -> float:
    """Write and remove a scratch file of that size until the page cache has pages at hand.

    Returns the cost of the last time. That is the floor of this minute: CPU seconds per gigabyte
    written, with nothing around it. A virtual machine that gives free memory back to its host pays
    about two seconds of kernel time for each gigabyte that it touches again, ten times the cost of
    the copy. Without this, a figure tells how long the machine was idle.
    """
    block_count = max(1, size_bytes // SCRATCH_BLOCK_BYTES)
    cost = inf
    for _ in range(MAX_TOUCHES):
        started = time.process_time()
        write_scratch(block_count)
        cost = (time.process_time() - started) / (block_count * SCRATCH_BLOCK_BYTES / 1e9)
        if cost < WARM_S_PER_GB:
            break
    return cost


def write_scratch(block_count: int) -> None:
    block = bytes(SCRATCH_BLOCK_BYTES)
    with tempfile.TemporaryFile(buffering=0) as scratch:
        for _ in range(block_count):
            scratch.write(block)
