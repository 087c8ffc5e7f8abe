"""A node that cannot start or go on says why in one sentence, and ends with its exit code.

It never shows a traceback.

Most of these nodes run in the process of the tests. How a process ends, with which exit code and
last line, is seen where it takes one.
"""

import os
import shutil
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from log_service.broker.main import ExitCode, serve
from tests.helpers.broker_process import (
    BrokerProcess,
    BrokerThread,
    NotStartedError,
    overrides_of,
    run_to_its_end,
)
from tests.integration.command_line import run
from tests.integration.confluent import produce, read_all

needs_permissions = pytest.mark.skipif(
    os.geteuid() == 0, reason="root may write everywhere: nothing was tested without permissions"
)


def sentence_of(log: str) -> str:
    """Return the last line of a log.

    There is no traceback before it.
    """
    assert "Traceback" not in log, log
    line = log.strip().splitlines()[-1]
    assert " ERROR " in line, log
    return line.split(": ", 1)[1]


def refused_process(directory: Path, code: ExitCode, *, port: int = 0) -> str:
    """Start a node that cannot start, as a process, and return its sentence."""
    exit_code, log = run_to_its_end(directory, port=port)
    assert exit_code == code, log
    return sentence_of(log)


class Refused(Protocol):
    """Starts a node that cannot start, in this process, and returns its sentence."""

    def __call__(
        self, directory: Path, code: ExitCode, properties: Mapping[str, str] | None = None
    ) -> str: ...


