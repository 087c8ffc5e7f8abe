"""Operations on a running cluster, over an admin client: read its state, carry out or cancel plans.

- ``reading``: reads the cluster as the values of ``log_service.cluster_plans``.
- ``findings``: collects the cluster's problems.
- ``moving``: carries out a plan in steps, with its throttles. It also watches and cancels moves.
- ``waiting``: waits until a broker serves, or until all replicas are in sync.
- ``rolling``: restarts brokers one by one, and reports the state of a restart that ends early.
- ``cordoning``: keeps new partitions off a broker while it is emptied.
- ``removal``: empties, stops and unregisters a broker.
- ``group_offsets``: decides where a reset moves the offsets of a group.
- ``membership``: checks whether a broker may leave and a node may begin or cease to vote. It also
  takes a voter out of the quorum.

All requests go through ``log_service.client``, and work on tidelog and Apache Kafka alike.
Functions that send requests are async and take the trio ``Admin`` first. Programs with threads call
them through ``BlockingAdmin.run``.
"""
