"""Assets that keep an installation small: their runs remove old data and count it.

- ``retention``: makes brokers apply retention, and deletes records that all tables have read, if
  that is declared.
- ``compaction``: makes brokers compact topics with that policy, and shows records and bytes before
  and after.
- ``lake``: merges small files and removes old ones.
- ``history``: prunes Dagster's history.
- ``standard``: the upkeep of a project that declares none of these.
- ``schedules``: when they run.
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
