"""Fetch, for consumers and for followers.

- ``fetch``: the behaviour of the API, and its handler. ``reads``: reads partitions and waits for
  records. ``reading``: the results of one pass. ``response``: the response.
- ``in_turns``: the rest of a fetch that takes more than one turn of the event loop.
- ``replica``: the fetch of a follower.
"""
