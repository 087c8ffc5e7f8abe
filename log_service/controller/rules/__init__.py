"""The controller's decisions are plain functions. They turn metadata and a request into records and
a response.

A rule reads no clock, opens no file and keeps nothing. What it needs beside the metadata is an argument.

- ``table``: THE table: which rule decides on which message.
- ``topics``, ``create_partitions``, ``partitions``, ``placement``, ``topic_names``: topics, their partitions, and which brokers hold them.
- ``partition_change``: one change of one partition; it alone makes the records of that.
- ``elections``, ``alter_partition``, ``reassignments``, ``directories``: who leads a partition, which replicas are in sync, where they are.
- ``brokers``, ``controllers``: registration, heartbeats, fencing and what that does to leaders.
- ``configs``, ``feature_levels``: changes of dynamic configuration and of feature levels.
- ``client_quotas``: the quotas of users, client ids and addresses. ``scram_users``: the passwords of users.
  ``delegation_tokens``: what stands for a user.
- ``acls``: the rules of access.
- ``observers``: which brokers copy and never lead.
- ``producer_ids``: blocks of producer ids.
"""
