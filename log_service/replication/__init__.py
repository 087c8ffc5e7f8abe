"""Partitions of a broker: leadership, in-sync replicas, high watermark, waiting requests.

- ``partition_state``: leadership, in-sync replicas and high watermark of one replica, without I/O.
  ``follower_state``: one follower, as the leader knows it.
- ``replica``: one replica with its log and its state, which applies metadata and the records of a
  leader. ``partition``: the same replica as clients and followers use it. It appends, reads and
  finds offsets.
- ``replica_manager``: all partitions of a node, kept in line with the metadata. It notifies
  listeners and waiting requests of changes. ``replica_listener``: the callbacks of such a listener.
  ``image_changes``: which partitions a metadata image changes here, and in which order.
- ``listeners``: functions that are called on a change until their registration is cancelled.
- ``purgatory``: delayed operations. Each is finished once, by a key or by its deadline.
- ``syncs``, ``log_deletions``, ``moves``: background work on logs, beside the requests.
- ``traffic``: sums of the counters of partitions.

These modules handle replicas on other nodes. Their objects are created when a partition first has
such a replica:

- ``remote_replicas``: creates the other parts and passes metadata changes on to them.
- ``links``: the connections to the other nodes.
- ``fetchers``, ``fetcher``: the connections to leaders. ``followed_partition``: one partition that
  is fetched. ``following`` has the decisions of a follower, without I/O.
- ``isr_changes``: the changes of the in-sync replicas that leaders propose to the controller.
- ``throttles``: rate limits for replicas that are being moved.
"""
