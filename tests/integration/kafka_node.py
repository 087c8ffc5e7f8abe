"""A node of Apache Kafka runs over one directory, and is used like ``BrokerProcess``.

It is started, stopped and killed, and its dump tool is here, too.

``TIDELOG_KAFKA_LIBS`` names a directory with Kafka's jars (and their dependencies); without it the
tests against Apache Kafka are skipped, loudly.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.helpers.java_archives import KAFKA_ARCHIVE, KAFKA_LIBS, quick_options
from tests.helpers.ports import free_ports

START_SECONDS = 60.0
STOP_SECONDS = 60.0
DUMP_SECONDS = 100.0

KAFKA_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}/data
num.partitions=4
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
"""


def skip_unless_kafka_is_there() -> None:
    """Skip with a reason that says what to do."""
    if KAFKA_LIBS not in os.environ:
        pytest.skip(f"{KAFKA_LIBS} is not set: nothing was tested against Apache Kafka")
    if shutil.which("java") is None:
        pytest.skip("there is no java on the PATH: nothing was tested against Apache Kafka")


class KafkaNode:
    """One node, formatted when it is made. ``data`` is its log directory, ``features`` are levels
    other than those of a new cluster.
    """

    def __init__(
        self,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.port, controller = free_ports(2)
        self._file = directory / "node.properties"
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        texts = {"log.dirs": str(self.data), **(properties or {})}
        lines = [
            line
            for line in _template(directory, self.port, controller)
            if line.partition("=")[0] not in texts
        ]
        self._file.write_text(
            "\n".join([*lines, *(f"{name}={value}" for name, value in texts.items()), ""])
        )
        levels = [
            text
            for name, level in (features or {}).items()
            for text in ("--feature", f"{name}={level}")
        ]
        formatted = (
            "format",
            "--standalone",
            "-t",
            "4L6g3nShT-eMCtK--X86sw",
            "-c",
            str(self._file),
        )
        java("kafka.tools.StorageTool", *formatted, *levels, cwd=directory)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def bootstrap(self) -> str:
        """Return the address for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start, and wait until connections are taken."""
        assert self._process is None, "it runs already"
        with (self.directory / "kafka.log").open("ab") as log:
            command = [*java_command(*self._java_options), "kafka.Kafka", str(self._file)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
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


def java_command(*options: str) -> list[str]:
    """Return how a class of Kafka's is run; its name and arguments follow. Later ``options`` win."""
    return [
        "java",
        "-Xmx512m",
        *quick_options(KAFKA_ARCHIVE),
        *options,
        "-cp",
        f"{os.environ[KAFKA_LIBS]}/*",
    ]


def java(*arguments: str, cwd: Path) -> str:
    """Run one of Kafka's classes and return what it printed."""
    done = subprocess.run(
        [*java_command(), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=DUMP_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dump(directory: Path, suffix: str, *flags: str) -> str:
    """Let Kafka's DumpLogSegments print the files of a directory that end with ``suffix``."""
    names = sorted(path.name for path in directory.iterdir() if path.name.endswith(suffix))
    assert names, f"{directory} holds no {suffix}"
    return java(
        "org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(names), *flags, cwd=directory
    )


def _template(directory: Path, port: int, controller: int) -> list[str]:
    return [
        line
        for line in KAFKA_PROPERTIES.format(
            port=port, controller=controller, directory=directory
        ).splitlines()
        if line
    ]


def _wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    with socket.socket() as probe:
        probe.settimeout(0.5)
        while probe.connect_ex(("127.0.0.1", port)) != 0:
            assert process.poll() is None, (
                f"Apache Kafka ended with {process.returncode} while it started"
            )
            assert time.monotonic() < deadline, "Apache Kafka did not start in time"
            time.sleep(0.1)
