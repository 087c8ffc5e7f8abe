"""The same client for programs without an event loop.

- ``calls``: what the classes share; ``portal``, beside this room, has the thread. ``admin``, ``consumer``, ``share_consumer``: one call
  each. ``producer``: its records take a shorter way. ``range_arrow``: a range of offsets as Arrow columns.
"""
