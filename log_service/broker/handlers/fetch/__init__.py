"""Fetch of consumers and of followers.

- ``fetch``: the handler. ``reads``: reads of partitions. ``in_turns``: the rest of a long request.
- ``replica``: the fetch of a follower.
"""
