"""Coordinators decide on groups, transactions and share states, and store them in internal topics.

A shard is the state machine over one partition of such a topic. The leader of the partition serves
the shard. These packages hold the decisions of shards, one package per internal topic:

- ``group``: the group coordinator (``__consumer_offsets``). It decides for classic, consumer, share
  and streams groups, and for committed offsets.
- ``transaction``: the transaction coordinator (``__transaction_state``).
- ``share``: the share coordinator (``__share_group_state``). The package also decides which records
  the leader of a user's partition delivers to a share group.

Services find the shard of a request. If this node does not have the shard, they respond with an
error.

- ``group_service``, ``share_group_service``: the APIs of groups. The APIs of share groups also send
  requests to share coordinators.
- ``transaction_service``, ``share_state_service``: the APIs of transactions and of share states.
- ``sharded_service``: the base class of these services.
- ``shards``: loads shards, serves them, and drops them.
- ``gathering``: joins the responses of several shards into one.
- ``refusals``: the error code for the client when the log of a shard refuses an append.
- ``request_context``: the client of a request, its version and its reply address.
"""
