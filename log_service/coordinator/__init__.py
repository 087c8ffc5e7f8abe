"""Coordinators: state machines over the partitions of internal topics that this node leads.

Decisions, each over one internal topic:

- ``group``: the group coordinator (``__consumer_offsets``). It decides for classic, consumer, share
  and streams groups, and for committed offsets.
- ``transaction``: the transaction coordinator (``__transaction_state``).
- ``share``: the share coordinator (``__share_group_state``), and the records of a share group at
  the leader of a partition.

Services find the shard of a request. If this node does not have the shard, they respond with an
error.

- ``group_service``, ``share_group_service``: the APIs of groups. The APIs of share groups also send
  requests to share coordinators.
- ``transaction_service``, ``share_state_service``: the APIs of transactions and of share states.
- ``sharded_service``: the base class of these services.
- ``shards``: loads shards, serves them, and drops them.
- ``gathering``: joins the responses of several shards into one.
- ``refusals``: the error code for the client when the log of a shard refuses an append.
- ``request_context``: the client of a request.
"""
