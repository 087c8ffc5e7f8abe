"""``tidelog status`` prints components, their owner, their process and their problems.

Its exit code tells scripts the same.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from log_service.cli.main import tidelog
from log_service.common.errors import ConfigError
from log_service.supervisor import state
from log_service.supervisor.state import ComponentState
from tests.helpers.ports import free_port


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    with state.held_lock(tmp_path):
        yield tmp_path


def component(name: str, **more: Any) -> ComponentState:
    usual = {
        "state": "ready",
        "address": f"{name}:1",
        "pid": 7,
        "guard_pid": 6,
        "restart_count": 0,
        "log_path": f"/logs/{name}.log",
    }
    return ComponentState(**{"name": name, **usual, **more})


def told(data: Path, *components: ComponentState, options: tuple[str, ...] = ()) -> Result:
    state.write(data, {one.name: one for one in components})
    return CliRunner().invoke(tidelog, ["status", "--data", str(data), *options])


def rows(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines() if line]


def test_each_component_is_told_with_its_owner_and_its_own_process(data: Path) -> None:
    own = component("broker", restart_count=2, metrics_url="http://127.0.0.1:9404/metrics")
    yours = component("spark", pid=None, guard_pid=None, external_setting="TIDELOG_SPARK_REMOTE")
    result = told(data, own, yours)
    assert result.exit_code == 0
    assert rows(result) == [
        ["NAME", "STATE", "ADDRESS", "OWNER", "PID", "RESTARTS"],
        ["broker", "ready", "broker:1", "tidelog", "7", "2"],
        ["spark", "ready", "spark:1", "yours", "(TIDELOG_SPARK_REMOTE)", "-", "0"],
        ["metrics", "http://127.0.0.1:9404/metrics"],
        ["logs", "/logs"],
    ]
    (broker, spark) = json.loads(told(data, own, yours, options=("--json",)).stdout)
    assert (broker["pid"], broker["guard_pid"], broker["owner"]) == (7, 6, "tidelog")
    assert (spark["pid"], spark["owner"]) == (None, "yours (TIDELOG_SPARK_REMOTE)")


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"state": "not responding"}, "not responding"),
        ({"complaint": "no topic returns"}, "at fault"),
    ],
)
def test_what_is_wrong_is_told_and_is_the_exit_code(
    data: Path, changes: dict[str, str], shown: str
) -> None:
    result = told(data, component("broker"), component("code", **changes))
    assert result.exit_code == 1
    assert shown in next(line for line in result.stdout.splitlines() if line.startswith("code "))
    assert ("code: no topic returns" in result.stdout) == ("complaint" in changes)


def test_each_thing_that_is_wrong_has_a_line(data: Path) -> None:
    """All of them stood in one line."""
    result = told(
        data,
        component(
            "code",
            complaint="lake/a failed in its last run: why; tried again now\nlake/b failed in its last run",
        ),
    )
    assert (
        "\n\ncode: lake/a failed in its last run: why; tried again now\ncode: lake/b failed in its last run\n\n"
        in result.stdout
    )


def test_it_is_told_what_waits_for_what_and_why_a_start_failed(data: Path) -> None:
    spark = component("spark", state="restarting", failure="was not ready after 120 s")
    result = told(
        data,
        component("broker"),
        spark,
        component("code", state="waiting", waits_for=("spark", "topics")),
    )
    assert result.exit_code == 1
    assert "waiting for spark, topics" in next(
        line for line in result.stdout.splitlines() if line.startswith("code ")
    )
    assert "spark: was not ready after 120 s" in result.stdout


def test_what_a_supervisor_left_that_was_killed_runs_no_more(tmp_path: Path) -> None:
    result = told(tmp_path, component("broker"))
    assert result.exit_code == 1
    assert f"nothing runs on {tmp_path}" in result.stdout + result.stderr


@pytest.mark.parametrize("was_there_before", [False, True])
def test_what_is_being_prepared_is_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_there_before: bool
) -> None:
    """The first start of a cluster with certificates takes seconds before the first component runs."""
    outcomes: list[Result] = []

    def ask_meanwhile(*_: Any, **__: Any) -> None:
        commands = (["status"], ["cluster", "stop", "2"], ["up", "--only-broker"])
        outcomes.extend(
            CliRunner().invoke(tidelog, [*command, "--data", str(tmp_path)]) for command in commands
        )
        raise ConfigError("that is all")

    if was_there_before:
        state.write(tmp_path, {"broker": component("broker")})
    monkeypatch.setattr("log_service.cli.up.broker_components", ask_meanwhile)
    ports = ["--broker-port", str(free_port()), "--metrics-port", "0"]
    up = CliRunner().invoke(tidelog, ["up", "--only-broker", *ports, "--data", str(tmp_path)])
    assert "that is all" in str(up.exception)
    told, stopped, second = outcomes
    assert (told.exit_code, told.stdout) == (1, f"tidelog is starting on {tmp_path}\n")
    assert (
        f"tidelog is starting on {tmp_path}: ask again when everything is ready" in stopped.output
    )
    assert f"tidelog already runs on {tmp_path}" in str(second.exception)
    assert not state.is_locked(tmp_path)
