"""Measures how fast a mirror copies a topic from one broker into another, and its CPU.

One flow runs in one process. The source holds all records before it starts. The clock runs from the
first records in the target to the last, so that the start of the process does not count. Every
transaction, with the progress in it, is part of it.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

import psutil

from benchmarks.broker_process import BenchmarkError, BrokerProcess
from benchmarks.produce import MEGABYTE, produce_values
from benchmarks.rounds import Bench, Sides
from benchmarks.table import OURS, Row
from log_service.client import BlockingAdmin, NewTopic, OffsetSpec, TopicPartition

TOPIC, PARTITIONS = "to-mirror", 4
SIZES = {"100 B": (100, 1_000_000), "1 KiB": (1024, 300_000)}
POLL_S, PATIENCE_S = 0.05, 300.0


@contextlib.contextmanager
def mirror(bench: Bench) -> Iterator[Sides]:
    """Fill a source, and yield the side that mirrors it into a target of its own."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-mirror-")))
        source, target = (
            stack.enter_context(bench.kinds[OURS](_made(directory / name)).running())
            for name in ("source", "target")
        )
        counts = {size: bench.count(full, at_least=1_000) for size, (_, full) in SIZES.items()}
        for size, (size_bytes, _) in SIZES.items():
            with BlockingAdmin(source.address) as admin:
                admin.create_topics([NewTopic(name=_topic(size), partition_count=PARTITIONS)])
            produce_values(source.address, _topic(size), size_bytes, counts[size])
        yield Sides(
            measures={OURS: partial(_measure, source, target, directory, counts, count())}, peer=""
        )


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _topic(size: str) -> str:
    return f"{TOPIC}-{size.replace(' ', '')}"


def _measure(
    source: BrokerProcess,
    target: BrokerProcess,
    directory: Path,
    counts: dict[str, int],
    rounds: Iterator[int],
) -> list[Row]:
    rows: list[Row] = []
    number = next(rounds)
    for size, (size_bytes, _) in SIZES.items():
        alias = f"round{number}-{size.replace(' ', '')}"
        file = directory / f"{alias}.properties"
        file.write_text(
            f"clusters = {alias}, target\n{alias}.bootstrap.servers ="
            f" {source.address}\ntarget.bootstrap.servers ="
            f" {target.address}\n{alias}->target.enabled = true\n{alias}->target.topics ="
            f" {_topic(size)}\n"
        )
        seconds, cpu_seconds, copied = _copy(
            file, target.address, f"{alias}.{_topic(size)}", counts[size]
        )
        megabytes = copied * size_bytes / MEGABYTE
        rows += [
            Row(figure=f"mirror, {size}", unit="MB/s", rounds=(megabytes / seconds,)),
            Row(
                figure=f"mirror, {size}: CPU of the mirror",
                unit="s/GB",
                rounds=(cpu_seconds / megabytes * 1_000,),
            ),
        ]
    return rows


def _copy(file: Path, address: str, topic: str, record_count: int) -> tuple[float, float, int]:
    """Mirror until all records are there, and return the cost.

    The cost is seconds, CPU seconds and records since the first records were seen in the target.
    """
    command = [sys.executable, "-m", "log_service.cli.main", "mirror", "run", str(file)]
    with (
        BlockingAdmin(address) as admin,
        subprocess.Popen(command, stdout=subprocess.DEVNULL) as process,
    ):
        try:
            watched = psutil.Process(process.pid)
            before = _wait_for(admin, topic, 1)
            began, cpu_began = time.monotonic(), _cpu_seconds(watched)
            _wait_for(admin, topic, record_count)
            return (
                time.monotonic() - began,
                _cpu_seconds(watched) - cpu_began,
                record_count - before,
            )
        finally:
            process.kill()


def _wait_for(admin: BlockingAdmin, topic: str, record_count: int) -> int:
    """Wait until a topic holds so many records, and return its number of records then.

    Markers are left out as far as they matter.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if topic in {each.name for each in admin.list_topics()}:
            wanted = {
                TopicPartition(topic, partition): OffsetSpec.latest()
                for partition in range(PARTITIONS)
            }
            found = sum(
                each.offset
                for each in admin.list_offsets(wanted, isolation_level="read_committed").values()
            )
            if found >= record_count:
                return min(found, record_count)
        time.sleep(POLL_S)
    raise BenchmarkError(
        f"{topic} did not come to {record_count} records within {PATIENCE_S:.0f} s"
    )


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
