"""The clusters that the client is tested against: tidelog, and Apache Kafka where the environment says where its libraries are.

``TIDELOG_KAFKA_LIBS`` names a directory with Kafka's jars (and their dependencies); without it the tests against Apache Kafka are skipped,
loudly.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.helpers.broker_process import BrokerThread

KAFKA_LIBS = "TIDELOG_KAFKA_LIBS"
START_SECONDS = 60.0
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
PROPERTIES = {"num.partitions": "4", "group.min.session.timeout.ms": "1000"}

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


@contextmanager
def tidelog(directory: Path, more: Mapping[str, str] = NO_PROPERTIES) -> Iterator[str]:
    """Run our broker, with ``more`` server properties; yields its bootstrap servers."""
    with BrokerThread(directory, properties={**PROPERTIES, **_placed(more, directory)}) as broker:
        yield broker.bootstrap


@contextmanager
def apache_kafka(directory: Path, more: Mapping[str, str] = NO_PROPERTIES) -> Iterator[str]:
    """Run one node of Apache Kafka, with ``more`` server properties; yields its bootstrap servers."""
    port, controller = free_port(), free_port()
    properties = directory / "node.properties"
    lines = [f"{name}={value}\n" for name, value in _placed(more, directory).items()]
    properties.write_text(KAFKA_PROPERTIES.format(port=port, controller=controller, directory=directory) + "".join(lines))
    cluster_id = _java("kafka.tools.StorageTool", "random-uuid").stdout.split()[-1]
    _java("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(properties))
    command = [*java_command(), "kafka.Kafka", str(properties)]
    with (directory / "kafka.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_for_port(port, process)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _placed(properties: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return properties with ``{directory}`` filled in."""
    return {name: value.replace("{directory}", str(directory)) for name, value in properties.items()}


def free_port() -> int:
    """Return a port that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def java_command() -> list[str]:
    """Return how a class of Kafka's is run; its name and arguments follow."""
    return ["java", "-Xmx512m", "-cp", f"{os.environ[KAFKA_LIBS]}/*"]


def _java(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*java_command(), *arguments], check=True, capture_output=True, text=True, timeout=START_SECONDS)


def _wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "Apache Kafka ended while it started"
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("Apache Kafka did not start in time")
