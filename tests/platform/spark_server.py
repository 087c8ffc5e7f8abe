"""A warm Spark Connect server of a test's own, in a process that the test may stop or kill."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestration.settings import load_settings
from orchestration.spark.server import SparkServer
from orchestration.spark.token import kept_token
from tests.helpers.ports import free_port

START_TIMEOUT_S = 120


@contextmanager
def warm_server(data_directory: Path, master: str = "local[2]") -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Yield the address of a server that is ready, with its token, and its process; its log is ``server.log`` in the directory."""
    settings = load_settings({"TIDELOG_DATA": str(data_directory), "TIDELOG_SPARK_MASTER": master, "TIDELOG_SPARK_DRIVER_MEMORY": "1g"})
    server = SparkServer(settings=settings, port=free_port())
    with (data_directory / "server.log").open("wb") as output:
        child = subprocess.Popen(
            server.argv(), env=server.environment(os.environ), cwd=data_directory, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not server.is_ready():
            assert child.poll() is None, (data_directory / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield f"sc://localhost:{server.port}/;token={kept_token(settings)}", child
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(90)
