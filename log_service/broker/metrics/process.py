"""Metrics of the process and of Python: ``process_*`` and ``python_*``.

Their names are those of Prometheus's own Python client. Disk traffic of the process has Kafka's
name, ``kafka_server_kafkaserver_linux_disk_*``. Values come from /proc if it exists. Values that
the operating system does not report are left out.
"""

import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from log_service import __version__
from log_service.metrics.exposition import Family, labels

PROC = Path("/proc/self")
PAGE_BYTES = resource.getpagesize()
STAT_FIELDS_BEFORE_START = 19  # of those that follow the command's name


def process_families() -> Iterator[Family]:
    """Yield the metrics of the system and the interpreter."""
    yield _one(
        "process_cpu_seconds_total",
        "counter",
        "User and system time of all threads.",
        time.process_time(),
    )
    started_s = start_time_s()
    if started_s is not None:
        yield _one(
            "process_start_time_seconds",
            "gauge",
            "When the process began, as Unix time.",
            started_s,
        )
    memory = memory_bytes()
    if memory is not None:
        yield _one("process_virtual_memory_bytes", "gauge", "Address space.", memory[0])
        yield _one("process_resident_memory_bytes", "gauge", "Memory that is there.", memory[1])
    if PROC.exists():
        yield _one(
            "process_open_fds",
            "gauge",
            "Open descriptors.",
            sum(1 for _ in (PROC / "fd").iterdir()),
        )
    yield _one(
        "process_max_fds",
        "gauge",
        "Descriptors that may be open.",
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )
    for name, count in disk_bytes().items():
        text = f"Bytes that the process made the disks {name}, since it began."
        yield _one(f"kafka_server_kafkaserver_linux_disk_{name}_bytes", "gauge", text, count)
    yield from _collections()
    yield Family(
        name="python_info",
        type="gauge",
        help="The interpreter.",
        samples=[
            (
                "",
                labels(
                    {
                        "implementation": platform.python_implementation(),
                        "version": platform.python_version(),
                    }
                ),
                1,
            )
        ],
    )
    yield Family(
        name="tidelog_build_info",
        type="gauge",
        help="This build.",
        samples=[("", labels({"version": __version__}), 1)],
    )


def _one(name: str, kind: str, text: str, value: float) -> Family:
    return Family(
        name=name,
        type="counter" if kind == "counter" else "gauge",
        help=text,
        samples=[("", "", value)],
    )


def _collections() -> Iterator[Family]:
    generations = [
        (labels({"generation": generation}), stats)
        for generation, stats in enumerate(gc.get_stats())
    ]
    for name, key, text in (
        ("python_gc_collections_total", "collections", "Garbage collections."),
        (
            "python_gc_objects_collected_total",
            "collected",
            "Objects that garbage collections freed.",
        ),
        (
            "python_gc_objects_uncollectable_total",
            "uncollectable",
            "Objects that garbage collections could not free.",
        ),
    ):
        samples = [("", text_of, stats[key]) for text_of, stats in generations]
        yield Family(name=name, type="counter", help=text, samples=samples)


def memory_bytes() -> tuple[int, int] | None:
    """Return virtual and resident memory in bytes. Return None without /proc."""
    try:
        pages = (PROC / "statm").read_text().split()
    except OSError:
        return None
    return int(pages[0]) * PAGE_BYTES, int(pages[1]) * PAGE_BYTES


def disk_bytes() -> dict[str, int]:
    """Return how many bytes the process has read from disks and written to them.

    The result is empty if the system does not report it.
    """
    try:
        counts = dict(line.split(": ") for line in (PROC / "io").read_text().splitlines())
        return {name: int(counts[f"{name}_bytes"]) for name in ("read", "write")}
    except (OSError, KeyError, ValueError):
        return {}


def start_time_s() -> float | None:
    """Return the Unix time at which the process began. Return None without /proc."""
    try:
        fields = (PROC / "stat").read_text().rpartition(")")[2].split()
        booted_s = next(
            line
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
    except (OSError, StopIteration):
        return None
    return float(booted_s.split()[1]) + int(fields[STAT_FIELDS_BEFORE_START]) / os.sysconf(
        "SC_CLK_TCK"
    )
