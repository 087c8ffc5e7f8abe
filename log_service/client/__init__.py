"""The client: producer, consumers and admin for trio, and the same for threads and for asyncio.

It speaks to any Kafka-compatible cluster. The stub beside this file lists the public names. A name
is imported when it is first used, so a service that only produces imports no consumer.

The packages and modules, lowest first. Each imports only from those listed before it:

- ``arguments``: checks of arguments. ``group_protocol``: the bytes that members of a group
  exchange. ``metrics``: counters. ``portal``: runs a client in a thread of its own.
- ``connections``: the client's view of the cluster, and connections to its nodes.
- ``admin``: describes and changes topics, groups, offsets, configuration and the quorum.
- ``producer``: sends records. ``consumer``: receives records, alone or in a group, and reads exact
  ranges of offsets.
- ``share``: receives records as a member of a share group.
- ``schemas``: serializers of Avro, JSON Schema and Protobuf, and the client of a schema registry.
- ``blocking``: the same clients for threads. ``asyncio``: the same clients for asyncio.

Two modules are not part of that order. ``foundation`` exports errors and types that programs use
with any client. ``settings_files`` reads settings from properties files and from the environment.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
