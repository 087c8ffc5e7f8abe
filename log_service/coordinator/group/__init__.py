"""The group coordinator answers the requests of groups of all kinds and stores their offsets.

It only decides on responses and on records of ``__consumer_offsets``, and performs no I/O. Its
modules, from the ground up:

- ``values``: values that several kinds of groups share.
- ``records``: the records in the log, one module per kind.
- ``group_settings``: the settings of one group, within the broker's bounds.
- ``member_sessions``: how long members may be silent.
- ``timer_kinds``: the kinds of all timers, and which of them remove silent members.
- ``topic_hash``: a hash that changes with a topic.
- ``classic``, ``consumer``, ``share``, ``streams``: one package per kind of group. The state of one
  group is in ``group``. The last three also have ``heartbeats``, and ``assignor`` or ``assignors``.
- ``offsets``: committed offsets.
- ``migration``: groups whose members use the classic and the consumer protocol at once.
- ``listing``: the responses of ListGroups and DescribeGroups.
- ``stored_groups``: the effect of each record on the groups of a shard.
- ``group_coordinator``: one shard with all its groups.
"""
