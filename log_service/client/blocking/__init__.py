"""The same client for programs without an event loop.

- ``portal``: a thread that runs trio, and calls into it. ``blocking``: consumer and admin. ``producer``: the producer, whose records take a
  shorter way. ``range_arrow``: a range of offsets as Arrow columns.
"""
