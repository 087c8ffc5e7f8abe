"""Partitions as a broker serves them: leadership, in-sync replicas, high watermark, followers, and the requests that wait for them.

- ``partition_state``: who leads, who is in sync, how far records are safe; without input and output.
- ``partition``: one partition: its log and its state; appends, reads, offsets, as leader and as follower.
- ``replica_manager``: all partitions of a node, as the metadata says; tells listeners and waiting requests what changed.
- ``listeners``: functions that are called when something changes, until their registration is cancelled.
- ``purgatory``: delayed operations, finished once by a key or by their deadline.
- ``syncs``, ``log_deletions``, ``moves``: what is done to logs beside the requests.
- ``traffic``: sums of what partitions counted.

For the replicas on other nodes, made when a partition first has one:

- ``remote_replicas``: makes the others, and hands on to them what the metadata says. ``links``: how the other nodes are reached.
- ``fetchers``, ``fetcher``: the connections to leaders; ``following`` has the decisions of a follower, without input and output.
- ``isr_changes``: what leaders propose to the controller about who is in sync.
- ``throttles``: how fast replicas that are being moved may be copied.
"""
