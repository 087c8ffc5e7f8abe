"""A project's ``.env`` holds for every command in its folder.

A refused start leaves nothing behind.
"""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from log_service.cli.main import tidelog
from log_service.cli.up import PORT_SETTINGS
from tests.helpers.ports import free_port

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TIDELOG_BOOTSTRAP_SERVERS", "TIDELOG_DATA", *PORT_SETTINGS):
        monkeypatch.setenv(name, "")  # so that what the command sets is taken back
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [("topics", "list"), ("groups", "list"), ("produce", "orders"), ("consume", "orders")],
)
def test_every_command_asks_the_cluster_that_the_project_names(
    project: Path, command: tuple[str, ...]
) -> None:
    (project / ".env").write_text(f"TIDELOG_BOOTSTRAP_SERVERS={NOWHERE}\n")
    result = CliRunner().invoke(tidelog, command)
    assert result.exit_code == 1
    assert f"no broker at {NOWHERE}" in result.output


def test_what_is_set_already_goes_first(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".env").write_text("TIDELOG_BOOTSTRAP_SERVERS=127.0.0.1:2\n")
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", NOWHERE)
    assert f"no broker at {NOWHERE}" in CliRunner().invoke(tidelog, ["topics", "list"]).output


def test_the_cluster_may_be_named_before_the_command_as_well(project: Path) -> None:
    assert (
        f"no broker at {NOWHERE}"
        in CliRunner().invoke(tidelog, ["-b", NOWHERE, "topics", "list"]).output
    )


def test_the_reset_of_a_group_that_mirrors_a_table_says_what_to_do_instead(project: Path) -> None:
    reset = ["groups", "reset", "tidelog.clean_orders", "--all-topics", "--to-earliest"]
    said = CliRunner().invoke(tidelog, ["-b", NOWHERE, *reset]).output
    assert "mirrors how far clean_orders of a tidelog project has got" in said
    assert "tidelog replay clean_orders --from TIME" in said
    assert "Joins and aggregates take --everything alone, and archives have no replay" in said


def test_up_and_status_mean_the_same_data(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".env").write_text("TIDELOG_DATA=elsewhere\n")
    assert "nothing runs on elsewhere" in CliRunner().invoke(tidelog, ["status"]).output
    monkeypatch.delenv("TIDELOG_DATA")
    (project / "elsewhere").write_text("a file is in the way")
    refused = CliRunner().invoke(tidelog, ["up", "--project", str(project)])
    assert "Directory 'elsewhere' is a file" in refused.output


def test_a_start_that_is_refused_leaves_no_data_directory(project: Path) -> None:
    ports = ["--spark-port", str(free_port()), "--metrics-port", "0"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = CliRunner().invoke(
            tidelog, ["up", "--broker-port", port, "--ui-port", port, *ports]
        )
    assert "--broker-port" in str(refused.exception)
    assert "--ui-port" in str(refused.exception)
    free = ["--broker-port", str(free_port()), "--ui-port", str(free_port())]
    assert "is not a project" in str(CliRunner().invoke(tidelog, ["up", *free, *ports]).exception)
    assert list(project.iterdir()) == []


def test_ports_may_stand_in_the_settings_of_the_project_and_an_option_goes_first(
    project: Path,
) -> None:
    free = str(free_port())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        written = {"BROKER": port, "UI": port, "SPARK": free, "METRICS": "0"}
        (project / ".env").write_text(
            "".join(f"TIDELOG_{name}_PORT={value}\n" for name, value in written.items())
        )
        refused = CliRunner().invoke(
            tidelog, ["up", "--project", str(project), "--ui-port", str(free_port())]
        )
    assert "--broker-port" in str(refused.exception)
    assert "--ui-port" not in str(refused.exception)


def test_a_port_in_the_settings_that_is_none_is_refused_by_its_name(project: Path) -> None:
    (project / ".env").write_text("TIDELOG_UI_PORT=many\n")
    refused = CliRunner().invoke(tidelog, ["up"])
    assert refused.exit_code == 2
    assert "TIDELOG_UI_PORT" in refused.output
    assert "'many' is not a valid whole number" in refused.output


@pytest.mark.parametrize("option", ["--broker-port", "--ui-port", "--spark-port"])
@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_port_that_is_none_is_refused_before_anything_starts(
    project: Path, option: str, port: str
) -> None:
    refused = CliRunner().invoke(tidelog, ["up", option, port])
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}'" in refused.output
    assert f"{port} is not in the range 1<=x<=65535" in refused.output
    assert list(project.iterdir()) == []


def test_a_data_directory_that_was_there_stays(project: Path) -> None:
    (project / ".tidelog").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        CliRunner().invoke(tidelog, ["up", "--broker-port", str(taken.getsockname()[1])])
    assert (project / ".tidelog").is_dir()