@pytest.fixture
def refused(caplog: pytest.LogCaptureFixture) -> Refused:
    def start(directory: Path, code: ExitCode, properties: Mapping[str, str] | None = None) -> str:
        caplog.clear()
        assert serve(None, overrides_of(directory, 0, properties or {})) == code, caplog.text
        told = caplog.records[-1]
        assert told.levelname == "ERROR"
        assert "Traceback" not in caplog.text
        return told.getMessage()

    return start


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The directory of a node that has a topic and has stopped."""
    with BrokerThread(tmp_path) as node:
        produce(node.bootstrap, "precious", [b"one"])
    return tmp_path


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (
            {"controller.quorum.voters": "1@h:9093,2@h:9094,3@h:9095"},
            "controller.quorum.voters names several controllers",
        ),
        ({"controller.quorum.voters": "2@localhost:9093"}, "names node 2, but this is node 1"),
        ({"controller.quorum.voters": "here"}, "'here', which is not id@host:port"),
        ({"controller.quorum.bootstrap.servers": "a:9093,b:9093"}, "names several controllers"),
        ({"process.roles": "broker"}, "no controller is named"),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}, "SASL"),
        ({"listeners": "SSL://127.0.0.1:0"}, "SSL"),
        ({"listeners": "nonsense"}, "listeners"),
        ({"listeners": "PLAINTEXT://127.0.0.1:99999"}, "99999"),
        ({"authorizer.class.name": "org.example.Authorizer"}, "StandardAuthorizer"),
        ({"remote.log.storage.system.enable": "true"}, "remote storage"),
        ({"num.partitions": "many"}, "num.partitions"),
        ({"num.partitions": "0"}, "num.partitions"),
        ({"log.retention.ms": "soon"}, "log.retention.ms"),
        ({"log.cleanup.policy": "shred"}, "log.cleanup.policy"),
        ({"log.dirs": ""}, "log.dirs"),
        ({"node.id": "-4"}, "node.id"),
        ({"node.id": "one"}, "node.id"),
        ({"node.id": "1", "broker.id": "2"}, "set node.id alone"),
        ({"default.replication.factor": "0"}, "default.replication.factor"),
    ],
)
def test_a_configuration_that_cannot_be_honoured_names_the_key(
    tmp_path: Path, refused: Refused, properties: dict[str, str], said: str
) -> None:
    assert said in refused(tmp_path, ExitCode.BAD_CONFIGURATION, properties)
    assert not (tmp_path / "data").exists(), (
        "nothing is written before the configuration is understood"
    )


def test_unknown_keys_are_named_in_one_warning_and_the_node_runs(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, properties={"num.partitons": "3", "colour": "red"}) as broker:
        warnings = [line for line in broker.log.splitlines() if " WARNING " in line]
    assert len(warnings) == 1
    assert "colour" in warnings[0]
    assert "num.partitons (did you mean num.partitions?)" in warnings[0]


def test_an_occupied_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused_process(tmp_path, ExitCode.CANNOT_BIND, port=port)
    assert str(port) in sentence
    assert "stop what listens there" in sentence


def test_an_address_of_another_machine_cannot_be_bound(tmp_path: Path, refused: Refused) -> None:
    sentence = refused(
        tmp_path, ExitCode.CANNOT_BIND, {"listeners": "PLAINTEXT://203.0.113.1:9092"}
    )
    assert "203.0.113.1" in sentence


def test_a_listener_on_a_name_that_leads_nowhere_is_told_by_its_name(
    tmp_path: Path, refused: Refused
) -> None:
    sentence = refused(
        tmp_path, ExitCode.CANNOT_BIND, {"listeners": "PLAINTEXT://no-such-host.invalid:9092"}
    )
    assert "no-such-host.invalid" in sentence
    assert "listeners" in sentence


def test_a_second_broker_on_the_same_directory_is_refused_and_harms_nothing(
    broker: BrokerProcess,
) -> None:
    produce(broker.bootstrap, "mine", [b"one"])
    sentence = refused_process(broker.directory, ExitCode.BAD_LOG_DIRECTORY)
    assert str(broker.directory / "data") in sentence
    assert "use" in sentence
    produce(broker.bootstrap, "mine", [b"two"])
    assert read_all(broker.bootstrap, "mine", 2) == [b"one", b"two"]


def test_the_directory_of_another_node_is_refused(stopped: Path, refused: Refused) -> None:
    sentence = refused(stopped, ExitCode.BAD_LOG_DIRECTORY, {"node.id": "2"})
    assert "node" in sentence
    assert "1" in sentence
    assert "2" in sentence
    with BrokerThread(stopped) as node:
        assert read_all(node.bootstrap, "precious", 1) == [b"one"]


def test_the_directory_of_another_cluster_is_refused(stopped: Path, refused: Refused) -> None:
    sentence = refused(
        stopped, ExitCode.BAD_LOG_DIRECTORY, {"cluster.id": "AAAAAAAAAAAAAAAAAAAAAA"}
    )
    assert "cluster" in sentence
    assert "AAAAAAAAAAAAAAAAAAAAAA" in sentence


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "data").write_text("a file")
    assert str(tmp_path / "data") in refused(tmp_path, ExitCode.BAD_LOG_DIRECTORY)


@needs_permissions
def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "data").mkdir(mode=0o555)
    assert str(tmp_path / "data") in refused(tmp_path, ExitCode.BAD_LOG_DIRECTORY)


@pytest.mark.skipif(
    not Path("/proc/sys").exists(),
    reason="there is no /proc: nothing was tested on a file system without room for files",
)
def test_a_place_where_no_directory_can_be_made_is_refused(
    tmp_path: Path, refused: Refused
) -> None:
    assert "/proc/sys/tidelog" in refused(
        tmp_path, ExitCode.BAD_LOG_DIRECTORY, {"log.dirs": "/proc/sys/tidelog"}
    )


def test_a_damaged_meta_properties_is_told(stopped: Path, refused: Refused) -> None:
    path = stopped / "data" / "meta.properties"
    path.write_text("version=1\nnode.id=one\n")
    assert str(path) in refused(stopped, ExitCode.BAD_LOG_DIRECTORY)


def test_logs_without_a_meta_properties_are_not_taken_over(stopped: Path, refused: Refused) -> None:
    (stopped / "data" / "meta.properties").unlink()
    assert str(stopped / "data") in refused(stopped, ExitCode.BAD_LOG_DIRECTORY)
    assert (stopped / "data" / "precious-0").exists()


def test_a_metadata_log_that_is_damaged_below_its_end_is_told_and_not_cut(
    stopped: Path, refused: Refused
) -> None:
    with BrokerThread(stopped) as node:
        for number in range(5):
            produce(node.bootstrap, f"topic-{number}", [b"x"])
    segment = stopped / "data" / "__cluster_metadata-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    sentence = refused(stopped, ExitCode.BAD_LOG_DIRECTORY)
    assert "__cluster_metadata" in sentence
    assert segment.read_bytes() == content


def test_a_missing_metadata_log_is_told(stopped: Path, refused: Refused) -> None:
    shutil.rmtree(stopped / "data" / "__cluster_metadata-0")
    sentence = refused(stopped, ExitCode.BAD_LOG_DIRECTORY)
    assert "__cluster_metadata" in sentence
    assert (stopped / "data" / "precious-0").exists()


def test_a_signal_while_starting_ends_the_node(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        assert broker.end(signal.SIGINT) == ExitCode.OK
        broker.start()
        assert broker.end(signal.SIGTERM) == ExitCode.OK
        assert "Traceback" not in broker.log


def test_a_broker_that_is_refused_tells_the_helper_why(tmp_path: Path) -> None:
    with pytest.raises(NotStartedError, match=r"node\.id"):
        BrokerProcess(tmp_path, properties={"node.id": "none"}).start()


def test_serve_reads_a_file_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs=/proc/sys/tidelog\n")
    assert (
        run(["serve", str(path), "--override", "num.partitions=none"]).exit_code
        == ExitCode.BAD_CONFIGURATION
    )
    assert (
        run(["serve", str(path), "--override", "num.partitions"]).exit_code
        == ExitCode.BAD_CONFIGURATION
    )
    assert run(["serve", str(path)]).exit_code == ExitCode.BAD_LOG_DIRECTORY
    path.write_bytes(b"\xff\xfe")
    assert run(["serve", str(path)]).exit_code == ExitCode.BAD_CONFIGURATION
