"""Results for readers outside the lake.

- ``mart``: SQL over tables becomes a DuckDB file. ``questions``: the check of that SQL when the
  project loads. ``database_copy``: a table's rows are copied into a SQL database.
"""
