"""Compares ``tidelog up --brokers 2`` with ``tidelog up``, on the same cores.

The figure is the gain of a second broker process, with one replica of everything. There is no peer:
two brokers are compared with one node. With two cores a client that batches is the limit long
before a broker is. A broker is busy with one-record batches. Each round starts new nodes.
"""

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.broker_process import ERRORS_ONLY, BenchmarkError, cpu_s, touch_memory
from benchmarks.cluster_nodes import new_name, until
from benchmarks.clusters import ClusterBench
from benchmarks.produce import MEGABYTE, PRODUCERS, produce_alone, produce_values
from benchmarks.rounds import Sides
from benchmarks.table import OURS, Row

ONE = "one node"
CONTROLLER_PORTS = 1_000
"""The distance from a broker's port to its controller's port in ``tidelog up``."""
LARGE_COUNT, ALONE_COUNT, PARTITION_COUNT = 400_000, 100_000, 6
START_S, STOP_S = 60.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    """The processes and addresses of a ``tidelog up``."""

    address: str
    process: psutil.Popen

    def cpu_s(self) -> float:
        """Return the CPU seconds of the supervisor and its brokers."""
        return sum(cpu_s(each) for each in (self.process, *self.process.children(recursive=True)))

    @contextlib.contextmanager
    def topic(self, partition_count: int) -> Iterator[str]:
        """Create a topic of one replica, and delete it afterwards."""
        name = new_name()
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": ERRORS_ONLY})
        admin.create_topics([NewTopic(name, partition_count, 1)])[name].result(timeout=30)
        try:
            yield name
        finally:
            admin.delete_topics([name])[name].result(timeout=30)


@contextlib.contextmanager
def tidelog_up(broker_count: int) -> Iterator[Up]:
    """Run ``tidelog up`` with so many brokers and nothing else in an empty directory."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as directory:
        port = free_port_range(broker_count)
        command = [
            sys.executable,
            "-m",
            "log_service.cli.main",
            "up",
            "--only-broker",
            "--no-console",
            "--metrics-port",
            "0",
        ]
        command += [
            "--data",
            f"{directory}/data",
            "--project",
            directory,
            "--broker-port",
            str(port),
        ]
        command += ["--brokers", str(broker_count)] if broker_count > 1 else []
        with Path(directory, "output.txt").open("wb") as output:
            process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_for_brokers(f"127.0.0.1:{port}", broker_count, process)
            yield Up(address=f"127.0.0.1:{port}", process=process)
        finally:
            stop(process)


def stop(process: psutil.Popen) -> None:
    """Stop ``tidelog up`` in order, and kill the rest after a minute."""
    children = process.children(recursive=True) if process.poll() is None else []
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(psutil.TimeoutExpired):
        process.wait(STOP_S)
    for each in (*children, process):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def wait_for_brokers(address: str, broker_count: int, process: psutil.Popen) -> None:
    """Wait until metadata lists so many brokers."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def are_there() -> bool:
        if process.poll() is not None:
            raise BenchmarkError(f"tidelog up ended with exit code {process.returncode}")
        with contextlib.suppress(KafkaException):
            return len(admin.list_topics(timeout=5).brokers) == broker_count
        return False

    until(are_there, 0.1, f"{broker_count} brokers are there", START_S)


def free_port_range(count: int) -> int:
    """Return the first of ``count`` free ports in a row, with the controllers' ports free, too."""
    for first in range(21_000, 30_000, 10):
        if all(
            is_free(first + step + above)
            for step in range(count)
            for above in (0, CONTROLLER_PORTS)
        ):
            return first
    raise BenchmarkError("no range of ports is free")


def is_free(port: int) -> bool:
    """Return whether no process listens on a port."""
    return not any(each.laddr.port == port for each in psutil.net_connections("tcp"))


def measure(broker_count: int, bench: ClusterBench) -> list[Row]:
    """Measure one round of so many brokers."""
    large_count = bench.count(LARGE_COUNT)
    alone_count = bench.count(ALONE_COUNT, at_least=PRODUCERS) // PRODUCERS * PRODUCERS
    rows = []
    with tidelog_up(broker_count) as brokers:
        with brokers.topic(PARTITION_COUNT) as topic:
            produce_values(brokers.address, topic, 1024, large_count // 4)
        with brokers.topic(PARTITION_COUNT) as topic:
            touch_memory(int(1024 * large_count * 1.2))
            cpu_before = brokers.cpu_s()
            seconds = produce_values(brokers.address, topic, 1024, large_count)
            spent = brokers.cpu_s() - cpu_before
        figure = f"produce 1 KiB, acks=all, RF 1, {PARTITION_COUNT} partitions, two brokers"
        gigabytes = 1024 * large_count / 1e9
        rows.append(
            Row(figure=figure, unit="MB/s", rounds=(1024 * large_count / seconds / MEGABYTE,))
        )
        rows.append(
            Row(
                figure=f"  CPU of all brokers of {figure}",
                unit="s per GB",
                rounds=(spent / gigabytes,),
            )
        )
        with brokers.topic(PRODUCERS) as topic:
            cpu_before, started = brokers.cpu_s(), time.process_time()
            seconds = produce_alone(brokers.address, topic, 100, alone_count)
            spent, client_s = brokers.cpu_s() - cpu_before, time.process_time() - started
    figure = f"one-record batches of 100 B from {PRODUCERS} producers, RF 1, two brokers"
    return [
        *rows,
        Row(figure=figure, unit="records/s", rounds=(alone_count / seconds,)),
        Row(
            figure=f"  CPU of all brokers of {figure}",
            unit="us each",
            rounds=(spent / alone_count * 1e6,),
        ),
        Row(
            figure=f"  client CPU of {figure}",
            unit="us each",
            rounds=(client_s / alone_count * 1e6,),
        ),
    ]


@contextlib.contextmanager
def scaling(bench: ClusterBench) -> Iterator[Sides]:
    """Compare two brokers with one."""
    bench.stop()
    yield Sides(
        measures={OURS: partial(measure, 2, bench), ONE: partial(measure, 1, bench)}, peer=ONE
    )
