"""The command line without a cluster: help, usage errors, exit codes."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

from log_service.cli import main as cli
from log_service.cli.connection import GREETING, RESPONSE_SECONDS, check_reachable
from log_service.cli.main import COMMANDS, tidelog
from log_service.cli.produce import records_of
from log_service.cli.record_lines import parser
from log_service.client import ConfigResource
from log_service.supervisor.components import broker_component
from log_service.supervisor.nodes import NodeFactory, new_cluster, write_cluster
from log_service.supervisor.spec import ServiceContext
from tests.helpers.stand_ins import opening, returning

WIDTH = 80
NOBODY = "127.0.0.1:1"


def invoke(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": str(WIDTH)}).invoke(tidelog, arguments)


def commands(group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command by its words."""
    if not isinstance(group, click.Group):
        return [path]
    context = click.Context(group)
    found = [path]
    for name in group.list_commands(context):
        inner = group.get_command(context, name)
        assert inner is not None
        found += commands(inner, (*path, name))
    return found


@pytest.mark.parametrize("path", commands(tidelog), ids=lambda path: " ".join(path) or "tidelog")
def test_help_teaches_within_80_columns(path: Sequence[str]) -> None:
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")
    too_long = [line for line in result.output.splitlines() if len(line) > WIDTH]
    assert not too_long
    assert "..." not in result.output.partition("Commands:")[2], (
        "a command's line is cut off: give it a short_help"
    )


WITHOUT_JSON = {
    ("up",),
    ("demo",),
    ("init",),
    ("serve",),
    ("mirror", "run"),
    ("registry", "serve"),
    ("rest", "serve"),
    ("console",),
    ("completion",),
}
"""Commands that run until they are stopped, become another program, or print a script."""


