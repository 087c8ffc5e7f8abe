"""Sources send rows of a SQL table, or files dropped into a folder, to a topic exactly once.

- ``positions``: stores how far each source has come, in the transactions that send its records.
- ``reading``: the protocol of a source.
- ``run``: one run of a source, without Dagster.
- ``sql_rows``: reads rows of a SQL table as change records.
- ``dropped_files``: reads files that are dropped into a folder.
- ``json_rows``: writes rows as JSON.
- ``assets``: the assets that users declare, and that Dagster runs.
"""

from orchestration.sources.assets import folder_source, source_feeds, sql_source

__all__ = ["folder_source", "source_feeds", "sql_source"]
