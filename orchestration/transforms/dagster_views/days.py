"""The days of a table's records, as partitions of ``history/TABLE_by_day``.

A day is materialized once records of it were committed, by a run or a replay. Days without records
stay missing, and so do days before the first one of the table's history. Events without a run
report the days, because the events of old runs are deleted.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from orchestration.transforms.declarations import TopicTable

HISTORY_PREFIX = "history"
EPOCH = date(1970, 1, 1)
COMMITTED = "Records of this day were committed to the table"


def days_key(name: str) -> dg.AssetKey:
    """Return the key of the asset with the days of the table ``name``."""
    return dg.AssetKey([HISTORY_PREFIX, f"{name}_by_day"])


class NewDays:
    """Reports the days of a table's commits, each once.

    Days after the day of the commit are ignored, because Dagster has no partitions for them yet.
    """

    def __init__(self, instance: dg.DagsterInstance, table: TopicTable) -> None:
        self._instance = instance
        self._table = table
        self._known: set[str] | None = None

    def add(self, days: Iterable[int], now: datetime) -> None:
        """Report that records of ``days`` were committed at ``now``. Days count from 1970 on."""
        wanted = set(partitions_of(days, self._table.history_from, now.astimezone(UTC).date()))
        if self._known is not None and wanted <= self._known:
            return
        key = days_key(self._table.name)
        self._known = set(self._instance.get_materialized_partitions(key)) | (self._known or set())
        for day in sorted(wanted - self._known):
            self._instance.report_runless_asset_event(
                dg.AssetMaterialization(key, partition=day, description=COMMITTED)
            )
        self._known |= wanted


def partitions_of(days: Iterable[int], first: date, last: date) -> Iterator[str]:
    """Yield the partitions of ``days`` from ``first`` to ``last``, both included."""
    for day in days:
        if (first - EPOCH).days <= day <= (last - EPOCH).days:
            yield (EPOCH + timedelta(days=day)).isoformat()
