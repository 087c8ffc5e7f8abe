"""APIs of share groups.

- ``fetch``, ``acknowledge``: records of a queue. ``groups``: members. ``group_offsets``: offsets.
- ``states``: the states that the share coordinator keeps.
"""
