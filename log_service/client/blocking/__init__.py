"""The same client for programs without an event loop.

- ``portal``: a thread that runs trio, and calls into it. ``admin``, ``consumer``: one call each. ``producer``: its records
  take a shorter way. ``range_arrow``: a range of offsets as Arrow columns.
"""
