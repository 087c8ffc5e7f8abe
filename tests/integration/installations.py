"""Runs ``tidelog up`` with brokers alone, as a process that ends with the test.

It picks the ports, too.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.helpers.ports import is_free

PATIENCE_S = 120.0
FIRST_EPHEMERAL_PORT = 32_768
"""The first port that Linux gives to connections and to servers that name none. Any process may get
it.
"""


def free_port_for(count: int, begin: int = 21_000) -> int:
    """Return the first of ``count`` free ports in a row, for brokers.

    The ports one and two thousand above are free as well, for controllers and logins.

    Tests that run at the same time look from different ports ``begin`` on: a port that was found is
    not held.
    """
    assert begin + 4_000 < FIRST_EPHEMERAL_PORT, f"other processes may get ports above {begin}"
    for first in range(begin, begin + 2_000, 10):
        ports = [first + step + above for step in range(count) for above in (0, 1000, 2000)]
        if all(is_free(port) for port in ports):
            return first
    raise AssertionError("no ports are free")


@contextmanager
def installation(directory: Path, port: int, *arguments: str) -> Iterator[Path]:
    """Run ``tidelog up`` until the block ends; yields the file of what it says."""
    output = directory / "said.txt"
    command = [
        sys.executable,
        "-m",
        "log_service.cli.main",
        "up",
        "--only-broker",
        "--console-port",
        "0",
        "--data",
        str(directory / "data"),
        "--project",
        str(directory),
    ]
    ports = [
        "--broker-port",
        str(port),
        "--ui-port",
        str(port + 8),
        "--spark-port",
        str(port + 9),
        "--metrics-port",
        "0",
        "--registry-port",
        "0",
    ]
    with output.open("wb") as said:
        process = subprocess.Popen(
            [*command, *ports, *arguments], stdout=said, stderr=said, env=dict(os.environ)
        )
    try:
        until(lambda: "everything is ready" in output.read_text() or process.poll() is not None)
        assert process.poll() is None, output.read_text()
        yield output
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()
    assert not [
        each
        for each in psutil.process_iter(["cmdline"])
        if str(directory / "data") in " ".join(each.info["cmdline"] or [])
    ]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
