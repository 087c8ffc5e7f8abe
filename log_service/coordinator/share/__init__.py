"""Share groups (KIP-932): what the leader of a partition and the share coordinator decide. No module here reads a clock or waits.

- ``record_states``: the states of a delivered record, and which may follow which.
- ``in_flight``: records in flight as batches of runs.
- ``share_partition``: one group on one partition, at the partition's leader. ``window``, ``acquiring`` and ``acknowledging`` decide for it.
- ``aborted``: which fetched batches belong to aborted transactions.
- ``share_coordinator``: a shard of the share coordinator; ``share_state`` is what it keeps, ``state_records`` what its log holds,
  ``state_messages`` what requests and responses have of it.
"""
