"""The group coordinator decides for all kinds of groups and for the offsets that they commit.

It performs no I/O. Its modules, from the ground up:

- ``values``: values that several kinds of groups share.
- ``records``: the records in the log, one module per kind.
- ``group_settings``: the settings of one group, within the broker's bounds.
- ``member_sessions``: how long members may be silent.
- ``timer_kinds``: the names of all timers, and which of them remove silent members.
- ``topic_hash``: a hash that changes with a topic.
- ``classic``, ``consumer``, ``share``, ``streams``: one package per kind of group. The state of one
  group is in ``group``. The last three also have ``heartbeats``, and ``assignor`` or ``assignors``.
- ``offsets``: committed offsets.
- ``migration``: groups whose members use the classic and the consumer protocol at once.
- ``listing``: the responses of ListGroups and DescribeGroups.
- ``stored_groups``: the effect of each record on the groups of a shard.
- ``group_coordinator``: one shard with all its groups.
"""
