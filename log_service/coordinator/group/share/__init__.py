"""Share groups (KIP-932): several members may fetch records from the same partition.

The progress of a group in a partition is a share state, which a share coordinator stores.

- ``group``: one group as the log stores it.
- ``groups``: all groups of a shard.
- ``states``: partitions that have a share state.
- ``heartbeats``: the effects of a heartbeat.
- ``assignor``: the targets of all members.
"""
