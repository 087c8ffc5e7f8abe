"""Topics that the node creates because a client asks for them.

- ``automatic``: creates topics by the controller. ``declared``: topics as a project declares them.
- ``streams``: internal topics of Kafka Streams applications that do not exist yet.
"""
