"""What Dagster remembers, kept short: runs, their event and compute logs, events without a run, ticks; older than some days, they go.

Decides what stays however old it is: the newest materialization, observation and check of each asset, because sensors, automation and the
UI build on them. Knows the default storage (SQLite, one file per run) and any other SQL storage of Dagster's.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance.utils import RUNLESS_RUN_ID
from dagster._core.storage.event_log import SqlEventLogStorage, SqliteEventLogStorage
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable

from orchestration.maintenance.retention import GROUP

EVENTS = SqlEventLogStorageTable
DEFAULT_DAYS = 7
MAX_RUNS_AT_ONCE = 5_000
DAY_S = 86_400.0
FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed. ``bytes_freed`` counts whole files; other storages give their room back in their own time."""

    runs: int
    events_without_run: int
    bytes_freed: int


def history_asset(*, name: str = "history", days: int = DEFAULT_DAYS) -> dg.AssetsDefinition:
    """Return the asset whose run forgets runs, events and ticks older than ``days``."""

    @dg.asset(key=[GROUP, name], group_name=GROUP, kinds={"dagster"}, description=f"Forgets runs, events and ticks older than {days} days")
    def forget(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        before = time.time() - days * DAY_S
        done = prune(context.instance, before)
        purge_ticks(context.instance, before)
        return dg.MaterializeResult(
            metadata={
                "runs_deleted": done.runs,
                "events_deleted": done.events_without_run,
                "bytes_freed": done.bytes_freed,
                "runs_kept": context.instance.get_runs_count(),
            }
        )

    return forget


def prune(instance: dg.DagsterInstance, before: float) -> Pruned:
    """Delete finished runs created before a time (seconds since the epoch), and events without a run of before it."""
    kept = set(newest_runs(instance))
    freed = runs = 0
    for run in old_runs(instance, before):
        if run not in kept:
            freed += delete_run(instance, run)
            runs += 1
    return Pruned(runs=runs, events_without_run=delete_runless_events(instance, before), bytes_freed=freed)


def old_runs(instance: dg.DagsterInstance, before: float) -> list[str]:
    """Return the ids of finished runs that were created before a time, oldest first, a bounded number of them."""
    filters = dg.RunsFilter(statuses=list(FINISHED), created_before=moment(before))
    records = instance.get_run_records(filters, limit=MAX_RUNS_AT_ONCE, ascending=True)
    return [record.dagster_run.run_id for record in records]


def newest_runs(instance: dg.DagsterInstance) -> Iterator[str]:
    """Yield the runs that hold an asset's newest materialization."""
    for key in instance.all_asset_keys():
        event = instance.get_latest_materialization_event(key)
        if event is not None:
            yield event.run_id


def delete_run(instance: dg.DagsterInstance, run_id: str) -> int:
    """Delete a run with all its logs and return how many bytes of files that gave back."""
    storage = instance.event_log_storage
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    if not isinstance(storage, SqliteEventLogStorage):
        return 0
    path = Path(storage.path_for_shard(run_id))
    freed = 0
    for file in (path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        if file.exists():
            freed += file.stat().st_size
            file.unlink()
    return freed


def delete_runless_events(instance: dg.DagsterInstance, before: float) -> int:
    """Delete events without a run of before a time, except the newest of each kind of each asset; returns how many."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return 0
    old = (EVENTS.c.run_id == RUNLESS_RUN_ID) & (EVENTS.c.timestamp < moment(before).replace(tzinfo=None))
    with storage.index_connection() as connection:
        newest = sa.select(sa.func.max(EVENTS.c.id)).group_by(EVENTS.c.asset_key, EVENTS.c.dagster_event_type)
        deleted = connection.execute(sa.delete(EVENTS).where(old, EVENTS.c.id.not_in(newest)))
    if isinstance(storage, SqliteEventLogStorage) and Path(storage.path_for_shard(RUNLESS_RUN_ID)).exists():
        with storage.run_connection(RUNLESS_RUN_ID) as connection:
            newest = sa.select(sa.func.max(EVENTS.c.id)).group_by(EVENTS.c.asset_key, EVENTS.c.dagster_event_type)
            connection.execute(sa.delete(EVENTS).where(old, EVENTS.c.id.not_in(newest)))
    return int(deleted.rowcount)


def purge_ticks(instance: dg.DagsterInstance, before: float) -> None:
    """Delete the ticks of all sensors and schedules of before a time."""
    for state in instance.all_instigator_state():
        instance.purge_ticks(state.instigator_origin_id, state.selector_id, before)


def moment(timestamp: float) -> datetime:
    """Return seconds since the epoch as a moment in UTC."""
    return datetime.fromtimestamp(timestamp, UTC)
