"""Results for readers outside the lake.

- ``mart``: SQL over tables becomes a DuckDB file. ``database_copy``: a table's rows are copied into a
  SQL database.
"""
