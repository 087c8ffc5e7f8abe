"""Alerts for failed runs: once at the first failure, then ever more rarely while failures continue.

Killed runs that are tried again are not reported. A failure is an observation on the tables of the
run, so that the UI plots failures beside lag. ``notify`` sends it wherever a project wants it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

import dagster as dg
from dagster._core.storage.tags import RUN_FAILURE_REASON_TAG, WILL_RETRY_TAG

from orchestration.sensing.past_runs import STEP_FAILURE, failures_in_a_row
from orchestration.sensing.topic_sensor import TABLE_TAG
from orchestration.transforms import table_key

REMEMBERED_FAILURES = 1_025
"""The most runs that are read to count failures in a row.

The 1,024th failure is the last that is reported. A table that keeps failing reaches it after days.
"""
MAX_NAMED = 3
"""The most assets of one run that an alert names."""
OWN_SENTENCE = re.compile(
    rf"\A(?:{re.escape(dg.Failure.__module__)}\.{dg.Failure.__qualname__}"
    r"|orchestration(?:\.\w+)+): "
)
"""Dagster's prefix of a sentence written for people: the class of the platform's own errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A report for people.

    ``subject`` is the table, the other failed assets, the sensor, or the job of a run without
    assets. ``what`` is the action that failed. ``failures`` counts those in a row. ``run_id`` names
    the run or the tick, and is empty if there was none.
    """

    subject: str
    run_id: str
    failures: int
    why: str
    what: str = "failed"

    @property
    def text(self) -> str:
        """The alert as one sentence."""
        times = "" if self.failures == 1 else f" {self.failures} times in a row"
        run = f" (run {self.run_id})" if self.run_id else ""
        return f"{self.subject} {self.what}{times}: {self.why}{run}"


def decide_alert(
    *, subject: str, run_id: str, tags: Mapping[str, str], failures: int, why: str
) -> Alert | None:
    """Return the alert, or None if there is nothing to report.

    Of failures in a row the 1st, 2nd, 4th, 8th... is reported. A run that died (killed, its machine
    gone) and is tried again is not reported.
    """
    count = max(failures, 1)
    if is_tried_again(tags) or not is_reported(count):
        return None
    return Alert(subject=subject, run_id=run_id, failures=count, why=why)


def is_tried_again(tags: Mapping[str, str]) -> bool:
    """Whether a failed run died, for example because it was killed, and is tried again.

    ``tags`` are the tags of the run.
    """
    return tags.get(WILL_RETRY_TAG) == "true" and tags.get(RUN_FAILURE_REASON_TAG) != STEP_FAILURE


def is_reported(failures: int, reported_before: int | None = None) -> bool:
    """Return whether one of the new failures is the 1st, 2nd, 4th, 8th, and so on in a row.

    ``failures`` is the number of failures in a row. Those after the first ``reported_before`` are
    new, by default only the last one.
    """
    before = failures - 1 if reported_before is None else reported_before
    return failures > 0 and 1 << (failures.bit_length() - 1) > before


def run_failure_alerts(
    *, name: str = "run_failures", notify: Callable[[Alert], None] | None = None
) -> dg.SensorDefinition:
    """Return the sensor that reports failed runs.

    ``notify`` is called with every alert, e.g. to send it to a chat.
    """

    @dg.run_failure_sensor(
        name=name,
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells of failed runs on the tables that they were for",
    )
    def report(context: dg.RunFailureSensorContext) -> None:
        run = context.dagster_run
        table, steps = run.tags.get(TABLE_TAG), context.get_step_failure_events()
        failed = failed_assets(run.asset_selection or (), [event.step_key or "" for event in steps])
        reasons = reasons_of(failed, steps, context.failure_event.message)
        runs = (
            context.instance.get_runs(
                dg.RunsFilter(tags={TABLE_TAG: table}), limit=REMEMBERED_FAILURES
            )
            if table
            else [run]
        )
        alert = decide_alert(
            subject=table or named(failed) or run.job_name,
            run_id=run.run_id,
            tags=run.tags,
            failures=failures_in_a_row(up_to(run, runs)),
            why=joined_reasons(reasons) or reason_among(steps, context.failure_event.message),
        )
        if alert is None:
            return
        context.log.error(alert.text)
        about = (
            {table_key(table): alert}
            if table
            else {
                key: replace(alert, subject=key.to_user_string(), why=reasons[key])
                for key in failed
            }
        )
        for key, one in about.items():
            metadata: dict[str, int | str] = {
                "failures_in_a_row": one.failures,
                "failure": one.why,
                "run": run.run_id,
            }
            context.instance.report_runless_asset_event(
                dg.AssetObservation(asset_key=key, description=one.text, metadata=metadata)
            )
        if notify is not None:
            notify(alert)

    return report


def up_to(run: dg.DagsterRun, runs: Sequence[dg.DagsterRun]) -> list[dg.DagsterRun]:
    """Return those of ``runs`` that are not newer than ``run``. ``runs`` are newest first.

    Newer runs are reported by their own ticks.
    """
    return list(dropwhile(lambda one: one.run_id != run.run_id, runs))


def failed_assets(
    selection: Collection[dg.AssetKey], failed_steps: Collection[str]
) -> list[dg.AssetKey]:
    """Return the failed assets of a run, in order: those with failed steps.

    If no asset's step failed (the run was killed), all are returned.
    """
    ordered = sorted(selection, key=dg.AssetKey.to_user_string)
    return [key for key in ordered if key.to_python_identifier() in failed_steps] or ordered


def named(assets: Sequence[dg.AssetKey]) -> str:
    """Return the names of assets as the subject of a sentence, empty without assets."""
    reported = [key.to_user_string() for key in assets[:MAX_NAMED]]
    more = [f"{len(assets) - MAX_NAMED} more"] if len(assets) > MAX_NAMED else []
    return " and ".join(
        filter(None, [", ".join([*reported, *more][:-1]), *[*reported, *more][-1:]])
    )


def reasons_of(
    assets: Iterable[dg.AssetKey], step_failures: Sequence[dg.DagsterEvent], run_message: str | None
) -> dict[dg.AssetKey, str]:
    """Return the reason of each failed asset of a run: that of its own step, if there is one."""
    own = {
        key: [event for event in step_failures if event.step_key == key.to_python_identifier()]
        for key in assets
    }
    return {key: reason_among(events or step_failures, run_message) for key, events in own.items()}


def joined_reasons(reasons: Mapping[dg.AssetKey, str]) -> str:
    """Return the reasons of one run's assets as one text, each by its asset if they differ."""
    if len(set(reasons.values())) <= 1:
        return next(iter(reasons.values()), "")
    return "; ".join(
        f"{key.to_user_string()}: {why}" for key, why in list(reasons.items())[:MAX_NAMED]
    )


def reason_among(step_failures: Sequence[dg.DagsterEvent], run_message: str | None) -> str:
    """Return the first line of the failed steps' error, else of ``run_message``."""
    errors = [
        event.step_failure_data.error for event in step_failures if event.step_failure_data.error
    ]
    causes = [error.cause or error for error in errors]
    text = causes[0].message if causes else (run_message or "no reason was given")
    lines = OWN_SENTENCE.sub("", text.strip()).splitlines()
    return lines[0][:500] if lines else "no reason was given"
