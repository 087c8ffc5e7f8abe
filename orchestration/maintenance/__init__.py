"""Assets that keep an installation small: their runs remove what is no longer needed and say in numbers how much that was.

``retention`` asks the brokers for a pass and deletes what tables have read, where that is wanted; ``compaction`` asks them to compact
topics whose policy is that, and shows records and bytes before and after; ``lake`` merges small files and removes
old ones; ``history`` prunes what Dagster remembers. Schedules for them are in ``orchestration.schedules``. ``standard`` is what a project
gets that declares none of them.
"""

from orchestration.maintenance.compaction import compaction_asset
from orchestration.maintenance.history import Limits, history_asset
from orchestration.maintenance.lake import lake_asset
from orchestration.maintenance.retention import retention_asset
from orchestration.maintenance.standard import is_maintenance, standard_maintenance

__all__ = [
    "Limits",
    "compaction_asset",
    "history_asset",
    "is_maintenance",
    "lake_asset",
    "retention_asset",
    "standard_maintenance",
]
