"""Questions about a cluster, and changes to it.

- ``admin``: the public class, one method per question. ``values``: what goes in and comes out.
- ``topics``: topics and configuration. ``cluster``: log directories, leaders, reassignments, quorum, features. ``groups``: groups and their
  offsets. ``share_groups``: share groups and where they begin. ``streams_groups``: groups of Kafka Streams. ``transactions``, ``quotas``:
  those of a cluster.
- ``access``: SCRAM users, ACLs and delegation tokens.
- ``offsets``: where logs begin and end. ``maintenance``: retention and compaction on request, tidelog's own.
- ``fan_out``: one question to several brokers, and one error for all items that failed.
"""
