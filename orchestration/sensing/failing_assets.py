"""The assets whose last run failed, why, and when they are tried again.

The terminal and ``tidelog status`` show them. Only runs are considered, so it also works for a
project with its own sensors. A killed run that is tried again is not a failure of its assets. Each
look considers the runs that ended since the last one. The first look goes back ``FIRST_LOOK_RUNS``
runs. Without new events runs are queried only now and then, because each change of a run is an
event.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import dagster as dg

from log_service.supervisor.complaints import MOMENTARY
from orchestration.project.location import loaded_s
from orchestration.sensing.retries import NO_RETRIES, Retries
from orchestration.sensing.run_failures import failed_assets, is_tried_again, reasons_of

FIRST_LOOK_RUNS = 200
LOOK_RUNS = 1_000
LOOKS_AFTER_EVENT = 3
"""The looks at runs after the last event, because runs and events may appear out of order."""
LOOKS_PER_CHECK = 6
"""After ``LOOKS_AFTER_EVENT`` one look in this number queries runs, even without an event."""
OVERLAP = timedelta(seconds=10)
"""The most time between a run's update and its visibility in the database."""
ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The failure of an asset's last run, and when the run ended."""

    why: str
    ended_s: float


class FailingAssets:
    """Remembers the assets that failed, from the runs that it has looked at."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._failed: dict[dg.AssetKey, Failed] = {}
        self._seen: dict[str, datetime] = {}
        self._newest_event: int | None = None
        self._looks_since = -1

    def look(
        self,
        known: Collection[dg.AssetKey],
        retries: Retries = NO_RETRIES,
        *,
        now_s: float | None = None,
    ) -> list[str]:
        """Look at the ended runs, and return a line for each failing asset in ``known``.

        The separator ``MOMENTARY`` divides a line. Details that change while the asset fails come
        after it, such as the time of the next try.
        """
        failing = self.failed(known)
        at_s, since_s = time.time() if now_s is None else now_s, loaded_s()
        return [
            line_of(
                key,
                one.why,
                "the project was loaded anew since" if one.ended_s < since_s else "",
                retries.reported(key, self._instance, at_s),
            )
            for key, one in sorted(failing.items())
        ]

    def failed(self, known: Collection[dg.AssetKey]) -> dict[dg.AssetKey, Failed]:
        """Look at the ended runs, and return the failures of the assets in ``known``."""
        if self._may_have_changed():
            self._look_at_runs()
        return {key: one for key, one in self._failed.items() if key in known}

    def _may_have_changed(self) -> bool:
        newest = self._instance.event_log_storage.get_maximum_record_id()
        self._looks_since = 0 if newest != self._newest_event else self._looks_since + 1
        self._newest_event = newest
        return self._looks_since < LOOKS_AFTER_EVENT or self._looks_since % LOOKS_PER_CHECK == 0

    def _look_at_runs(self) -> None:
        since = max(self._seen.values()) - OVERLAP if self._seen else None
        filters = dg.RunsFilter(statuses=list(ENDED), updated_after=since)
        limit = LOOK_RUNS if self._seen else FIRST_LOOK_RUNS
        records = self._instance.get_run_records(
            filters, limit=limit, order_by="update_timestamp", ascending=False
        )
        for record in reversed(records):
            if record.dagster_run.run_id not in self._seen:
                self._take(record.dagster_run, record.update_timestamp.timestamp())
        found = {record.dagster_run.run_id: record.update_timestamp for record in records}
        self._seen = found or self._seen

    def _take(self, run: dg.DagsterRun, ended_s: float) -> None:
        selected = run.asset_selection or frozenset()
        if run.status is dg.DagsterRunStatus.SUCCESS:
            for key in selected:
                self._failed.pop(key, None)
        elif selected and not is_tried_again(run.tags):
            events = [
                entry.dagster_event
                for entry in self._instance.all_logs(
                    run.run_id, {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
                )
                if entry.dagster_event is not None
            ]
            steps = [event for event in events if event.is_step_failure]
            message = next((event.message for event in events if not event.is_step_failure), None)
            failed = failed_assets(selected, [event.step_key or "" for event in steps])
            for key, why in reasons_of(failed, steps, message).items():
                self._failed[key] = Failed(why=why, ended_s=ended_s)


def line_of(key: dg.AssetKey, why: str, *momentary: str) -> str:
    """Return the line on a failing asset.

    ``momentary`` are details that may change while the failure stays.
    """
    more = "; ".join(filter(None, momentary))
    return f"{key.to_user_string()} failed in its last run: {why}" + (
        f"{MOMENTARY}{more}" if more else ""
    )
