"""The records of a topic in log and archive, and the lag of tables behind them.

- ``archive``: the declaration of an archive. ``archive_files``, ``archive_reading``: its files and
  their records.
- ``topic_reads``: the parts of a topic that a query reads. ``readable_records``: the parts that a
  replay can read.
- ``lag``: the lag of a table. ``lag_objective``: whether it is within the declared objective.
"""
