"""Installations that ``tidelog up`` runs for a test, and what they tell to others."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.helpers.documents import ROOT
from tests.helpers.ports import free_port

PATIENCE_S = 90.0
KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----\s+(\S{40,})")


@contextmanager
def installation(directory: Path, port: int, *arguments: str) -> Iterator[Path]:
    """Run ``tidelog up`` until the block ends; yields its data directory."""
    said, data = directory / "said.txt", directory / "data"
    command = [
        sys.executable,
        "-m",
        "log_service.cli.main",
        "up",
        "--only-broker",
        "--console-port",
        "0",
        "--data",
        str(data),
        "--project",
        str(directory),
    ]
    command += [
        "--broker-port",
        str(port),
        "--ui-port",
        str(free_port()),
        "--spark-port",
        str(free_port()),
        "--metrics-port",
        "0",
    ]
    command += ["--registry-port", "0"]
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments], stdout=output, stderr=output, env=dict(os.environ), cwd=ROOT
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while "everything is ready" not in said.read_text():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(0.1)
        yield data
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, said.read_text()
    finally:
        process.kill()
        process.wait()


def secrets_in(data: Path) -> set[bytes]:
    """Return the beginning of each private key's text."""
    keys = [path for path in (data / "security").rglob("*") if path.suffix in {".pem", ".key"}]
    return {match[1] for path in keys if (match := KEY.search(path.read_bytes()))}


def told_places(directory: Path, data: Path) -> Iterator[bytes]:
    """Yield all that the installation says: logs, files of its state, arguments of its processes."""
    for path in (
        directory / "said.txt",
        *(data / "logs").rglob("*"),
        *data.glob("*.json"),
        *data.rglob("server.properties"),
    ):
        if path.is_file():
            yield path.read_bytes()
    for process in psutil.process_iter(["cmdline"]):
        yield " ".join(process.info["cmdline"] or []).encode()
