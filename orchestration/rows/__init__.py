"""Decides with DuckDB how the rows of a batch change a table, and commits some of these changes.

- ``latest``: the newest row of each key. ``uniqueness``: repeated keys. ``aggregates``: groups.
- ``joins``, ``join_state``: pairs of records, and the rows that wait for a partner.
- ``upserts``: commits that replace or remove rows by key.
"""
