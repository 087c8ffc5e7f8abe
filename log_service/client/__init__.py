"""The client: producer, consumers and admin for trio, and the same for threads and for asyncio.

It speaks to any Kafka-compatible cluster. The stub beside this file lists the public names. They are loaded when they are
first used, so that a service which only produces imports nothing of a consumer. The rooms, from the bottom up:

- ``connections``: what is known of the cluster, and the way to its nodes.
- ``producer``: records on their way in.
- ``admin``: questions about topics, groups, offsets and what carries the cluster, and changes to them.
- ``consumer``: records on their way out, with groups; and exact ranges of offsets. ``share``: records out of a queue.
- ``blocking``: the same for programs without an event loop. ``asyncio``: for programs on asyncio.

Beside them ``arguments`` checks what callers hand in, ``metrics`` counts, ``group_protocol`` holds the bytes that members of a group
exchange, ``foundation`` names what programs need of ``common``, ``settings_files`` reads settings that stand outside of a program, and
``portal`` runs a client in a thread of its own.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
