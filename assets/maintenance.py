"""Upkeep of the example: retention of topics, files of the lake, Dagster's history; and when it is done."""

from orchestration.maintenance import history_asset, lake_asset, retention_asset
from orchestration.schedules import HOURLY, NIGHTLY, asset_schedule

retention = retention_asset()
lake = lake_asset()
history = history_asset(days=7)

schedules = [asset_schedule(retention, HOURLY), asset_schedule(lake, NIGHTLY), asset_schedule(history, NIGHTLY)]
