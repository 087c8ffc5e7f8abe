"""Records of ``__consumer_offsets``: one module of values per kind of group, and one codec over all of them.

- ``offset``: committed offsets. ``classic``: generations of classic groups. ``consumer``, ``share``, ``streams``: groups of these kinds.
- ``codec``: the union of all records, and the bytes that Kafka stores for them.
"""
