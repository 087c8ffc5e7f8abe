"""Runs a whole installation as a user starts it, with no minimum interval between runs.

That is `tidelog up` with warm Spark, sensor and runs.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.broker_process import BenchmarkError, free_port
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.retained.lag import measure_lag

EXAMPLE = Path(__file__).resolve().parents[1]
CATCH_UP_DEADLINE_S = 600.0
POLL_S = 0.2


@contextlib.contextmanager
def running_installation(
    directory: Path, project: Path = EXAMPLE, **settings: str
) -> Iterator[str]:
    """Start everything for a project, and stop it in order.

    Settings are given by their variables. Yields the broker's address.
    """
    port = free_port()
    argv = [
        sys.executable,
        "-m",
        "log_service.cli.main",
        "up",
        "--no-console",
        "--data",
        str(directory),
        "--project",
        str(project),
    ]
    argv += [
        "--broker-port",
        str(port),
        "--metrics-port",
        "0",
        "--ui-port",
        str(free_port()),
        "--spark-port",
        str(free_port()),
    ]
    environment = {
        **os.environ,
        "TIDELOG_MINIMUM_INTERVAL_S": "0",
        "PYTHONUNBUFFERED": "1",
        **settings,
    }
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        wait_until_ready(child)
        yield f"127.0.0.1:{port}"
    finally:
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=120)


def wait_until_ready(child: "subprocess.Popen[str]") -> None:
    assert child.stdout is not None
    seen = []
    for line in child.stdout:
        seen.append(line)
        if "everything is ready" in line:
            return
    raise BenchmarkError("the installation did not start:\n" + "".join(seen))


def wait_until_caught_up(address: str, lake: Lake, topic: str, table: str) -> str:
    """Wait until the table holds every record, and return the topic's id."""
    deadline = time.monotonic() + CATCH_UP_DEADLINE_S
    with connect(address) as log:
        while True:
            lag = measure_lag(log, lake, topic=topic, table=table)
            if lag is not None and lag.high_watermark and lag.lag == 0:
                return lag.topic_id
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"table {table} is still behind after {CATCH_UP_DEADLINE_S:.0f} s: {lag}"
                )
            time.sleep(POLL_S)
