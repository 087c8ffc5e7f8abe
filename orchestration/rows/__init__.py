"""Decisions over the rows of a batch, computed by DuckDB.

- ``latest``: the newest row of each key. ``uniqueness``: repeated keys. ``aggregates``: groups.
- ``joins``, ``join_state``: pairs of records, and the rows that wait for a partner.
- ``upserts``: commits that write rows in the place of older ones.
"""
