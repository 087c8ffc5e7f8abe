"""Python calls that need no Dagster.

- ``replay``: records are read once more. ``ask``: a query in SQL. ``fix_trial``: the test whether a
  table would still reject fixed records.
"""
