"""Writes the output of failed tests into the file that TIDELOG_FAILURES names.

CI prints at its end the tests that pass at their second try, with the output of their first one.
"""

import os
from pathlib import Path

import pytest

VARIABLE = "TIDELOG_FAILURES"


class FailureLog:
    """Appends each failed report to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Append the report of a failed setup, call or teardown."""
        if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
            with self._path.open("a") as file:
                file.write(f"==== {report.nodeid} ({report.when})\n{report.longreprtext}\n")
