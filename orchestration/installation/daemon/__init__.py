"""Dagster's daemon.

- ``process``: the process itself. ``pace``: when its loops look again. ``heartbeat``: its sign of life.
"""
