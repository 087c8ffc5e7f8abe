"""Offsets that groups of all kinds commit.

- ``committed``: offsets by group and partition.
- ``commit_checks``: who may commit offsets to a group.
- ``fetching``: the responses with them, in steps if there are very many.
- ``pending``: offsets of open transactions.
- ``removals``: offsets that expire or whose partition is deleted.
"""
