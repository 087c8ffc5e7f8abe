"""The daemon's sign of life ends where one of its loops stands still. What a process says that is
not told of an instance.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._daemon.daemon import DagsterDaemon

from orchestration.installation import instance
from orchestration.installation.daemon import heartbeat, process
from orchestration.installation.daemon.heartbeat import (
    STANDING_AFTER_S,
    Loops,
    heartbeat_file,
    start_heartbeat,
)
from orchestration.installation.daemon.process import watch_loops


class Counting:
    """A loop that steps when a test says so."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0

    def progress(self) -> int:
        return self.steps


def test_a_loop_stands_still_when_it_made_no_step_for_long() -> None:
    now_s = 0.0
    loops = Loops(lambda: now_s)
    sensors, schedules = Counting("sensors"), Counting("schedules")
    loops.add(sensors)
    loops.add(schedules)
    now_s = STANDING_AFTER_S
    assert loops.standing() == []
    schedules.steps += 1
    now_s += 1
    assert loops.standing() == ["sensors"]
    sensors.steps += 1
    assert loops.standing() == []


def test_a_loop_that_hangs_ends_the_sign_of_life_until_it_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_INTERVAL_S", 0.01)
    now_s = 0.0
    loops, loop, told, was_told = Loops(lambda: now_s), Counting("sensors"), [], threading.Event()
    loops.add(loop)

    def tell(text: str) -> None:
        told.append(text)
        was_told.set()

    def beats() -> bool:
        heartbeat_file(tmp_path).unlink(missing_ok=True)
        pause = threading.Event()
        return any(pause.wait(0.01) or heartbeat_file(tmp_path).exists() for _ in range(500))

    stop = start_heartbeat(tmp_path, loops, tell)
    try:
        assert beats()
        now_s = STANDING_AFTER_S + 1
        assert was_told.wait(30)
        heartbeat_file(tmp_path).unlink()
        pause = threading.Event()
        pause.wait(0.2)
        assert not heartbeat_file(tmp_path).exists()
        assert told == [
            "sensors made no step for 600 s: the daemon gives no sign of life until it does"
        ]
        loop.steps += 1
        assert beats()
    finally:
        stop()
    assert "heartbeat" not in {thread.name for thread in threading.enumerate()}


def test_every_loop_of_dagster_s_daemon_is_watched_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    loops, has_begun, is_over = Loops(lambda: now_s), threading.Event(), threading.Event()
    monkeypatch.setattr(DagsterDaemon, "run_daemon_loop", DagsterDaemon.run_daemon_loop)
    watch_loops(loops)

    class Standing(DagsterDaemon[Any]):
        @classmethod
        def daemon_type(cls) -> str:
            return "STANDING"

        def core_loop(self, _context: Any, shutdown_event: threading.Event) -> Any:
            has_begun.set()
            shutdown_event.wait()
            yield None

    with dg.DagsterInstance.ephemeral() as instance:
        context = type("Context", (), {"instance": instance})()
        thread = threading.Thread(
            target=Standing().run_daemon_loop,  # type: ignore[no-untyped-call]
            args=(context, "id", is_over, 30, 30),
        )
        thread.start()
        try:
            assert has_begun.wait(30)
            assert loops.standing() == [], "its first step was noted"
            now_s = STANDING_AFTER_S + 1
            assert loops.standing() == ["the loop of the STANDING daemon"]
        finally:
            is_over.set()
            thread.join()


@pytest.mark.parametrize("given", [["--help"], ["run", "--help"]])
def test_the_daemon_helps_without_an_instance(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    """It ended with a KeyError."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(sys, "argv", ["daemon", *given])
    with pytest.raises(SystemExit) as ended:
        process.main()
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("Usage: ")


PROCESSES = pytest.mark.parametrize(
    ("process", "given"), [(process, "run"), (instance, "prepare"), (instance, "cancel-runs")]
)


@PROCESSES
def test_a_process_without_an_instance_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, process: Any, given: str
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr(sys, "argv", ["process", given])
    with pytest.raises(
        SystemExit,
        match=r"python -m orchestration \w+: DAGSTER_HOME is not set: it names the folder of a Dagster instance",
    ):
        process.main()


@PROCESSES
def test_an_instance_is_named_by_its_whole_path(
    monkeypatch: pytest.MonkeyPatch, process: Any, given: str
) -> None:
    """The sentence about the variable gave a path as an example that Dagster refuses, with a
    traceback.
    """
    monkeypatch.setenv("DAGSTER_HOME", ".tidelog/dagster")
    monkeypatch.setattr(sys, "argv", ["process", given])
    with pytest.raises(
        SystemExit,
        match=r"DAGSTER_HOME is '.tidelog/dagster', which is not a whole path: .* /srv/shop/.tidelog/dagster",
    ):
        process.main()
