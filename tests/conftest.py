"""Settings and hooks of every test.

No example of Hypothesis is slow by a clock, because the machine may be busy.
"""

import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers import collector, failure_log
from tests.helpers.cpu_account import CpuAccount
from tests.helpers.java_archives import quicken_spark
from tests.helpers.long_first import long_first
from tests.helpers.one_case import one_case
from tests.helpers.slow_tests import is_needed, slow_of
from tests.helpers.whole import IS_WHOLE

if "CI" not in os.environ:  # Hypothesis has a profile of its own for that
    settings.register_profile(
        "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("any machine")

PRODUCT = "log_service"
SPARK = "spark"
"""The fixture that starts a JVM in the process of the tests."""
WORKER, WORKER_COUNT = "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--cpu`` prints what the tests cost; ``--one-case`` leaves one case of each."""
    parser.addoption(
        "--cpu",
        action="store_true",
        help="print the CPU seconds of each module, with the processes that it starts",
    )
    parser.addoption(
        "--one-case", action="store_true", help="run one case of each test that has parameters"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let Spark start quickly, and the children of tests be interrupted.

    A shell's background job, which ignores Ctrl-C, may run them.
    """
    quicken_spark()
    # The disk under the tests is none of their business.
    os.environ.setdefault("TIDELOG_DISK_FULL_PERCENT", "100")
    if WORKER in os.environ or not config.getoption("numprocesses", None):
        gc.disable()  # while tests are collected, which leaves no garbage: looking for some costs as much again
    config.pluginmanager.register(SlowMarks())
    if failures := os.environ.get(failure_log.VARIABLE):
        config.pluginmanager.register(failure_log.FailureLog(Path(failures)))
    if config.getoption("cpu"):
        config.pluginmanager.register(CpuAccount())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module that has no test for ``-m slow`` or ``-m "not slow"``."""
    if collection_path.suffix != ".py":
        return None
    module = str(collection_path.relative_to(config.rootpath))
    return None if is_needed(module, config.getoption("markexpr")) else True


class SlowMarks:
    """Marks slow tests, before pytest selects tests by their marks."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark the tests of the table of slow ones."""
        slow = slow_of(item.nodeid for item in items)
        for item in items:
            if item.nodeid in slow:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Collect garbage again, but not among the tests themselves."""
    collector.set_aside()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select and order the tests of a run.

    Tests that only repeat others belong to a long run. Workers begin with the modules that take
    long, and one worker has all modules of Spark.
    """
    kept = {item.nodeid for item in items if IS_WHOLE or item.get_closest_marker("repeats") is None}
    if config.getoption("one_case"):
        kept = one_case(item.nodeid for item in items if item.nodeid in kept)
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]
    workers = int(os.environ.get(WORKER_COUNT, "1"))
    if workers == 1:
        return
    default_s = float(config.getini("timeout"))
    modules: dict[str, list[pytest.Item]] = {}
    deadlines_s: dict[str, float] = {}
    of_spark: set[str] = set()
    for item in items:
        module = item.nodeid.partition("::")[0]
        modules.setdefault(module, []).append(item)
        mark = item.get_closest_marker("timeout")
        if mark is not None and mark.args and mark.args[0] > default_s:
            deadlines_s[module] = max(float(mark.args[0]), deadlines_s.get(module, 0))
        if SPARK in getattr(item, "fixturenames", ()):
            of_spark.add(module)
    items[:] = long_first(modules, deadlines_s, workers, of_spark)


@pytest.fixture(autouse=True)
def _own_loggers() -> Iterator[None]:
    """Give the levels of loggers back, so that no test mutes another.

    They are of the whole process, and commands and brokers set them.
    """
    before = {logger: (logger.level, logger.propagate, logger.disabled) for logger in _loggers()}
    yield
    for logger in _loggers():
        logger.level, logger.propagate, logger.disabled = before.get(
            logger, (logging.NOTSET, True, False)
        )
    logging.getLogger(PRODUCT).manager._clear_cache()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """Give the signals back.

    Dagster lets SIGTERM do what SIGINT does, which a shell's background job ignores: children of
    later tests would never end.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _loggers() -> list[logging.Logger]:
    known = logging.getLogger().manager.loggerDict.items()
    return [
        one
        for name, one in known
        if name.partition(".")[0] == PRODUCT and isinstance(one, logging.Logger)
    ]
