"""A real installation runs ``tidelog up`` in a process of its own on free ports.

A test finds and kills its processes as it wishes.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import psutil

from log_service.supervisor import state
from orchestration.installation.instance import open_instance
from orchestration.installation.services import free_port
from orchestration.project.home import UNFINISHED, dagster_home
from tests.helpers.java_archives import quicken_spark

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0
FORK_SERVER = "multiprocessing.forkserver"


class Installation:
    """One ``tidelog up``; ``start`` and ``stop`` may alternate on the same data."""

    def __init__(self, data: Path, project: Path, *arguments: str, **settings: str) -> None:
        self.data = data
        self.arguments = arguments
        self.settings = settings
        self.project = project
        self.broker_port, self.ui_port, self.spark_port = free_port(), free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: dict[int, psutil.Process] = {}

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.broker_port}"

    @property
    def output(self) -> str:
        return (
            (self.data.parent / "up.out").read_text()
            if (self.data.parent / "up.out").exists()
            else ""
        )

    def start(self) -> None:
        """Start and wait until everything is ready."""
        command = [
            sys.executable,
            "-m",
            "log_service.cli.main",
            "up",
            "--data",
            str(self.data),
            "--project",
            str(self.project),
        ]
        ports = [
            "--broker-port",
            self.broker_port,
            "--ui-port",
            self.ui_port,
            "--spark-port",
            self.spark_port,
            "--metrics-port",
            0,
            "--registry-port",
            0,
            "--console-port",
            0,
        ]
        already = self.output.count("everything is ready")
        with (self.data.parent / "up.out").open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *map(str, ports), *self.arguments],
                cwd=ROOT,
                env=environment(**self.settings),
                stdout=output,
                stderr=output,
            )
        wait_until(
            lambda: self.output.count("everything is ready") > already or self._has_ended(),
            START_TIMEOUT_S,
            self.explain,
        )
        assert not self._has_ended(), self.explain()

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Stop as Ctrl-C does; returns the exit code after making sure that nothing is left."""
        assert self._process is not None
        self._remember()
        self._process.send_signal(number)
        code = self._process.wait(STOP_TIMEOUT_S)
        wait_until(lambda: not self.left_behind(), 10, lambda: f"left behind: {self.left_behind()}")
        return code

    def left_behind(self) -> list[str]:
        """Return the processes that were there before the stop and still are."""
        alive = []
        for found in self._seen.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                if found.is_running() and found.status() != psutil.STATUS_ZOMBIE:
                    alive.append(" ".join(found.cmdline()))
        return alive

    def component(self, name: str) -> psutil.Process | None:
        """Return a component's own process."""
        for one in state.read(self.data):
            if one.name == name and one.pid is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    return psutil.Process(one.pid)
        return None

    def run_processes(self) -> list[psutil.Process]:
        """Return the processes of runs: what the code server's fork server forked."""
        code = self.component("code")
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in code.children() if code else []:
                if FORK_SERVER in " ".join(child.cmdline()):
                    found += child.children()
        return found

    def kill(self, target: str) -> bool:
        """Kill -9 a component, or with ``run`` the process of a run; False if there is none."""
        chosen = self.run_processes()[:1] if target == "run" else [self.component(target)]
        for one in chosen:
            if one is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
                    return True
        return False

    @contextlib.contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        with open_instance(dagster_home(self.data)) as instance:
            yield instance

    def is_idle(self, instance: dg.DagsterInstance) -> bool:
        """Whether no run is unfinished."""
        return not instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)), limit=1)

    def is_ready(self) -> bool:
        return all(one.state == "ready" for one in state.read(self.data))

    def explain(self) -> str:
        """Return the ends of all logs and what became of each run, for a failure."""
        logs = {
            path.name: path.read_text(errors="replace")[-3000:]
            for path in sorted((self.data / "logs").glob("*.log"))
        }
        return "\n".join(
            [
                self.output,
                *(f"--- {name}\n{text}" for name, text in logs.items()),
                "--- runs",
                *self._runs(),
            ]
        )

    def _runs(self) -> list[str]:
        if not dagster_home(self.data).exists():
            return []
        with self.instance() as instance:
            records = list(instance.get_run_records(limit=50))
        return [
            f"{record.create_timestamp:%H:%M:%S} {told(record.dagster_run)}" for record in records
        ]

    def _has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _remember(self) -> None:
        assert self._process is not None
        self._seen = {
            one.pid: one for one in psutil.Process(self._process.pid).children(recursive=True)
        }


def told(run: dg.DagsterRun) -> str:
    """Return what became of a run, on one line."""
    assets = [key.to_user_string() for key in run.asset_selection or ()]
    return f"{run.run_id} {run.status.value} {run.job_name} {assets} {run.tags}"


def environment(**changes: str) -> dict[str, str]:
    """Return an environment in which nothing leads to settings of tidelog, Dagster or Java.

    Spark starts quickly.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TIDELOG_", "DAGSTER_", "JAVA_", "SPARK_"))
    }
    quicken_spark(kept)
    return {**kept, "TIDELOG_SPARK_DRIVER_MEMORY": "1g", **changes}


def path_without_java(folder: Path) -> str:
    """Return a PATH on which everything is found that is found now, except Java: links in
    ``folder``.
    """
    folder.mkdir()
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        for program in sorted(Path(entry).iterdir()) if entry and Path(entry).is_dir() else []:
            link = folder / program.name
            if not program.name.startswith("java") and not os.path.lexists(link):
                link.symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)


@contextlib.contextmanager
def running(data: Path, project: Path, *arguments: str, **settings: str) -> Iterator[Installation]:
    """Yield a started installation with these arguments and environment variables, stopped
    afterwards.
    """
    installation = Installation(data, project, *arguments, **settings)
    try:
        installation.start()
        yield installation
    finally:
        if installation._process is not None and installation._process.poll() is None:
            installation.stop()


def wait_until(
    condition: Callable[[], bool], timeout_s: float, explain: Callable[[], str], poll_s: float = 0.2
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, explain()
        time.sleep(poll_s)
