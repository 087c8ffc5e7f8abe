"""Sources: what comes from outside into a topic, exactly once: rows of a SQL table as change records, files that are dropped into a folder.

``positions`` says how far a source has come, in records that commit with those it sends; ``reading`` is what a source has to do and
``run`` is a run without Dagster; ``sql_rows`` and ``dropped_files`` are the two kinds, ``json_rows`` writes rows as JSON; ``assets``
is what Dagster is told and what users call.
"""

from orchestration.sources.assets import folder_source, source_feeds, sql_source

__all__ = ["folder_source", "source_feeds", "sql_source"]
