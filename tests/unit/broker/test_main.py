"""``serve``: what the operator is told, and the exit codes."""

import errno
import gc
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from log_service.broker.env import real_env
from log_service.broker.main import ExitCode, read_configuration, serve
from log_service.broker.storage_format import FormatOptions, format_node
from log_service.storage.files import RealFiles
from tests.helpers import collector


def properties(directory: Path, port: int = 0) -> list[str]:
    return [
        "node.id=1",
        f"listeners=PLAINTEXT://127.0.0.1:{port}",
        f"log.dirs={directory / 'data'}",
    ]


class SignalWhenReady(logging.Handler):
    """Sends this process a signal when the broker says that it is ready."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self._numbers = numbers
        self.was_collecting: list[bool] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "is ready on" in record.getMessage():
            self.was_collecting.append(gc.isenabled())
            for number in self._numbers:
                threading.Timer(0.01, os.kill, (os.getpid(), number)).start()


@pytest.fixture(autouse=True, scope="module")
def thawed() -> Iterator[None]:
    """A node freezes what its process holds. The run of tests lives on: what is left of the nodes
    goes, and the tests are set aside again.

    Else each simulated world of a later test would have the collector go through all modules, half
    a second each.
    """
    yield
    collector.give_back()
    gc.collect()
    collector.set_aside()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_super_users_with_commas_between_them_are_told(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    serve(
        None,
        [
            *properties(tmp_path),
            "super.users=User:a,User:b",
            "process.roles=broker",
            "controller.quorum.voters=2@127.0.0.1:1",
        ],
    )
    assert "super.users names 'User:a,User:b' as one principal" in said.text


def test_a_door_that_is_left_open_is_told(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    access = [
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    ]
    serve(
        None,
        [
            *properties(tmp_path),
            *access,
            "process.roles=broker",
            "controller.quorum.voters=2@127.0.0.1:1",
        ],
    )
    assert (
        "super.users has User:ANONYMOUS: each client that reaches listener PLAINTEXT may do everything"
        in said.text
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_node_gracefully(
    tmp_path: Path, said: pytest.LogCaptureFixture, number: int
) -> None:
    handler = SignalWhenReady(number)
    logging.getLogger("log_service.broker.main").addHandler(handler)
    try:
        assert serve(None, properties(tmp_path)) == ExitCode.OK
    finally:
        logging.getLogger("log_service.broker.main").removeHandler(handler)
    assert "tidelog node 1 is ready on 127.0.0.1:" in said.text
    assert "tidelog node 1 has stopped" in said.messages[-1]
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert handler.was_collecting == [True]


def test_a_controller_alone_says_that_clients_connect_elsewhere(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lines = [
        "process.roles=controller",
        "node.id=1",
        f"controller.quorum.voters=1@127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        f"listeners=CONTROLLER://127.0.0.1:{port}",
        f"log.dirs={tmp_path / 'data'}",
    ]
    config, _ = read_configuration(None, lines)
    format_node(real_env(config), config, FormatOptions(cluster_id="cluster-of-the-test-00"))
    handler = SignalWhenReady(signal.SIGTERM)
    logging.getLogger("log_service.broker.main").addHandler(handler)
    try:
        assert serve(None, lines) == ExitCode.OK, said.text
    finally:
        logging.getLogger("log_service.broker.main").removeHandler(handler)
    assert (
        f"tidelog node 1 is ready on 127.0.0.1:{port}, as a controller only: clients connect to brokers"
        in said.messages
    )


COUNTING_OBJECTS = """
import gc, logging, os, signal, sys
from log_service.cli.main import tidelog

class CountAndStop(logging.Handler):
    def emit(self, record):
        if "is ready on" in record.getMessage():
            print("frozen", gc.get_freeze_count(), "looked through", len(gc.get_objects()), flush=True)
            print("full collections", gc.get_stats()[2]["collections"], flush=True)
            os.kill(os.getpid(), signal.SIGTERM)

