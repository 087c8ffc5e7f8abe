"""Share groups (KIP-932): decisions of a partition's leader and of the share coordinator.

No module here reads a clock or waits.

- ``record_states``: the states of a delivered record, and their transitions.
- ``in_flight``: acquired records that may still change, as batches of runs. A run is a range of
  records in one state.
- ``share_partition``: one group on one partition, at the partition's leader.
- ``window``, ``acquiring``, ``acknowledging``: the parts of the decisions of ``share_partition``.
- ``aborted``: finds the fetched batches of aborted transactions.
- ``share_coordinator``: a shard of the share coordinator.
- ``share_state``: the stored state of one group on one partition.
- ``state_records``: the records in the share coordinator's log.
- ``state_messages``: share states in requests and responses.
"""
