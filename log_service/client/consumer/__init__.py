"""Consumers, with and without a group.

- ``consumer``: the public class. ``subscriptions``: assigned partitions and their positions.
  ``positions``: find and move positions. ``commits``: commit offsets to the group.
- ``fetcher``: reads ahead within bounds. ``fetch_exchange`` and ``fetch_session``: one request to
  one leader (KIP-227).
- ``record_reader``: fetched bytes to records. ``record_rows``: many records at once with numpy.
  ``aborted``: batches that a reader of committed records skips. ``records``: the returned values.
- ``memberships``: the interface of group membership, common to both group protocols.
- The classic protocol: ``membership``: join and heartbeats. ``rebalance``: give up and take over
  partitions. ``assignors`` and ``sticky_assignment``: assign partitions to members.
- The consumer protocol (KIP-848): ``consumer_membership``: the task that sends heartbeats.
  ``group_member``: the content of heartbeats. ``reconciler``: give up and take over partitions.
- ``held_records``: records that the blocking and asyncio consumers have not handed out yet.
- ``range_reader``: read one range of offsets, without positions and groups.
"""
