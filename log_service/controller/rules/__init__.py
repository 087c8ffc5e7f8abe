"""The controller's rules: plain functions from metadata and a request to records and a response.

A rule reads no clock, opens no file and has no state. All its input besides the metadata is passed
as arguments.

- ``table``: the only table of rules, with one row for each message.
- ``topics``, ``create_partitions``: create and delete topics, add partitions. ``partitions``: all
  partition changes of one decision. ``placement``: brokers for new replicas. ``topic_names``: valid
  names.
- ``partition_change``: makes every record that changes one partition.
- ``elections``, ``alter_partition``, ``reassignments``, ``directories``: leaders, in-sync replicas,
  moves to other brokers, and log directories.
- ``brokers``, ``controllers``: registrations, heartbeats and fencing, with their effect on leaders.
- ``configs``, ``feature_levels``: dynamic configuration and feature levels.
- ``client_quotas``: quotas of users, client ids and addresses. ``scram_users``: SCRAM credentials
  of users. ``delegation_tokens``: tokens that log in as their owner. ``acls``: access rules.
- ``observers``: brokers that replicate partitions and never lead, and are in sync only if promoted.
- ``producer_ids``: blocks of producer ids.
"""
