"""Consumers, with and without a group.

- ``consumer``: the public class. ``subscribed_topics``: topics by name or by a pattern.
  ``subscriptions``: assigned partitions and their positions. ``positions``: finds and moves
  positions. ``commits``: commits offsets to the group. ``interceptors``: passes the records of a
  poll through functions of the application.
- ``fetcher``: reads ahead within limits. ``fetch_exchange`` and ``fetch_session``: one request to
  one leader (KIP-227).
- ``record_reader``: turns fetched bytes into records. ``record_rows``: makes many records at once
  with numpy. ``aborted``: finds batches that a reader of committed records skips. ``records``: the
  returned values.
- ``memberships``: the interface of group membership, common to both group protocols.
- For the classic protocol: ``membership``: joins and sends heartbeats. ``rebalance``: gives up and
  takes over partitions. ``assignors`` and ``sticky_assignment``: assign partitions to members.
- For the consumer protocol (KIP-848): ``consumer_membership``: the task that sends heartbeats.
  ``group_member``: the content of heartbeats. ``reconciler``: gives up and takes over partitions.
- ``held_records``: records that the blocking and asyncio consumers have not returned yet.
- ``range_reader``: reads one range of offsets, without positions and groups.
"""
