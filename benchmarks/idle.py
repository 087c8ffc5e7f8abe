"""Measures the CPU of `tidelog up` while nothing happens, over two minutes.

The figures are the CPU of daemon and code server, and that of all other components. The project is
the one that `tidelog init` writes, with the settings as shipped. Its table and its mart exist and
have read everything. No run is in progress, and no browser has the UI open. Sensors and schedules
go on, and so do the supervisor's probes.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import psutil

from benchmarks.broker_process import BenchmarkError
from benchmarks.empty_run import newest_run
from benchmarks.installation import running_installation, wait_until_caught_up
from benchmarks.rounds import Bench, Sides, say
from benchmarks.table import OURS, PERCENT, Row, value_at_most
from log_service.client import BlockingProducer
from log_service.supervisor import state
from log_service.supervisor.spec import CODE
from orchestration.installation.instance import open_instance
from orchestration.installation.services import DAEMON
from orchestration.lake.tables import Lake
from orchestration.project.home import dagster_home
from orchestration.project.new import write_project

TOPIC, TABLE = "orders", "clean_orders"
ORDERS = 100
SETTLE_S = 150.0
"""How long the installation is quiet before the measurement begins.

The work that the start and the runs left is done by then. The mart is built in that time, and
Dagster's conditions are evaluated more often for a minute after that.
"""
IDLE_S = 120.0
DAEMON_AND_CODE_GOAL = 2.0


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU seconds, user and system, of processes and of their descendants.

    Descendants that have ended since count, too.
    """
    total_s = 0.0
    for top in processes:
        for one in (top, *top.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = one.cpu_times()
                total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


def components(directory: Path) -> dict[str, psutil.Process]:
    """Return the processes of an installation by the names of their components."""
    return {
        one.name: psutil.Process(one.pid) for one in state.read(directory) if one.pid is not None
    }


def measure(directory: Path, bench: Bench) -> list[Row]:
    """Measure two minutes in which nothing happens."""
    found = components(directory)
    before = {name: cpu_s([process]) for name, process in found.items()}
    began_s = time.monotonic()
    time.sleep(bench.count(IDLE_S, at_least=10))
    seconds = time.monotonic() - began_s
    shares = {
        name: 100 * (cpu_s([process]) - before[name]) / seconds for name, process in found.items()
    }
    if components(directory) != found:
        raise BenchmarkError("a component was started again meanwhile")
    both = Row(
        figure="nothing to do: CPU of daemon and code server",
        unit=PERCENT,
        rounds=(shares[DAEMON] + shares[CODE],),
        goal=value_at_most(DAEMON_AND_CODE_GOAL),
    )
    return [
        both,
        *(
            Row(figure=f"  nothing to do: {name}", unit=PERCENT, rounds=(share,))
            for name, share in shares.items()
        ),
    ]


def have_rows(address: str, directory: Path) -> None:
    """Send some orders, and wait until they are rows and no run is in progress."""
    with BlockingProducer(address) as producer:
        for number in range(ORDERS):
            producer.send(
                TOPIC, value=json.dumps({"id": number, "amount": 1.5, "country": "NZ"}).encode()
            )
    wait_until_caught_up(address, Lake(directory / "lake"), TOPIC, TABLE)
    time.sleep(SETTLE_S)
    with open_instance(dagster_home(directory)) as instance:
        newest_run(instance)


@contextlib.contextmanager
def idle(bench: Bench) -> Iterator[Sides]:
    """Start one installation for the one round."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as name:
        directory, project = Path(name) / "data", Path(name) / "shop"
        write_project(project)
        with running_installation(directory, project, TIDELOG_MINIMUM_INTERVAL_S="5") as address:
            say("waiting until nothing happens")
            have_rows(address, directory)
            yield Sides(measures={OURS: partial(measure, directory, bench)}, most_rounds=1)
