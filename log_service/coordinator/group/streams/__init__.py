"""Streams groups (KIP-1071).

- ``group``: one group as the log holds it.
- ``listing``: how groups are described.
- ``configuration``: partition counts, tasks and missing topics of a topology.
- ``requests``: the checks of a heartbeat.
- ``heartbeats``: its effects.
- ``reconciliation``: one member's next step towards its target.
- ``assignor``: the targets of all members.
"""
