"""tidelog's log service: a Kafka broker, its client, its supervisor and its command line.

Packages by layer, from the bottom up. A package imports only packages above its own line. Packages
on one line do not import each other. ``.venv/bin/lint-imports`` checks this.

- ``common``: ids, error codes, timers, and the interfaces to the world outside (``Env``).
- ``config``: declares every configuration key, and the frozen views that code receives.
  ``cluster_plans``: decides where replicas should be, and finds a cluster's problems.
- ``metrics``: counts what a node does, and formats the counts for Prometheus.
- ``protocol``: messages, codec and frames of the wire. ``records``: the record batch.
- ``network``: listeners and connections over an injected network.
- ``rpc``: requests to other nodes, with connections, versions and pauses between attempts.
- ``security``: logins and encryption of both ends, and access rules.
- ``storage``: one partition's log on disk, in Kafka's files.
- ``raft``: the metadata log and its quorum.
- ``metadata``: the records of the metadata log, and the immutable image that they build.
- ``quota``: limits on the requests of clients. ``telemetry``: metrics that clients push.
- ``state_machine``: decisions over a replicated log: decide, append, replay, reply once committed.
- ``replication``: partitions and the requests that wait for them. ``coordinator``: groups,
  transactions and share states. ``controller``: decides every change of metadata.
- ``broker``: builds a node from the packages above and handles its requests. ``client``: producers,
  consumers and admin clients.
- ``cluster_operations``: operators' work on a running cluster. ``mirror``: copies topics from one
  cluster into another. ``http``: services that speak HTTP. All three use the client.
- ``supervisor``: starts, watches and stops the processes of an installation.
- ``cli``: the ``tidelog`` command.
"""

__version__ = "0.1.0"
