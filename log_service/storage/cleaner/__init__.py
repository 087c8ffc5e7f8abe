"""Compaction, which retains the latest record of each key, with Kafka's rules and files.

Decisions without any file:

- ``selection``: the dirty part of a log, and which log is due.
- ``offset_map``: the latest offset of each key, in bounded memory.
- ``filtering``: the records of a batch that are retained.
- ``transactions``: aborted batches and needless markers.
- ``grouping``: the segments that are combined into one.

With files:

- ``compaction``: one pass over one log in bounded slices.
- ``swap``: replaces old segments with new ones, and finishes a replacement after a crash.
- ``cleaner``: runs passes by its timer and on request. ``throttle``: limits its rate.
- ``unreadable``: batches that passes skip, because their records cannot be read.
"""
