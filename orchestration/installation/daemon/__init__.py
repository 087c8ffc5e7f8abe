"""Dagster's daemon.

- ``process``: the process itself. ``pace``: the pauses of its loops. ``heartbeat``: its sign of
  life.
"""
