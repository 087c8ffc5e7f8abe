"""Maintenance of the example, with its schedules.

It covers retention and compaction of topics, files of the lake, and Dagster's history.
"""

from orchestration import (
    HOURLY,
    NIGHTLY,
    Limits,
    asset_schedule,
    compaction_asset,
    history_asset,
    lake_asset,
    retention_asset,
)

retention = retention_asset()
compaction = compaction_asset()
lake = lake_asset()
history = history_asset(limits=Limits(days=7, event_days=2, succeeded_runs=2_000))

schedules = [
    asset_schedule(retention, HOURLY),
    asset_schedule(compaction, HOURLY),
    asset_schedule(lake, NIGHTLY),
    asset_schedule(history, HOURLY),
]
