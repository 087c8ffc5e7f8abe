"""tidelog's log service: a broker that speaks the Kafka protocol, its client, its supervisor and its command line.

Packages from the bottom up; each imports only from those above it in this list, and siblings do not see each other:

- ``common``: ids, error codes, the seams to the world (``Env``), timers.
- ``config``: every configuration key, declared once, and the frozen views that code receives.
- ``protocol`` and ``records``: the wire (messages, codec, frames) and the record batch, both without any input or output.
- ``network``: listeners and connections over an injected network.
- ``rpc``: requests to other nodes: connections, versions, pauses between attempts.
- ``storage``: one partition's log on disk, in Kafka's files.
- ``raft``: the log of metadata with its quorum.
- ``metadata``: the records of that log and the immutable image that they build.
- ``state_machine``: decisions over a replicated log: decide, append, replay, reply when it is committed.
- ``replication``, ``coordinator``, ``controller``: partitions and what waits for them; groups; the owner of metadata.
- ``broker`` and ``client``: the two composition roots.
- ``supervisor`` and ``cli``: processes, and the ``tidelog`` command.
"""

__version__ = "0.1.0"
