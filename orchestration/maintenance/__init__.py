"""Assets that keep an installation small: their runs remove what is no longer needed and say in numbers how much that was.

``retention`` asks the brokers for a pass and deletes what tables have read, where that is wanted; ``lake`` merges small files and removes
old ones; ``history`` prunes what Dagster remembers. Schedules for them are in ``orchestration.schedules``.
"""

from orchestration.maintenance.history import Limits, history_asset
from orchestration.maintenance.lake import lake_asset
from orchestration.maintenance.retention import retention_asset

__all__ = ["Limits", "history_asset", "lake_asset", "retention_asset"]
