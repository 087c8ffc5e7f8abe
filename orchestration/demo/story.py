"""Runs the demo's steps in order: topics, records, tables, marts, proof, summary.

It runs in a thread of its own beside the supervisor. Decides when the pipeline has caught up, and
when to give up. The pipeline has caught up if each lag is 0, everything downstream was computed
from the newest versions, and no run is left. This module never starts a run, because the sensors
do.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import dagster as dg
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from log_service.common.counts import counted
from orchestration.dead_letters.table import DeadLetters
from orchestration.demo.directory import DemoError
from orchestration.demo.freshness import Pipeline, lags, stale
from orchestration.demo.production import create_topics, produce
from orchestration.demo.report import Outcome
from orchestration.demo.source import data_sets
from orchestration.demo.verification import TopicProof, prove_topic
from orchestration.installation.instance import open_instance
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import LogClient, LogServiceError
from orchestration.project.home import UNFINISHED, dagster_home
from orchestration.retained.lag import TopicLag
from orchestration.settings import Settings
from orchestration.topics.inputs import MART_PREFIX
from orchestration.warehouse.store import Warehouse

POLL_S = 1.0
MAX_FAILED_RUNS = 8
CLEAN, JOINED = "clean_flights", "flights_with_weather"
QUESTION = "Arrival delay by carrier and hour: where it is worst"
ANSWER_SQL = """
    SELECT carrier, airline[:17] AS airline, hour, flights,
        mean_arrival_delay_minutes AS mean_minutes, p90_arrival_delay_minutes AS p90_minutes, on_time_percent AS "on_time_%"
    FROM arrival_delay_by_carrier_and_hour WHERE flights >= 30
    ORDER BY mean_minutes DESC, carrier, hour
