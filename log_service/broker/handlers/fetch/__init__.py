"""Fetch, for consumers and for followers.

- ``fetch``: the behaviour of the API, and its handler. ``reads``: reads partitions, waits for
  records, builds the response.
- ``in_turns``: the rest of a fetch that takes more than one turn of the event loop.
- ``replica``: the fetch of a follower.
"""
