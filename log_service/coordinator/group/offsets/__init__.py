"""Offsets that groups of all kinds commit.

- ``committed``: offsets by group and partition.
- ``commit_checks``: who may commit offsets to a group.
- ``fetching``: the responses to OffsetFetch, built in steps if there are very many offsets.
- ``pending``: offsets of open transactions.
- ``removals``: offsets that expire or whose partition is deleted.
"""
