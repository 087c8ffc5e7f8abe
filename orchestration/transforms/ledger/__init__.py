"""Progress of transforms that commit outside the lake.

- ``ledger``: a lake table with a row per commit. ``progress``: where a run begins.
"""
