"""Partitions as a broker serves them: leader state, in-sync replicas, high watermark, and the requests that wait for it.

- ``partition``: one partition: leadership, appends, reads, offsets, high watermark.
- ``replica_manager``: all of a node's, as the metadata says; syncs what asks for it and announces what moved.
- ``purgatory``: delayed operations, finished once by a key or by their deadline.
"""
