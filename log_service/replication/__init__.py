"""Partitions as a broker serves them: leadership, in-sync replicas, high watermark, and the requests that wait for it.

- ``partition_state``: who leads, who is in sync, how far records are safe, as a value without input and output.
- ``partition``: one partition: its log and its state; appends, reads, offsets.
- ``replica_manager``: all partitions of a node, as the metadata says; tells listeners and waiting requests what changed.
- ``listeners``: registrations that end nothing but themselves.
- ``purgatory``: delayed operations, finished once by a key or by their deadline.
- ``syncs``, ``log_deletions``, ``moves``: what is done to logs beside the requests.
- ``traffic``: sums of what partitions counted.
"""
