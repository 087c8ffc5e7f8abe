"""Sources: rows of a SQL table and dropped files, sent to a topic exactly once.

- ``positions``: how far each source has come, in records that commit with those it sends.
- ``reading``: the protocol of a source.
- ``run``: a run without Dagster.
- ``sql_rows``: rows of a SQL table, as change records.
- ``dropped_files``: files that are dropped into a folder.
- ``json_rows``: rows written as JSON.
- ``assets``: the assets that users declare, and that Dagster runs.
"""

from orchestration.sources.assets import folder_source, source_feeds, sql_source

__all__ = ["folder_source", "source_feeds", "sql_source"]
