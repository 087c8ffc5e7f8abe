"""Describes the state of a cluster and changes it.

- ``admin``: the public class, with one method per operation. ``values``: the arguments and results.
- ``group_admin`` and ``access_admin``: its base classes, which extend ``admin_connection``.
- ``topics``: topics and configuration. ``cluster``: log directories, leaders, reassignments, the
  quorum and features.
- ``groups``: groups and their offsets. ``share_groups``: share groups and the start offsets of
  their queues. ``share_records``: records that share groups have in flight. ``streams_groups``:
  groups of Kafka Streams. ``transactions`` and ``quotas``: transactions and quotas of a cluster.
- ``access``: SCRAM users, ACLs and delegation tokens.
- ``offsets``: the first and last offsets of logs. ``maintenance``: retention and compaction on
  request, which only tidelog's brokers know.
- ``fan_out``: sends one request to several brokers, and raises one error for all items that
  failed.
"""
