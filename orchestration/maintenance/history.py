"""Upkeep of Dagster's history, as an asset: deletes old runs, their logs, events and ticks.

The logs are event and compute logs. The events are those without a run. It is the history of the
whole instance, whichever project a run belonged to. So the standard upkeep, which no project
declared, prunes only the instance of ``tidelog up``.

Sensors, automation and the UI build on newest events. So the run of each asset's newest
materialization is kept at any age. Of the events without a run the newest of each type is kept, per
asset and partition. All other events of an old run are deleted with it. Supports the default
storage (SQLite, one file per run) and any other SQL storage of Dagster.
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
from orchestration.project.home import dagster_home
from orchestration.settings import HOME_VARIABLE, load_settings, process_environment

EVENTS = SqlEventLogStorageTable
MAX_RUNS_AT_ONCE = 5_000
DAY_S = 86_400.0
OTHERS_INSTANCE = (
    "this instance of Dagster is not that of tidelog up: its history is left alone. Where it is to"
    " be pruned, for all projects on it, declare history_asset(limits=Limits(...)) in the project"
)
FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Counts of the removed entries.

    ``bytes_freed`` counts whole files, so it is 0 for other storages. These free space later.
    """

    runs: int
    events_without_run: int
    bytes_freed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the history that is kept.

    A run takes about 140 kB. Under a steady stream the number of runs that succeeded matters more
    than their age.
    """

    days: float = 7
    event_days: float = 2
    succeeded_runs: int = 2_000


def history_asset(
    *, name: str = "history", limits: Limits | None = None, is_own_instance_only: bool = False
) -> dg.AssetsDefinition:
    """Return the asset whose run deletes runs, events and ticks beyond ``limits``.

    It deletes those of other projects on the same instance, too. With ``is_own_instance_only`` it
    only prunes the instance of ``tidelog up``.
    """
    kept = limits or Limits()

    @dg.asset(
        key=[GROUP, name],
        group_name=GROUP,
        kinds={"dagster"},
        description=(
            f"Forgets runs and ticks older than {kept.days:g} days, runs that succeeded beyond"
            f" {kept.succeeded_runs}, and events without a run older than {kept.event_days:g} days"
        ),
    )
    def forget(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        if is_own_instance_only and not is_own_instance():
            context.log.warning(OTHERS_INSTANCE)
            done = Pruned(runs=0, events_without_run=0, bytes_freed=0)
        else:
            done = prune(context.instance, kept, time.time())
        return dg.MaterializeResult(
            metadata={
                "runs_deleted": done.runs,
                "events_deleted": done.events_without_run,
                "bytes_freed": done.bytes_freed,
                "runs_kept": context.instance.get_runs_count(),
            }
        )

    return forget


def is_own_instance() -> bool:
    """Return whether this process works for the instance of ``tidelog up``.

    That instance lies in the data directory.
    """
    home = process_environment().get(HOME_VARIABLE)
    return home is not None and Path(home).absolute() == dagster_home(
        load_settings().data_directory
    )


def prune(instance: dg.DagsterInstance, limits: Limits, now: float) -> Pruned:
    """Delete the history beyond ``limits`` as of ``now``, in seconds since the epoch.

    At most ``MAX_RUNS_AT_ONCE`` old runs and as many surplus runs are deleted. The next call
    deletes further ones.
    """
    kept = set(newest_runs(instance))
    doomed = dict.fromkeys(
        [
            *old_runs(instance, now - limits.days * DAY_S),
            *surplus_runs(instance, limits.succeeded_runs),
        ]
    )
    gone = [run for run in doomed if run not in kept]
    freed = sum(delete_run(instance, run) for run in gone)
    purge_ticks(instance, now - limits.days * DAY_S)
    events = delete_runless_events(instance, now - limits.event_days * DAY_S)
    return Pruned(runs=len(gone), events_without_run=events, bytes_freed=freed)


def old_runs(instance: dg.DagsterInstance, before: float) -> list[str]:
    """Return the ids of finished runs that were created before a time, oldest first.

    At most ``MAX_RUNS_AT_ONCE`` are returned.
    """
    return _oldest(
        instance,
        dg.RunsFilter(statuses=list(FINISHED), created_before=moment(before)),
        MAX_RUNS_AT_ONCE,
    )


def surplus_runs(instance: dg.DagsterInstance, limit: int) -> list[str]:
    """Return the ids of the oldest successful runs if there are more than ``limit``.

    At most ``MAX_RUNS_AT_ONCE`` are returned.
    """
    succeeded = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
    surplus = instance.get_runs_count(succeeded) - limit
    return _oldest(instance, succeeded, min(surplus, MAX_RUNS_AT_ONCE)) if surplus > 0 else []


def _oldest(instance: dg.DagsterInstance, filters: dg.RunsFilter, count: int) -> list[str]:
    return [
        record.dagster_run.run_id
        for record in instance.get_run_records(filters, limit=count, ascending=True)
    ]


def newest_runs(instance: dg.DagsterInstance) -> Iterator[str]:
    """Yield the id of the run that made the newest materialization of each asset."""
    for key in instance.all_asset_keys():
        event = instance.get_latest_materialization_event(key)
        if event is not None:
            yield event.run_id


def delete_run(instance: dg.DagsterInstance, run_id: str) -> int:
    """Delete a run with all its logs and return how many bytes of files this freed."""
    storage = instance.event_log_storage
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    if not isinstance(storage, SqliteEventLogStorage):
        return 0
    path = Path(storage.path_for_shard(run_id))
    freed = 0
    for file in (
        path,
        *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal")),
    ):
        if file.exists():
            freed += file.stat().st_size
            file.unlink()
    return freed


def delete_runless_events(instance: dg.DagsterInstance, before: float) -> int:
    """Delete events without a run that are older than ``before``, and return their number.

    The newest event of each type is kept, per asset and partition.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return 0
    old = (EVENTS.c.run_id == RUNLESS_RUN_ID) & (
        EVENTS.c.timestamp < moment(before).replace(tzinfo=None)
    )
    with storage.index_connection() as connection:
        newest = sa.select(sa.func.max(EVENTS.c.id)).group_by(
            EVENTS.c.asset_key, EVENTS.c.dagster_event_type, EVENTS.c.partition
        )
        deleted = connection.execute(sa.delete(EVENTS).where(old, EVENTS.c.id.not_in(newest)))
    if (
        isinstance(storage, SqliteEventLogStorage)
        and Path(storage.path_for_shard(RUNLESS_RUN_ID)).exists()
    ):
        with storage.run_connection(RUNLESS_RUN_ID) as connection:
            newest = sa.select(sa.func.max(EVENTS.c.id)).group_by(
                EVENTS.c.asset_key, EVENTS.c.dagster_event_type, EVENTS.c.partition
            )
            connection.execute(sa.delete(EVENTS).where(old, EVENTS.c.id.not_in(newest)))
    return int(deleted.rowcount)


def purge_ticks(instance: dg.DagsterInstance, before: float) -> None:
    """Delete the ticks of all sensors and schedules that are older than ``before``."""
    for state in instance.all_instigator_state():
        instance.purge_ticks(state.instigator_origin_id, state.selector_id, before)


def moment(timestamp: float) -> datetime:
    """Return seconds since the epoch as a moment in UTC."""
    return datetime.fromtimestamp(timestamp, UTC)
