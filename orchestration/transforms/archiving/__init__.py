"""The archive of a topic: its records as Parquet files of a lake table.

With an archive, retention in the broker may be short. ``topics.NAME`` in SQL is archive and log
together. ``retained.archive`` declares one.

- ``planning``: the offsets of a run. ``run``: a run without Dagster.
- ``assets``: the asset in Dagster. ``kind``: its place among kinds.
"""

from orchestration.retained.archive import Archive, archive_table

__all__ = ["Archive", "archive_table"]
