"""Dagster's daemon.

- ``process``: the process itself. ``pace``: the pauses of its loops. ``heartbeat``: the file by
  whose age the supervisor sees that it works.
"""
