"""Share groups (KIP-932).

- ``group``: one group as the log stores it.
- ``groups``: all groups of a shard.
- ``states``: partitions that have a share state.
- ``heartbeats``: the effects of a heartbeat.
- ``assignor``: the targets of all members.
"""
