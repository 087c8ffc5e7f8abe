"""Values that several kinds of groups share.

These modules know neither the log nor requests.

- ``partitions``: sets of partitions by topic id.
- ``epochs``: epochs of groups, targets and members.
- ``consumer_member``: a member of a consumer group.
- ``streams_tasks``: members of a streams group and their tasks.
- ``streams_topology``: the subtopologies of an application.
"""
