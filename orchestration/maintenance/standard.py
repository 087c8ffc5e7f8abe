"""The upkeep of a project that declares none, and its schedules.

It covers retention and compaction of topics, files of the lake, and Dagster's history.
"""

import dagster as dg

from orchestration.maintenance.compaction import compaction_asset
from orchestration.maintenance.history import Limits, history_asset
from orchestration.maintenance.lake import lake_asset
from orchestration.maintenance.retention import GROUP, retention_asset
from orchestration.maintenance.schedules import HOURLY, asset_schedule

KEPT_HISTORY = Limits(days=7, event_days=2, succeeded_runs=500)
"""The history that the standard upkeep keeps. Five hundred runs take about 70 MB.

A table that gets records all day has many small runs.
"""


def standard_maintenance() -> tuple[list[dg.AssetsDefinition], list[dg.ScheduleDefinition]]:
    """Return the assets and their schedules."""
    assets = [
        retention_asset(),
        compaction_asset(),
        lake_asset(),
        history_asset(limits=KEPT_HISTORY, is_own_instance_only=True),
    ]
    return assets, [asset_schedule(asset, HOURLY) for asset in assets]


def is_maintenance(asset: dg.AssetsDefinition) -> bool:
    """Return whether an asset is one of upkeep. A project that has one gets no standard upkeep."""
    return any(key.path[0] == GROUP for key in asset.keys)
