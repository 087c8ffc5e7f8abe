"""The records of a topic that log and archive hold, and how far a table is behind them.

- ``archive``: the declaration of an archive. ``archive_files``, ``archive_reading``: its files and their records.
- ``topic_reads``: what a question reads of a topic. ``readable_records``: what a replay can read of it.
- ``lag``: how far a table is behind. ``lag_objective``: whether that is too far.
"""