@pytest.mark.parametrize(
    "path", [path for path in commands(tidelog) if path not in WITHOUT_JSON], ids=" ".join
)
def test_json_is_everywhere(path: Sequence[str]) -> None:
    command: click.Command = tidelog
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    options = {option for parameter in command.params for option in parameter.opts}
    assert isinstance(command, click.Group) or "--json" in options


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["topcs"], "No such command 'topcs'. Did you mean topics or top?"),
        (["topics", "create"], "Missing argument 'NAMES...'"),
        (["topics", "create", "a", "-p", "0"], "0 is not in the range"),
        (["topics", "create", "a", "-c", "retention"], "'retention' is not KEY=VALUE"),
        (["topics", "alter", "a"], "nothing to change"),
        (["topics", "list", "-b", "nowhere"], "'nowhere' is not host:port"),
        (["topics", "list", "-b", ""], "lists no server"),
        (["-b", "", "topics", "list"], "lists no server"),
        (["-b", "nowhere", "topics", "list"], "'nowhere' is not host:port"),
        (["groups", "list", "--state", "Happy"], "'Happy' is not one of"),
        (
            ["groups", "describe", "--members", "--state"],
            "--members and --state exclude each other",
        ),
        (["groups", "reset", "g"], "say where to, with exactly one of --to-earliest"),
        (["groups", "reset", "g", "--to-earliest", "--to-latest"], "exactly one of"),
        (["groups", "reset", "g", "--by-duration", "soon"], "not a duration like 90m"),
        (["transactions", "list", "--state", "Happy"], "'Happy' is not one of"),
        (["transactions", "list", "--producer-id", "me"], "'me' is not a valid whole number"),
        (["transactions", "list", "--longer-than", "soon"], "not a duration like 90m"),
        (["transactions", "find-hanging", "--open-for", "long"], "not a duration like 90m"),
        (["transactions", "abort", "a:0"], "Missing option '--start-offset'"),
        (["transactions", "abort", "a:0", "--start-offset", "-1"], "-1 is not in the range"),
        (
            ["transactions", "abort", "a", "--start-offset", "0", "-y"],
            "'a' does not name one partition",
        ),
        (
            ["transactions", "abort", "a:x", "--start-offset", "0", "-y"],
            "is not TOPIC or TOPIC:0,2-4",
        ),
        (["configs", "set", "retention.ms", "--topic", "a"], "'retention.ms' is not KEY=VALUE"),
        (["configs", "set", "=1", "--topic", "a"], "'=1' is not KEY=VALUE"),
        (["configs", "set", "retention.ms=1"], "name what: --topic NAME"),
        (["configs", "describe"], "name what: --topic NAME"),
        (["configs", "unset", "retention.ms=1", "--topic", "a"], "is more than a key"),
        (
            ["topics", "describe", "--configs", "--unavailable"],
            "--configs and --unavailable exclude each other",
        ),
        (["cluster", "features", "--set", "a=b"], "the level of a is 'b', not a number"),
        (
            ["cluster", "features", "--set", "a=32768"],
            "the level of a is '32768', not a number up to 32767",
        ),
        (
            ["topics", "create", "a", "-p", f"{2**31}"],
            "2147483648 is too large: at most 2147483647 is possible",
        ),
        (
            ["topics", "create", "a", "-r", f"{2**15}"],
            "32768 is too large: at most 32767 is possible",
        ),
        (["records", "delete", "a", "-p", "0", "--before", f"{2**63}"], f"{2**63} is too large"),
        (["transactions", "list", "--producer-id", f"{2**63}"], f"{2**63} is too large"),
        (["transactions", "list", "--longer-than", "200000000000d"], "is too large"),
        (
            ["groups", "reset", "g", "--all-topics", "--to-time", f"{2**63}"],
            f"{2**63} is too large",
        ),
        (["cluster", "reassign", "--to", "1"], "say what to move"),
        (["cluster", "reassign", "a", "--to", "1;2"], "not a list of node ids"),
        (
            ["cluster", "reassign", "a", "--to", "1", "--cancel"],
            "--to and --cancel exclude each other",
        ),
        (
            ["offsets", "a", "--at", "yesterday"],
            "'yesterday' is none of earliest, latest, max-timestamp",
        ),
        (["records", "delete", "a"], "say which: NAME, --partition and --before"),
        (["produce", "a", "-H", "trace"], "'trace' is not NAME=VALUE"),
        (["produce", "a", "--json", "-k", ":"], "--json and --key-separator exclude each other"),
        (["produce", "a", "--json", "--key", "k"], "--json and --key exclude each other"),
        (
            ["produce", "a", "--whole-files", "-k", ":"],
            "--key-separator and --whole-files exclude each other",
        ),
        (["produce", "a", "-f", "/there/is/nothing"], "No such file"),
        (["produce", "a", "--acks", "2"], "'2' is not one of"),
        (["consume", "a", "-B", "-o", "3"], "--from-beginning and --offset exclude each other"),
        (["consume", "a", "--json", "-f", "{value}"], "--json and --format exclude each other"),
        (["consume", "a", "-g", "g", "-p", "0"], "--group and --partition exclude each other"),
        (["consume", "a", "-g", "g", "-o", "0"], "--group and --offset exclude each other"),
        (
            ["consume", "a", "-q", "q", "--skip-corrupt"],
            "--queue and --skip-corrupt exclude each other",
        ),
        (["consume", "a", "-f", "{colour}"], "there is no {colour}"),
        (["consume", "a", "-n", "0"], "0 is not in the range"),
        (["consume", "a", "--timeout", "0"], "0"),
        (["consume", "a", "--from-time", "yesterday"], "neither ISO 8601"),
        (["tokens", "create"], "say where its secret goes: --to FILE, or --show"),
        (
            ["tokens", "create", "--to", "/there/is/nothing"],
            "no file can be written in /there/is; no token was created",
        ),
        (["log", "dump", "/there/is/nothing"], "does not exist"),
        (["serve", "/there/is/nothing"], "does not exist"),
    ],
)
def test_wrong_usage_is_told_before_anybody_is_asked(arguments: list[str], said: str) -> None:
    result = invoke(*arguments)
    assert said in result.output
    assert result.exit_code == 2


def test_a_misspelt_property_of_up_is_told_where_it_was_typed(tmp_path: Path) -> None:
    typed = ("--broker", "num.partitons=5", "--broker", "listener.name.plaintext.max.connections=9")
    result = invoke(
        "up", "--data", str(tmp_path), *typed, "--broker", "default.replication.factor=9"
    )
    assert (
        "warning: --broker: these keys are not known and have no effect: num.partitons (did you mean num.partitions?)\n"
        in result.output
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "create", "a"],
        ["topics", "delete", "a", "-y"],
        ["groups", "list"],
        ["transactions", "list"],
        ["transactions", "abort", "a:0", "--start-offset", "0", "-y"],
        ["configs", "list"],
        ["offsets"],
        ["records", "delete", "a", "-p", "0", "--before", "1", "-y"],
        ["produce", "a"],
        ["consume", "a"],
    ],
)
def test_a_missing_broker_is_told_at_once(arguments: list[str]) -> None:
    result = invoke(*arguments, "-b", NOBODY)
    assert "no broker at 127.0.0.1:1 (Connection refused)" in result.output
    assert "tidelog serve FILE" in result.output
    assert result.exit_code == 1


