"""Offsets that groups commit, whatever their kind.

- ``committed``: offsets by group and partition.
- ``pending``: offsets of open transactions.
- ``removals``: offsets that expire or whose partition is deleted.
"""
