"""The lake: Delta tables whose own transaction log holds their progress.

- ``tables``: snapshots, and the parts of commits. ``range_commits``: rows together with offsets.
  ``schemas``: compares a result's columns with the table's.
- ``file_commits``: commits that write files anew. ``staging``: files that Spark writes before a
  commit.
- ``durable``: files that survive a power cut. ``abandoned_files``: files of killed processes.
- ``quoting``: names and texts inside a statement of SQL.
"""
