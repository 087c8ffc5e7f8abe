"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

- ``group``: one group as the log stores it.
- ``listing``: descriptions of groups, and validation of their commits and fetches.
- ``configuration``: partition counts, tasks and missing topics of a topology.
- ``requests``: the checks of a heartbeat that need no group.
- ``heartbeats``: the response to a heartbeat.
- ``reconciliation``: one member's next step towards its target.
- ``assignor``: the targets of all members.
"""