@contextmanager
def server(response: bytes | None) -> Iterator[tuple[str, int]]:
    """A server that responds to the first bytes of every connection.

    With None it is silent until the other side goes.
    """

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1_000)
                    connection.sendall(response) if response is not None else connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_one_server_that_responds_is_enough() -> None:
    with server(bytes(4) + GREETING[8:12] + b"and more") as address:
        check_reachable([("127.0.0.1", 1), address])


@pytest.mark.parametrize("response", [b"HTTP/1.1 400 Bad Request\r\n", b""], ids=["http", "closes"])
def test_a_server_of_something_else_is_told(response: bytes) -> None:
    with server(response) as (host, port):
        result = invoke("topics", "list", "-b", f"{host}:{port}")
    assert result.exit_code == 1
    assert f"{host}:{port} accepts connections and does not speak Kafka's protocol" in result.output


def test_a_server_that_says_nothing_is_not_said_to_be_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("log_service.cli.connection.RESPONSE_SECONDS", 0.2)
    with server(None) as (host, port):
        result = invoke("topics", "list", "-b", f"{host}:{port}")
    assert result.exit_code == 1
    assert (
        f"no broker at {host}:{port} (it accepts connections and has not responded for 0.2 s): a broker that hangs is stopped"
        in result.output
    )
    assert "start one" not in result.output


def test_a_silent_server_does_not_hide_one_that_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("log_service.cli.connection.RESPONSE_SECONDS", 0.2)
    with server(None) as silent, server(bytes(4) + GREETING[8:12]) as address:
        check_reachable([silent, address])


def test_a_silent_server_costs_a_moment_where_another_one_responds() -> None:
    with server(None) as silent, server(bytes(4) + GREETING[8:12]) as address:
        began = time.monotonic()
        check_reachable([silent, address])
        assert time.monotonic() - began < RESPONSE_SECONDS / 2


# Whom a command asks that is not told


def asked_by(monkeypatch: pytest.MonkeyPatch, directory: Path, *options: str) -> str:
    monkeypatch.chdir(directory)
    for name in ("TIDELOG_BOOTSTRAP_SERVERS", "TIDELOG_DATA"):
        monkeypatch.delenv(name, raising=False)
    asked: list[str] = []

    def note(servers: str) -> None:
        asked.append(servers)
        raise click.ClickException("nobody")

    monkeypatch.setattr("log_service.cli.topics.open_admin", note)
    result = invoke("topics", "list", *options)
    assert result.exit_code == 1, result.output
    return asked[0]


def nodes_in(directory: Path, count: int, *overrides: str) -> None:
    context = ServiceContext(
        data_directory=directory,
        project_directory=directory,
        host="127.0.0.1",
        bootstrap_servers="",
        ui_port=0,
        spark_port=0,
    )
    cluster = new_cluster(count, "c")
    NodeFactory(context=context, first_port=27092, overrides=overrides).components(cluster)
    write_cluster(directory, cluster)


def test_all_nodes_of_the_cluster_here_are_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes_in(tmp_path / ".tidelog", 3)
    assert asked_by(monkeypatch, tmp_path) == "127.0.0.1:27092,127.0.0.1:27093,127.0.0.1:27094"
    (tmp_path / ".tidelog" / "broker2" / "server.properties").unlink()
    assert asked_by(monkeypatch, tmp_path) == "127.0.0.1:27092,127.0.0.1:27094"


def test_listeners_of_the_persons_own_are_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes_in(tmp_path / ".tidelog", 1, "listeners=CONTROLLER://127.0.0.1:1,PLAINTEXT://10.0.0.1:9")
    assert asked_by(monkeypatch, tmp_path) == "10.0.0.1:9"


def test_the_one_broker_here_is_asked_at_the_port_that_it_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = tmp_path / ".tidelog"
    broker_component(
        ServiceContext(
            data_directory=directory,
            project_directory=tmp_path,
            host="127.0.0.1",
            bootstrap_servers="127.0.0.1:19392",
            ui_port=0,
            spark_port=0,
        )
    )
    assert asked_by(monkeypatch, tmp_path) == "127.0.0.1:19392"


def test_servers_of_the_settings_file_are_asked_where_no_others_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes_in(tmp_path / ".tidelog", 3)
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=10.0.0.1:9,10.0.0.2:9\n")
    assert asked_by(monkeypatch, tmp_path, "--command-config", str(file)) == "10.0.0.1:9,10.0.0.2:9"
    assert (
        asked_by(monkeypatch, tmp_path, "-b", "10.0.0.3:9", "--command-config", str(file))
        == "10.0.0.3:9"
    )
    monkeypatch.setenv("TIDELOG_CLIENT_CONFIG", str(file))
    assert asked_by(monkeypatch, tmp_path) == "10.0.0.1:9,10.0.0.2:9"
    file.write_text("security.protocol=PLAINTEXT\n")
    assert asked_by(monkeypatch, tmp_path) == "127.0.0.1:27092,127.0.0.1:27093,127.0.0.1:27094"


