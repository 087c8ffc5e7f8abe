"""Counts the failures of a table or a source in a row, and returns when the next run is due.

Runs are found by a tag. A run that was killed is tried again at once, and is not a failure.
Failures from before the newest load of the project do not count, because that load may have fixed
their cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.tags import RUN_FAILURE_REASON_TAG

from orchestration.project.home import UNFINISHED
from orchestration.project.location import loaded_s
from orchestration.sensing.new_records import next_start_s

REMEMBERED_RUNS = 12
STEP_FAILURE = "STEP_FAILURE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuns:
    """The failures and the last start of a table or a source, from its newest runs."""

    is_running: bool = False
    last_start_s: float | None = None
    failures: int = 0

    def due_s(self, minimum_interval_s: float) -> float:
        """Return the time from which the next run may start."""
        return next_start_s(self.last_start_s, minimum_interval_s, self.failures)


def past_runs(instance: dg.DagsterInstance, tag: str, value: str) -> PastRuns:
    """Return failures and last start from the newest runs that have ``value`` in ``tag``."""
    records = instance.get_run_records(dg.RunsFilter(tags={tag: value}), limit=REMEMBERED_RUNS)
    since_s = loaded_s()
    return PastRuns(
        is_running=any(record.dagster_run.status in UNFINISHED for record in records),
        last_start_s=records[0].create_timestamp.timestamp() if records else None,
        failures=failures_in_a_row(
            [one.dagster_run for one in records if one.create_timestamp.timestamp() >= since_s]
        ),
    )


def failures_in_a_row(runs: Sequence[dg.DagsterRun]) -> int:
    """Count the newest runs that failed by themselves, in a row.

    A killed run is tried again at once. It does not count, and does not end the row.
    """
    count = 0
    for run in runs:
        if run.status is not dg.DagsterRunStatus.FAILURE:
            break
        count += run.tags.get(RUN_FAILURE_REASON_TAG) == STEP_FAILURE
    return count


def retry_text(due_s: float, now_s: float) -> str:
    """Return when something is tried again, as the last words of a sentence."""
    moment = datetime.fromtimestamp(due_s, UTC)
    return "tried again now" if due_s <= now_s else f"tried again at {moment:%H:%M:%S} UTC"
