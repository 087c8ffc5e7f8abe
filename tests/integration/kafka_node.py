"""A node of Apache Kafka over one directory, with the manners of ``BrokerProcess``: started, stopped, killed; and its dump tool."""

import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.integration.client_clusters import KAFKA_PROPERTIES, free_port, java_command

START_SECONDS = 60.0
STOP_SECONDS = 60.0
DUMP_SECONDS = 100.0


class KafkaNode:
    """One node, formatted when it is made. ``data`` is its log directory."""

    def __init__(self, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.port, controller = free_port(), free_port()
        self._file = directory / "node.properties"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        texts = {"log.dirs": str(self.data), **(properties or {})}
        lines = [line for line in _template(directory, self.port, controller) if line.partition("=")[0] not in texts]
        self._file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in texts.items()), ""]))
        java("kafka.tools.StorageTool", "format", "--standalone", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(self._file), cwd=directory)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._process is not None:
            self.kill()

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start, and wait until connections are taken."""
        assert self._process is None, "it runs already"
        with (self.directory / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen([*java_command(), "kafka.Kafka", str(self._file)], stdout=log, stderr=log)
        _wait_for_port(self.port, self._process)
        return self

    def stop(self) -> None:
        """Stop gracefully."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End at once: nothing more is written."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        assert self._process is not None, "it does not run"
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def java(*arguments: str, cwd: Path) -> str:
    """Run one of Kafka's classes and return what it printed."""
    done = subprocess.run([*java_command(), *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=DUMP_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dump(directory: Path, suffix: str, *flags: str) -> str:
    """Let Kafka's DumpLogSegments print the files of a directory that end with ``suffix``."""
    names = sorted(path.name for path in directory.iterdir() if path.name.endswith(suffix))
    assert names, f"{directory} holds no {suffix}"
    return java("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(names), *flags, cwd=directory)


def _template(directory: Path, port: int, controller: int) -> list[str]:
    return [line for line in KAFKA_PROPERTIES.format(port=port, controller=controller, directory=directory).splitlines() if line]


def _wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    with socket.socket() as probe:
        probe.settimeout(0.5)
        while probe.connect_ex(("127.0.0.1", port)) != 0:
            assert process.poll() is None, f"Apache Kafka ended with {process.returncode} while it started"
            assert time.monotonic() < deadline, "Apache Kafka did not start in time"
            time.sleep(0.1)
