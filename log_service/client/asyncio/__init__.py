"""The client for programs on asyncio. The trio client runs in a thread of its own.

- ``mailbox``: carries functions from one thread to another, with one wake-up for many functions.
  ``bridge``: calls from an event loop into the client's thread and back. ``calls``: the base of the
  classes.
- ``admin``, ``consumer``, ``share_consumer``: each method is one call. ``producer``: puts records
  into batches on the event loop. ``settlements``: wakes the tasks that wait for the producer's
  batches.
"""
