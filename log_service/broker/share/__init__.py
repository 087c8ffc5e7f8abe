"""Share groups on the leader of a partition (KIP-932), from a request to acquired records.

- ``group_settings``: the configuration of a group.
- ``log_reads``: batches of a partition's log, as far as a group may have them.
- ``led_share_partition``: one group on one partition that this node leads, with its stored state
  and its locks.
- ``shares``: all share partitions of the node, and the sessions of members.
- ``session``: the share sessions of members.
- ``counts``: counts of fetches, loads, locks and dead letters.
- ``start_offsets``: the start offset of a group in a partition without stored state.
- ``delayed_share_fetch``: a fetch that acquires records now, or waits for some.
- ``dead_letter_writer``: writes dead letters for records that no member could process.
- ``dead_letter_content``: the content of a dead letter.
- ``state_protocol``: the requests to share coordinators.
- ``state_requests``: sends these requests to share coordinators, on this node and on others.
"""
