"""The archive of a topic: its records as Parquet files of a lake table, so that retention in the broker may be short.

``declaration`` says how a topic is archived, ``planning`` which offsets a run takes, ``files`` writes and finds them, ``run`` is a run
without Dagster, ``assets`` what Dagster shows, ``reading`` is for questions. ``topics.NAME`` in SQL is archive and log together.
"""

from orchestration.archive.declaration import Archive, archive_table

__all__ = ["Archive", "archive_table"]
