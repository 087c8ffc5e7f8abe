"""Ranges of offsets, and the plans that decide which of them a run reads.

- ``ranges``: ranges of offsets as values. ``planning``: which ranges a run reads, from checkpoint and log.
- ``byte_limits``: how many bytes a run opens. ``known_gaps``: where a table begins, and which offsets it lost.
"""
