"""The group coordinator decides for all kinds of groups and for the offsets that they commit.

It performs no I/O. Its modules, from the ground up:

- ``values``: values that several kinds of groups share.
- ``records``: the records in the log, one module per kind.
- ``group_settings``: the settings of one group, within the broker's bounds.
- ``member_sessions``: how long members may be silent.
- ``timer_kinds``: the names of all timers, and which of them remove silent members.
- ``topic_hash``: a hash that changes with a topic.
- ``classic``, ``consumer``, ``share``, ``streams``: one room per kind of group. The last three have
  the same file names.
- ``offsets``: committed offsets.
- ``migration``: both protocols of consumers in one group.
- ``listing``: how groups of all kinds are listed.
- ``group_coordinator``: one shard with all its groups.
"""
