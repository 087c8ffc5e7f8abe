"""Version 2 of the REST proxy's API: produce, metadata, and consumer instances.

The rooms, from the bottom up:

- ``media_types``: the formats in ``Content-Type`` and ``Accept``.
- ``metadata``: topics, partitions, offsets and brokers.
- ``produce``: records of a request become records of a topic.
- ``instance``: one consumer with its positions. ``instances``: the consumers of this proxy.
- ``consumers``: the requests to consumers. ``routes``: the table of all routes.
"""