@pytest.mark.parametrize(
    "content", [None, b"\xff", b"bootstrap.servers=10.0.0.1\n"], ids=["none", "no text", "no port"]
)
def test_a_settings_file_that_is_none_is_told(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    assert exit_code_of("topics", "list", "--command-config", str(file)) in {1, 2}
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert str(file) in said or "10.0.0.1" in said


def test_without_a_cluster_here_the_usual_port_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert asked_by(monkeypatch, tmp_path) == "127.0.0.1:9092"
    write_cluster(tmp_path / ".tidelog", new_cluster(3, "c"))
    assert asked_by(monkeypatch, tmp_path) == "127.0.0.1:9092", "no node was ever started"


def exit_code_of(*arguments: str) -> object:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    return caught.value.code


def test_the_exit_code_of_a_command_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of("--version") == 0
    assert exit_code_of("nonsense") == 2
    assert exit_code_of("status", "--data", "/there/is/nothing") == 1
    assert exit_code_of("topics", "list", "-b", NOBODY) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    ("error", "exit_code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.Abort(), 130, "interrupted\n"),
        (PermissionError(13, "Permission denied", "/data"), 1, "Error: /data: Permission denied\n"),
    ],
)
def test_every_error_becomes_a_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    exit_code: int,
    said: str,
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise error

    monkeypatch.setattr(tidelog, "main", fail)
    assert exit_code_of() == exit_code
    assert capsys.readouterr().err == said


def test_help_and_serve_bring_no_room_of_a_client() -> None:
    """Every command imports the group first, and half of what that took was the settings of
    clients.
    """
    program = "import log_service.cli.main, log_service.cli.serve, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert {name.split(".")[1] for name in loaded if name.startswith("log_service.")} == {
        "cli",
        "common",
    }
    assert not {"dataclasses", "ssl", "trio"} & set(loaded)


def test_the_table_of_commands_is_what_there_is() -> None:
    context = click.Context(tidelog)
    assert all(tidelog.get_command(context, name) is not None for name in COMMANDS)


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        ([b"x"], "line 1 has no ':' between key and value; nothing was sent"),
        (
            [b"a:1", b"x"],
            "line 2 has no ':' between key and value; the line before it was sent, nothing after it",
        ),
        (
            [b"a:1", b"b:2", b"x"],
            "line 3 has no ':' between key and value; the 2 before it were sent, nothing after it",
        ),
    ],
)
def test_a_line_that_is_no_record_tells_what_was_sent(lines: list[bytes], sent: str) -> None:
    parse = parser(as_json=False, key_separator=":", is_empty_null=False)
    with pytest.raises(click.ClickException) as caught:
        list(records_of(lines, parse))
    assert caught.value.message == sent


def test_the_default_of_all_brokers_is_not_a_broker_without_a_name() -> None:
    assert str(ConfigResource.all_brokers()) == "the default of all brokers"
    assert str(ConfigResource.broker(1)) == "broker '1'"


def test_protocol_of_a_group_needs_a_group() -> None:
    result = invoke("consume", "orders", "--group-protocol", "consumer")
    assert (result.exit_code, "--group-protocol needs --group." in result.output) == (2, True)


@pytest.mark.parametrize(
    ("options", "environment", "named"),
    [
        (["--bootstrap-servers", "other:9092"], {}, "--bootstrap-servers names others"),
        ([], {"TIDELOG_BOOTSTRAP_SERVERS": "other:9092"}, "TIDELOG_BOOTSTRAP_SERVERS names others"),
    ],
)
def test_up_says_what_named_the_other_cluster(
    options: list[str], environment: dict[str, str], named: str, tmp_path: Path
) -> None:
    arguments = [
        "up",
        "--brokers",
        "3",
        "--data",
        str(tmp_path / "data"),
        "--project",
        str(tmp_path),
        *options,
    ]
    refused = CliRunner(env={"COLUMNS": "200", **environment}).invoke(tidelog, arguments)
    assert (refused.exit_code, named in " ".join(refused.stderr.split())) == (2, True), (
        refused.output
    )


def test_a_cluster_without_groups_is_said_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = SimpleNamespace(list_groups=returning([]))
    monkeypatch.setattr("log_service.cli.groups.open_admin", opening(admin))
    assert [
        invoke("groups", "describe", *options).stdout
        for options in ([], ["--members"], ["--state"])
    ] == ["there are no groups\n"] * 3
