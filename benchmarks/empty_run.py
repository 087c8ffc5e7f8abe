"""Takes a run that does (almost) nothing apart, into the seconds of each of its parts.

The times come from Dagster and from the table's log. Two runs are measured, both with
`TIDELOG_FOLLOW_S=0`, so that a run is one range. One finds a single new record, and is measured
from its acknowledgement to the end of the run. The other was asked for and finds nothing.
"""

import contextlib
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import dagster as dg

from benchmarks.broker_process import BenchmarkError
from benchmarks.freshness import PROJECT, TABLE, WARM_UP_S, commits, stream
from benchmarks.installation import (
    CATCH_UP_DEADLINE_S,
    POLL_S,
    running_installation,
    wait_until_caught_up,
)
from benchmarks.rounds import Bench, Sides
from benchmarks.stream_project.assets import READINGS
from benchmarks.table import OURS, Row
from log_service.supervisor import state
from orchestration.demo.production import create_topics
from orchestration.installation.instance import PROJECT_LOCATION, open_instance
from orchestration.lake.tables import Lake
from orchestration.project.home import UNFINISHED, dagster_home

RUNS = 5
JOB = "new_records_job"
LAUNCH = """
    mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
        __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }
"""
PINNED = "batch of topic"
SENSED, ASKED_FOR = (
    "the sensor sees the record, the daemon creates the run",
    "the webserver creates the run",
)
PARTS: Mapping[str, str] = {
    "created": "until the run is created",
    "STARTING": "the daemon hands the run to the code server",
    "forked": "fork of the run's process, and it opens the instance",
    "START": "the run's definitions and plan",
    "STEP_START": "resources and the capture of logs",
    "pinned": "offsets, checkpoints, the plan",
    "committed": "Spark session, read, compute, commit",
    "told": "the materialization",
    "SUCCESS": "Spark session closed, end of the run",
}
"""Parts of a run by the moments that end them, in order.

A run without records has neither plan nor commit of its own.
"""


def moments_of(instance: dg.DagsterInstance, run_id: str) -> dict[str, float]:
    """Return the end of each part of a run, as far as Dagster kept it."""
    record = instance.get_run_record_by_id(run_id)
    assert record is not None
    found = {"created": record.create_timestamp.timestamp()}
    names = {
        dg.DagsterEventType.PIPELINE_STARTING: "STARTING",
        dg.DagsterEventType.PIPELINE_START: "START",
        dg.DagsterEventType.STEP_START: "STEP_START",
        dg.DagsterEventType.ASSET_MATERIALIZATION: "told",
        dg.DagsterEventType.PIPELINE_SUCCESS: "SUCCESS",
    }
    for entry in instance.all_logs(run_id):
        kind = entry.dagster_event.event_type if entry.dagster_event else None
        if kind in names:
            found[names[kind]] = entry.timestamp
        elif kind is dg.DagsterEventType.ENGINE_EVENT and "Started process for run" in (
            entry.message or ""
        ):
            found["forked"] = entry.timestamp
        elif kind is None and PINNED in entry.user_message:
            found["pinned"] = entry.timestamp
    return found


def parts(moments: Mapping[str, float], began_s: float) -> dict[str, float]:
    """Return the seconds of each part, in order."""
    found, before_s = {}, began_s
    for name in PARTS:
        if name in moments:
            found[name] = moments[name] - before_s
            before_s = moments[name]
    return found


def newest_run(instance: dg.DagsterInstance) -> str:
    """Return the newest run once every run has ended."""
    deadline = time.monotonic() + CATCH_UP_DEADLINE_S
    while instance.get_runs(dg.RunsFilter(statuses=list(UNFINISHED)), limit=1):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"a run did not end within {CATCH_UP_DEADLINE_S:.0f} s")
        time.sleep(POLL_S)
    return instance.get_runs(limit=1)[0].run_id


def run_of_one_record(address: str, lake: Lake, instance: dg.DagsterInstance) -> dict[str, float]:
    """Send one record, and take apart the run that carries it to the table."""
    sent = stream(address, per_second=1, seconds=0.5)
    wait_until_caught_up(address, lake, READINGS.name, TABLE)
    (acknowledged_s,) = (at_s for records in sent.by_partition.values() for _, at_s in records)
    moments = moments_of(instance, newest_run(instance))
    *_, (_, committed_s) = commits(lake.path(TABLE) / "_delta_log")
    return parts({**moments, "committed": committed_s}, acknowledged_s)


def run_of_nothing(ui_url: str, instance: dg.DagsterInstance) -> dict[str, float]:
    """Ask for a run, as the UI's button does, and take it apart."""
    selector = {
        "repositoryLocationName": PROJECT_LOCATION,
        "repositoryName": "__repository__",
        "jobName": JOB,
    }
    params = {
        "selector": {**selector, "assetSelection": [{"path": ["lake", TABLE]}]},
        "mode": "default",
        "runConfigData": "{}",
    }
    body = json.dumps({"query": LAUNCH, "variables": {"params": params}}).encode()
    began_s = time.time()
    request = urllib.request.Request(
        f"{ui_url}/graphql", data=body, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)["data"]["launchRun"]
    if answer["__typename"] != "LaunchRunSuccess":
        raise BenchmarkError(f"the run was not launched: {answer}")
    newest_run(instance)
    return parts(moments_of(instance, answer["run"]["runId"]), began_s)


def rows_of(what: str, began: str, found: Mapping[str, float]) -> list[Row]:
    """Return a row for the whole and one for each part.

    ``began`` names the event from which a run waits until it is created.
    """
    rows = [Row(figure=what, unit="s", rounds=(sum(found.values()),))]
    names = {**PARTS, "created": began}
    return rows + [
        Row(figure=f"  {what}: {names[name]}", unit="s", rounds=(seconds,))
        for name, seconds in found.items()
    ]


def measure(address: str, ui_url: str, directory: Path, bench: Bench) -> list[Row]:
    """Take apart some runs of either kind."""
    rows: list[Row] = []
    lake = Lake(directory / "lake")
    with open_instance(dagster_home(directory)) as instance:
        for _ in range(bench.count(RUNS)):
            rows += rows_of("run of one record", SENSED, run_of_one_record(address, lake, instance))
        for _ in range(bench.count(RUNS)):
            rows += rows_of("run of nothing", ASKED_FOR, run_of_nothing(ui_url, instance))
    return rows


@contextlib.contextmanager
def empty_run(bench: Bench) -> Iterator[Sides]:
    """Keep one warm installation for all rounds."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-") as name:
        directory = Path(name)
        with running_installation(directory, PROJECT, TIDELOG_FOLLOW_S="0") as address:
            create_topics(address, [READINGS])
            stream(address, per_second=10, seconds=WARM_UP_S)
            wait_until_caught_up(address, Lake(directory / "lake"), READINGS.name, TABLE)
            (ui_url,) = (one.address for one in state.read(directory) if one.name == "dagster")
            yield Sides(
                measures={OURS: partial(measure, address, ui_url, directory, bench)}, most_rounds=1
            )