gc.disable()
logging.getLogger("log_service.broker.main").addHandler(CountAndStop())
tidelog(["serve", sys.argv[1]])
"""


def test_what_was_imported_is_not_looked_through_for_garbage(tmp_path: Path) -> None:
    """The garbage collector does not look through imported modules.

    They are a hundred thousand objects. To look through them when the node was ready took a
    tenth of its start. So did the objects of 10,000 partitions.
    """
    path = tmp_path / "server.properties"
    path.write_text("\n".join(properties(tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", COUNTING_OBJECTS, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    counted = re.search(r"frozen (\d+) looked through (\d+)", done.stdout)
    assert counted is not None, done.stderr
    assert int(counted[1]) > 4 * int(counted[2]), counted[0]
    assert "full collections 0" in done.stdout


def test_a_start_that_fails_leaves_garbage_collection_on(tmp_path: Path) -> None:
    assert serve(None, [*properties(tmp_path), "num.partitions=none"]) == ExitCode.BAD_CONFIGURATION
    assert gc.isenabled()


def test_a_file_is_read_and_overridden(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=7\nlog.dirs={tmp_path / 'data'}\nno.such.key=1\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert (
            serve(path, [f"listeners=PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"])
            == ExitCode.CANNOT_BIND
        )
    assert "no.such.key" in said.text
    assert "node.id=7" in (tmp_path / "data" / "meta.properties").read_text()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("controller.quorum.voters=1@a:1,2@b:1", "several controllers"),
        ("num.partitions=many", "num.partitions"),
        ("authorizer.class.name=x.Y", "authorizer.class.name"),
        ("process.roles=broker", "no controller is named"),
    ],
)
def test_a_configuration_that_cannot_be_honoured_is_named(
    tmp_path: Path, said: pytest.LogCaptureFixture, override: str, told: str
) -> None:
    assert serve(None, [*properties(tmp_path), override]) == ExitCode.BAD_CONFIGURATION
    assert told in said.text


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ((), "{path}: invalid value 'many' for num.partitions"),
        (
            ("num.partitions=none",),
            "{path} with its overrides: invalid value 'none' for num.partitions",
        ),
    ],
)
def test_a_wrong_value_is_told_with_the_file(
    tmp_path: Path, said: pytest.LogCaptureFixture, overrides: Sequence[str], told: str
) -> None:
    path = tmp_path / "server.properties"
    path.write_text("\n".join([*properties(tmp_path), "num.partitions=many"]))
    assert serve(path, overrides) == ExitCode.BAD_CONFIGURATION
    assert [text for text in said.messages if text.startswith(told.format(path=path))], said.text


@pytest.mark.parametrize(
    "content",
    [
        "broker.rack=Büro".encode(),
        "broker.rack=Büro".encode("latin-1"),
        "\ufeffbroker.rack=Büro".encode(),
    ],
)
def test_a_file_may_be_in_utf_8_or_as_java_reads_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "node.properties"
    path.write_bytes(content)
    config, settings = read_configuration(path, ["node.id=1"])
    assert config.rack == "Büro"
    assert settings.warning is None


@pytest.mark.parametrize(("override", "is_known", "told"), [
    ("listeners=PLAINTEXT://:9092", True, "this.machine"),
    ("listeners=PLAINTEXT://:9092", False, "localhost"),
    ("listeners=PLAINTEXT://10.0.0.1:9092", True, "10.0.0.1"),
])  # fmt: skip
def test_clients_of_a_listener_on_every_address_are_told_the_machines_name(
    monkeypatch: pytest.MonkeyPatch, override: str, is_known: bool, told: str
) -> None:
    def resolve(name: str, _port: None) -> list[str]:
        if not is_known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [name]

    monkeypatch.setattr(socket, "getfqdn", lambda: "this.machine")
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    config, _ = read_configuration(None, ["node.id=1", override])
    assert config.listeners[0].advertised_host == told


def test_a_file_that_is_not_there_is_named(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    assert serve(tmp_path / "missing.properties") == ExitCode.BAD_CONFIGURATION
    assert "missing.properties" in said.text


def test_an_occupied_port_is_named(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve(None, properties(tmp_path, port)) == ExitCode.CANNOT_BIND
    assert str(port) in said.text


def test_a_directory_in_use_is_named(tmp_path: Path, said: pytest.LogCaptureFixture) -> None:
    files = RealFiles()
    (tmp_path / "data").mkdir()
    lock = files.lock_directory(tmp_path / "data")
    try:
        assert serve(None, properties(tmp_path)) == ExitCode.BAD_LOG_DIRECTORY
    finally:
        lock.release()
    assert f"{tmp_path / 'data'} is in use" in said.text


def test_a_directory_of_another_node_is_named(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text(
        "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=2\n"
    )
    assert serve(None, properties(tmp_path)) == ExitCode.BAD_LOG_DIRECTORY
    assert "belongs to node 2" in said.text


def test_a_full_disk_is_named(
    tmp_path: Path, said: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RealFiles, "write_atomically", full)
    assert serve(None, properties(tmp_path)) == ExitCode.DISK_FULL
    assert "disk is full" in said.text
