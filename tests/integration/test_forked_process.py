"""Nodes of tests run in forked processes.

They end as told, write their output into their log, and do not outlive their test run.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.helpers.broker_process import ROOT
from tests.helpers.forked_process import start_forked

PARENT = """
import signal, sys, time
from pathlib import Path
from tests.helpers.forked_process import start_forked
print(start_forked([signal.SIGUSR1], log=Path(sys.argv[1]), target=signal.sigwait).pid, flush=True)
time.sleep(600)
"""
"""Starts a process that waits for a signal, and waits itself."""


def say(words: list[str]) -> int:
    print(*words)  # noqa: T201 - a log is to have it
    return len(words)


def fail(_words: list[str]) -> None:
    raise ValueError("no such node")


def tell_environment(_words: list[str]) -> None:
    print(os.environ["TIDELOG_OF_A_TEST"])  # noqa: T201


def sleep(_words: list[str]) -> None:
    time.sleep(600)


def test_what_a_target_returns_is_the_exit_code_and_what_it_says_is_behind_the_log(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    process = start_forked(["a", "b", "c"], log=log, target=say)
    assert (process.wait(60), process.poll(), log.read_text()) == (3, 3, "before\na b c\n")
    assert start_forked([], log=log, target=fail).wait(60) == 1
    assert log.read_text().splitlines()[-1] == "ValueError: no such node"


def test_a_process_has_the_variables_of_the_moment_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("one", "two"):
        monkeypatch.setenv("TIDELOG_OF_A_TEST", value)
        assert start_forked([], log=tmp_path / "log", target=tell_environment).wait(60) == 0
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_process_is_waited_for_and_killed(tmp_path: Path) -> None:
    process = start_forked([], log=tmp_path / "log", target=sleep)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)
    assert process.poll() is None
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    process.kill()


def test_a_process_ends_with_the_test_run_that_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        forked = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    forked.wait(60)
