"""Offsets that groups commit, whatever their kind.

- ``committed``: positions by group and partition. ``pending``: those of open transactions. ``removals``: those that expire or go.
"""
