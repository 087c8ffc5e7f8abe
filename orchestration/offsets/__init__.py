"""Ranges of offsets, and the plans that decide which of them a run reads.

- ``ranges``: ranges of offsets as values. ``planning``: the ranges that a run reads, from
  checkpoint and log.
- ``byte_limits``: limits on the bytes that a run opens. ``known_gaps``: the first offset of a
  table, and the offsets that it lost.
"""
