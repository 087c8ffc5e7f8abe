"""The archive of a topic: its records as Parquet files of a lake table.

With an archive, retention in the broker may be short. ``topics.NAME`` in SQL is archive and log
together.

- ``declaration``: how a topic is archived. ``planning``: the offsets of a run.
- ``files``: writes the files. ``reading``: finds and reads them, for queries.
- ``run``: a run without Dagster. ``assets``: the asset in Dagster.
"""

from orchestration.archive.declaration import Archive, archive_table

__all__ = ["Archive", "archive_table"]
