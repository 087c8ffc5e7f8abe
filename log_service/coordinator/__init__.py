"""Coordinators: state machines over the partitions of internal topics that this node leads.

- ``group``: the group coordinator's decisions.
- ``group_service``: the group APIs of a node: which shard a request belongs to, and what it hears where there is none.
- ``shards``: when a shard loads, serves and is dropped.
- ``refusals``: what a client hears when a shard's log refuses.
- ``request_context``, ``java_hashing``: the client of a request; Java's string hash, which names the partition of a group.
"""
