"""Measures CPU seconds of tests and of their processes, for ``make test-all CPU=1``.

It prints the modules and the most expensive tests. Wall time says little where four workers share
two cores. A worker adds up its own CPU time, that of its children that have ended, and at the end
of each module that of its descendants that still run (a node that later tests use, a JVM). It sends
each part with the report of a setup, call or teardown. A descendant that outlives its parent is
lost when it ends, so that the table is a lower bound. The Spark server that all workers share is
charged to the modules of the worker that started it. Running descendants are found on Linux only.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SPENT = "cpu_seconds"
OUTSIDE = "(imports, collection and end of the workers)"
SHOWN_TESTS = 80


class CpuAccount:
    """Books CPU seconds of tests: workers measure them, and their leader adds them up."""

    def __init__(self) -> None:
        self.of_tests: defaultdict[str, float] = defaultdict(float)
        self._outside_s = 0.0
        self._running_s = 0.0
        self._booked_s = 0.0
        self._ends_module = False

    # Where tests run

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Book the time of imports and collection."""
        self._outside_s += self._spend()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Note whether a module ends."""
        self._ends_module = nextitem is None or _module(nextitem.nodeid) != _module(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        """Write the seconds since the last report on the report."""
        report = yield
        if call.when == "teardown" and self._ends_module:
            self._running_s = _running_below(os.getpid())
        report.user_properties = [(SPENT, self._spend())]
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over the seconds that no test has spent."""
        self._running_s = _running_below(os.getpid())
        self._outside_s += self._spend()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[SPENT] = self._outside_s

    def _spend(self) -> float:
        """Return the seconds since the last call.

        They are negative where a child has ended that was counted while it ran.
        """
        own = os.times()
        spent = own.user + own.system + own.children_user + own.children_system + self._running_s
        since, self._booked_s = spent - self._booked_s, spent
        return since

    # Where reports come together

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds of a report."""
        self.of_tests[report.nodeid] += sum(
            float(str(seconds)) for name, seconds in report.user_properties if name == SPENT
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the seconds outside of tests of a worker that has ended."""
        self.of_tests[OUTSIDE] += getattr(node, "workeroutput", {}).get(SPENT, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print both tables, the most expensive rows first.

        The leader's own time is that of collecting tests and handing them out.
        """
        is_leader = OUTSIDE in self.of_tests
        self.of_tests[OUTSIDE] += sum(os.times()[:2]) if is_leader else self._outside_s
        of_modules: defaultdict[str, float] = defaultdict(float)
        for name, seconds in self.of_tests.items():
            of_modules[_module(name)] += seconds
        terminalreporter.section(f"CPU seconds with children: {sum(of_modules.values()):.0f}")
        for name, seconds in [*_dearest(of_modules), *_dearest(self.of_tests)[:SHOWN_TESTS]]:
            terminalreporter.write_line(f"{seconds:9.2f}  {name}")


def _dearest(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=itemgetter(1), reverse=True)


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _running_below(pid: int) -> float:
    """Add up utime, stime, cutime and cstime of proc(5) of all processes below a process."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            child = int(folder.name)
            children.setdefault(int(fields[1]), []).append(child)
            ticks[child] = sum(map(int, fields[11:15]))
    below = list(children.get(pid, []))
    for child in below:
        below += children.get(child, [])
    return sum(ticks[child] for child in below) / TICKS_PER_S
