"""Coordinators: state machines over the partitions of internal topics that this node leads.

The decisions, each over one internal topic:

- ``group``: the group coordinator: classic, consumer and share groups, and committed offsets (``__consumer_offsets``).
- ``transaction``: the transaction coordinator (``__transaction_state``).
- ``share``: the share coordinator (``__share_group_state``), and the records of a share group at the leader of a partition.

What a node serves of them: which shard a request belongs to, and what it hears where there is none:

- ``group_service``, ``share_group_service``: the APIs of groups; those of share groups, which ask share coordinators, too.
- ``transaction_service``, ``share_state_service``: the APIs of transactions, and those of share states.
- ``sharded_service``: what these services have in common. ``shards``: when a shard loads, serves and is dropped.
- ``gathering``: responses of several shards as one response.
- ``refusals``: what a client hears when a shard's log refuses.
- ``request_context``, ``java_hashing``: the client of a request; Java's string hash, which names the partition of a group.
"""
