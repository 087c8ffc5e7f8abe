"""Names the folder of Dagster's instance, and the statuses of runs that are not over."""

from pathlib import Path

from dagster import DagsterRunStatus

ALIVE = (DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING)
"""The statuses of runs that have a process."""
UNFINISHED = (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.QUEUED, *ALIVE)
"""The statuses of runs that may still write."""


def dagster_home(data_directory: Path) -> Path:
    """Return the instance's directory inside an installation's."""
    return data_directory / "dagster"
