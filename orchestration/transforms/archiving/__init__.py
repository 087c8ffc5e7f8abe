"""The archive of a topic: its records as Parquet files of a lake table.

With an archive, retention in the broker may be short, because ``topics.NAME`` in SQL reads archive
and log together. ``retained.archive`` has the declaration of an archive.

- ``planning``: the offsets of a run. ``run``: a run without Dagster.
- ``assets``: the asset in Dagster. ``kind``: implements the protocol of ``transforms.kinds``.
"""

from orchestration.retained.archive import Archive, archive_table

__all__ = ["Archive", "archive_table"]
