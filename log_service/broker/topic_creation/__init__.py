"""Topics that the node creates because a client asks for them.

- ``automatic``: the creation. ``declared``: topics as a project declares them.
- ``streams``: topics that Kafka Streams applications miss.
"""