"""


class StoppedError(Exception):
    """The demo was asked to stop."""


@dataclass(slots=True, kw_only=True)
class Story:
    """The steps of the demo, with their common state.

    ``is_up`` is set when everything runs, and ``is_stopping`` when the demo has to end.
    """

    pipeline: Pipeline
    settings: Settings
    console: Console
    flights: int | None
    deadline_s: float
    next_command: str
    is_up: Event = field(default_factory=Event)
    is_stopping: Event = field(default_factory=Event)
    steps: list[tuple[str, float]] = field(default_factory=list)

    @property
    def lake(self) -> Lake:
        """The lake that the runs write to."""
        return Lake(self.settings.lake_root)

    def run(self) -> Outcome:
        """Run all steps, and return their outcome.

        :raises DemoError: something failed.
        :raises StoppedError: ``is_stopping`` was set.
        """
        began = time.monotonic()
        with self._step("broker ready"):
            self._wait_for_broker()
        with self._step("topics created, records produced"):
            create_topics(self.settings.bootstrap_servers, self.pipeline.topics)
            produced = produce(
                self.settings.bootstrap_servers,
                data_sets(self.pipeline.topics, self.flights),
                self.console,
            )
        with self._step("Spark, code server and daemon ready (started meanwhile)"):
            self._until(self.is_up.is_set)
        with ExitStack() as stack:
            instance = stack.enter_context(
                open_instance(dagster_home(self.settings.data_directory))
            )
            log = stack.enter_context(connect(self.settings.bootstrap_servers))
            self._catch_up(log, instance, produced)
            with self._step("proof: each offset once"):
                proofs = [
                    prove_topic(feed, log, self.lake, produced[feed.topic])
                    for feed in self.pipeline.feeds
                ]
                found = lags(self.pipeline, log, self.lake)
        outcome = self._outcome(proofs, found)
        self.steps.append(("all", time.monotonic() - began))
        return outcome

    def _catch_up(
        self, log: LogClient, instance: dg.DagsterInstance, produced: dict[str, int]
    ) -> None:
        """Wait until the sensors' runs have brought everything up to date."""
        columns = (
            TextColumn("  {task.description:<22}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            with self._step("sensor's runs: topics to tables, lag 0"):
                bars = {
                    feed.table: progress.add_task(feed.table, total=produced[feed.topic])
                    for feed in self.pipeline.feeds
                }
                self._until(lambda: self._is_caught_up(log, instance, progress, bars))
            with self._step("automation: joined table, marts, SQL tables"):
                total = len(self.pipeline.downstream)
                bar = progress.add_task("joined table and marts", total=total)
                self._until(lambda: self._is_fresh(instance, progress, bar, total))

    def _is_caught_up(
        self,
        log: LogClient,
        instance: dg.DagsterInstance,
        progress: Progress,
        bars: dict[str, TaskID],
    ) -> bool:
        self._give_up_after_failures(instance)
        found = lags(self.pipeline, log, self.lake)
        for table, lag in found.items():
            progress.update(
                bars[table], completed=sum(one.committed_offset for one in lag.partitions)
            )
        return all(lag.lag == 0 for lag in found.values())

    def _is_fresh(
        self, instance: dg.DagsterInstance, progress: Progress, bar: TaskID, total: int
    ) -> bool:
        self._give_up_after_failures(instance)
        behind = sum(1 for _ in stale(self.pipeline, self.lake, instance))
        progress.update(bar, completed=total - behind)
        return behind == 0 and not instance.get_runs(
            dg.RunsFilter(statuses=list(UNFINISHED)), limit=1
        )

    def _give_up_after_failures(self, instance: dg.DagsterInstance) -> None:
        failed = instance.get_runs(
            dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]), limit=MAX_FAILED_RUNS
        )
        if len(failed) >= MAX_FAILED_RUNS:
            raise DemoError(
                f"{counted(len(failed), 'run')} failed, the last one says:"
                f" {why_it_failed(instance, failed[0])}"
            )

    def _outcome(self, proofs: Sequence[TopicProof], found: dict[str, TopicLag]) -> Outcome:
        warehouse = Warehouse(self.settings.warehouse_directory, self.lake)
        with self._step("questions to the marts"):
            rows = {
                "/".join(one.key.path): self._rows_of(one.key, warehouse)
                for one in self.pipeline.downstream
            }
            answer = warehouse.query(ANSWER_SQL)
        faults = [fault for proof in proofs for fault in proof.faults]
        faults += [
            f"{table} is {counted(lag.lag, 'record')} behind its topic"
            for table, lag in found.items()
            if lag.lag
        ]
        clean, joined = (self.lake.existing(name).row_count for name in (CLEAN, JOINED))
        if clean != joined:
            faults.append(f"{JOINED} has {joined} rows and {CLEAN} has {clean}")
        if answer.num_rows == 0:
            faults.append("the mart has no answer")
        return Outcome(
            proofs=proofs,
            rows={name: count for name, count in rows.items() if count is not None},
            dead_letters=DeadLetters(self.lake).summary(),
            lags=found,
            question=QUESTION,
            answer=answer,
            steps=self.steps,
            faults=faults,
            next_command=self.next_command,
        )

    def _rows_of(self, key: dg.AssetKey, warehouse: Warehouse) -> int | None:
        kind, name = key.path[0], key.path[-1]
        if kind == MART_PREFIX:
            return int(warehouse.query(f'SELECT count(*) AS n FROM "{name}"')["n"][0].as_py())  # noqa: S608 - a mart's name
        snapshot = self.lake.snapshot(name)
        return snapshot.row_count if snapshot else None

    def _wait_for_broker(self) -> None:
        host, _, port = self.settings.bootstrap_servers.rpartition(":")

        def is_reachable() -> bool:
            try:
                socket.create_connection(
                    (host, int(port)), timeout=1
                ).close()  # a client would warn that nothing listens there yet
                with connect(self.settings.bootstrap_servers, timeout_ms=1_000) as log:
                    log.describe_topic("flights")
            except (LogServiceError, OSError):
                return False
            return True

        self._until(is_reachable, poll_s=0.2)

    def _until(self, condition: Callable[[], bool], poll_s: float = POLL_S) -> None:
        deadline = time.monotonic() + self.deadline_s
        while not condition():
            if self.is_stopping.wait(poll_s):
                raise StoppedError
            if time.monotonic() > deadline:
                raise DemoError(
                    f"nothing more happened within {self.deadline_s:.0f} s; the logs are in"
                    f" {self.settings.data_directory / 'logs'}"
                )

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        self.steps.append((name, seconds))
        self.console.print(f"[green]✓[/green] {name} [dim]({seconds:.1f} s)[/dim]", highlight=False)


def why_it_failed(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return the message of the first failed step of a run."""
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
        event = entry.dagster_event
        if event is not None and event.step_failure_data.error is not None:
            error = event.step_failure_data.error
            return (error.cause or error).message.strip()
    return f"run {run.run_id} did not say why"


def ui_command(data_directory: Path, project_directory: Path, current: Path) -> str:
    """Return the command that opens the UI on the demo's data."""

    def shown(path: Path) -> str:
        return str(path.relative_to(current)) if path.is_relative_to(current) else str(path)

    project = "" if project_directory == current else f" --project {shown(project_directory)}"
    return f"tidelog up --data {shown(data_directory)}{project}"
