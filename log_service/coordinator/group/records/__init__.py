"""Records of ``__consumer_offsets``: one module of values per kind of group, and one codec.

- ``offset``: committed offsets.
- ``classic``: generations of classic groups.
- ``consumer``, ``share``, ``streams``: groups of these kinds.
- ``codec``: the union of all records, and their encoding as Kafka stores them.
"""
