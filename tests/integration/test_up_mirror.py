"""``tidelog up`` runs a project with a ``mirror.properties``.

The mirror runs beside the broker, and again when it was killed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.helpers.ports import free_ports
from tests.integration.client_clusters import tidelog
from tests.integration.command_line import run
from tests.integration.mirrors import PATIENCE_SECONDS, until, values, write_file

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


@contextmanager
def installation(project: Path, port: int) -> Iterator[Path]:
    """Run ``tidelog up --only-broker`` for a project; yields the file of what it says.

    Another process listens on the ports of the Dagster UI and of Spark, as that of a whole
    installation on this machine does.
    """
    output = project / "said.txt"
    places = [
        "--data",
        str(project / "data"),
        "--project",
        str(project),
        "--broker-port",
        str(port),
        "--metrics-port",
        "0",
        "--no-registry",
    ]
    with (
        socket.create_server(("127.0.0.1", 0)) as page,
        socket.create_server(("127.0.0.1", 0)) as spark,
        output.open("wb") as said,
    ):
        others = [
            "--ui-port",
            str(page.getsockname()[1]),
            "--spark-port",
            str(spark.getsockname()[1]),
        ]
        command = [
            sys.executable,
            "-m",
            "log_service.cli.main",
            "up",
            "--only-broker",
            "--no-console",
            *places,
            *others,
        ]
        process = subprocess.Popen(command, stdout=said, stderr=said)
        with stopped_in_the_end(process, output):
            yield output


@contextmanager
def stopped_in_the_end(process: subprocess.Popen[bytes], output: Path) -> Iterator[None]:
    """Wait until an installation is ready, and stop it in order behind the block."""
    try:
        until(
            lambda: "everything is ready" in output.read_text() or process.poll() is not None,
            "it is ready",
        )
        assert process.poll() is None, output.read_text()
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()


def mirror_of(project: Path) -> dict[str, Any]:
    """Return the mirror's part of ``tidelog status``."""
    rows = json.loads(run(["status", "--data", str(project / "data"), "--json"]).output)
    return next(row for row in rows if row["name"] == "mirror")


def test_the_mirror_runs_with_the_project_and_again_when_it_was_killed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (port,) = free_ports(1)
    own = f"127.0.0.1:{port}"
    with tidelog(tmp_path / "elsewhere") as elsewhere:
        with BlockingAdmin(elsewhere) as admin:
            admin.create_topics([NewTopic(name="orders", partition_count=1)])
        lines = ("elsewhere->here.enabled = true", "elsewhere->here.topics = orders")
        write_file(project / "mirror.properties", {"elsewhere": elsewhere, "here": own}, *lines)
        with installation(project, port) as said, BlockingProducer(elsewhere) as producer:
            assert "mirror  ready  elsewhere->here" in said.read_text()
            producer.send("orders", value=b"1").wait()
            until(lambda: values(own, "elsewhere.orders") == [b"1"], "the record is here")
            os.kill(mirror_of(project)["pid"], signal.SIGKILL)
            producer.send("orders", value=b"2").wait()
            until(lambda: values(own, "elsewhere.orders") == [b"1", b"2"], "it goes on")
            assert mirror_of(project)["restarts"] == 1
