"""The log service: a broker that speaks the Kafka protocol, its client, supervisor and commands.

Packages from the bottom up; each imports only from those above it in this list, and siblings do not see each other:

- ``common``: ids, error codes, the seams to the world (``Env``), timers.
- ``config``: every configuration key, declared once, and the frozen views that code receives. ``cluster_plans``: where replicas should be.
- ``metrics``: what a node counts about itself, and the text in which Prometheus reads it.
- ``protocol`` and ``records``: the wire (messages, codec, frames) and the record batch, both without any input or output.
- ``network``: listeners and connections over an injected network.
- ``rpc``: requests to other nodes: connections, versions, pauses between attempts.
- ``security``: logins and encryption, both ends, and who may do what.
- ``storage``: one partition's log on disk, in Kafka's files.
- ``raft``: the log of metadata with its quorum.
- ``metadata``: the records of that log and the immutable image that they build.
- ``quota`` and ``telemetry``: how much clients may ask for in a time; the metrics that they push to their broker.
- ``state_machine``: decisions over a replicated log: decide, append, replay, reply when it is committed.
- ``replication``, ``coordinator``, ``controller``: partitions and what waits for them; groups, transactions and share states; the owner of
  metadata.
- ``broker`` and ``client``: the two composition roots.
- ``cluster_operations`` and ``mirror``: what operators do with a running cluster, and topics copied from one cluster into another, both
  through the client.
- ``supervisor`` and ``cli``: processes, and the ``tidelog`` command.
"""

__version__ = "0.1.0"
