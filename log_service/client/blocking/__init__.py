"""The client for programs without an event loop: the same classes for threads.

- ``calls``: the base of the classes. ``portal``, in the folder above, runs the client's thread.
- ``admin``, ``consumer``, ``share_consumer``: each method is one call. ``producer``: puts records
  into batches in the calling thread. ``range_arrow``: reads a range of offsets as Arrow columns.
"""
