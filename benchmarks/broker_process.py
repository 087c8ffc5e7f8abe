"""A broker in a process of its own, started the way a user starts it, with its CPU and memory read from the system."""

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psutil
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

START_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProcess:
    address: str
    process: psutil.Process
    start_to_first_produce_s: float

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def rss_bytes(self) -> int:
        return int(self.process.memory_info().rss)

    @contextlib.contextmanager
    def topic(self, partition_count: int = 1) -> Iterator[str]:
        """Create a topic of a new name and delete it afterwards, so that disk space is given back between figures."""
        name = f"bench-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, partition_count, 1)])[name].result(timeout=30)
        try:
            yield name
        finally:
            admin.delete_topics([name])[name].result(timeout=30)


def touch_memory(size_bytes: int) -> float:
    """Write a scratch file of that size and remove it, so that the page cache has pages at hand; then return the floor of this minute.

    The floor is what writing the same bytes costs with nothing around it, in CPU seconds per gigabyte.

    A virtual machine that gives free memory back to its host pays about two seconds of kernel time for each gigabyte that it touches again,
    ten times what the copy costs. Without this, a figure tells how long the machine was idle.
    """
    block_count = max(1, size_bytes >> 20)
    write_scratch(block_count)
    started = time.process_time()
    write_scratch(block_count)
    return (time.process_time() - started) / (block_count * (1 << 20) / 1e9)


def write_scratch(block_count: int) -> None:
    block = bytes(1 << 20)
    with tempfile.TemporaryFile(buffering=0) as scratch:
        for _ in range(block_count):
            scratch.write(block)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_first_produce(address: str, child: subprocess.Popen[bytes]) -> None:
    """Return once a record was acknowledged; a client is a fresh one each time, so that its own backoff is not measured."""
    deadline = time.monotonic() + START_DEADLINE_S
    host, port = address.split(":")
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            break
        if child.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the broker did not start (exit code {child.returncode})")
        time.sleep(0.005)
    failures: list[object] = []
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 0, "reconnect.backoff.ms": 10, "topic.metadata.refresh.fast.interval.ms": 20}
    )
    producer.produce("first", b"first", on_delivery=lambda error, _record: failures.append(error) if error else None)
    if producer.flush(START_DEADLINE_S) or failures:
        raise KafkaException(failures[0] if failures else "the first record was not acknowledged")


def write_properties(directory: Path, address: str, **more: str) -> Path:
    """Write what both brokers are told, and ``more``; underscores stand for dots."""
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
def running(argv: list[str], address: str) -> Iterator[BrokerProcess]:
    """Start a broker, and stop it in order."""
    started = time.monotonic()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_first_produce(address, child)
        yield BrokerProcess(address=address, process=psutil.Process(child.pid), start_to_first_produce_s=time.monotonic() - started)
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextlib.contextmanager
def running_broker() -> Iterator[BrokerProcess]:
    """Start ``tidelog serve`` on a free port with an empty directory."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        address = f"127.0.0.1:{free_port()}"
        properties = write_properties(Path(directory), address)
        with running([sys.executable, "-m", "log_service.cli.main", "serve", str(properties)], address) as broker:
            yield broker
