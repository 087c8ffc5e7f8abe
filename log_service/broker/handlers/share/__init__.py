"""The APIs of share groups (KIP-932).

- ``groups``: ShareGroupHeartbeat, ShareGroupDescribe, AlterShareGroupOffsets and
  DeleteShareGroupOffsets.
- ``group_offsets``: DescribeShareGroupOffsets.
- ``fetch``: ShareFetch. ``acknowledge``: ShareAcknowledge.
- ``records``: records in flight, a request of ours.
- ``states``: requests of other brokers to the share coordinator on this node.
"""
