"""The client for programs on asyncio. The trio client runs in a thread of its own, behind classes
to await.

- ``mailbox``: what one thread leaves for another, which is woken once for many things. ``bridge``: calls from an event loop into the
  client's thread and back. ``calls``: what the classes share.
- ``admin``, ``consumer``, ``share_consumer``: one call each. ``producer``: its records take a shorter way, and ``settlements`` tells
  their receipts.
"""
