"""Python calls that need no Dagster.

- ``replay``: records are read once more. ``ask``: a question in SQL. ``fix_trial``: whether a fix would help.
"""
