"""Records on their way out.

- ``consumer``: the public class. ``subscriptions``: which partitions are read, and where each stands. ``positions``: finding and moving
  those places. ``commits``: telling the group how far the consumer came.
- ``fetcher``: reads ahead, within bounds; ``fetch_exchange`` and ``fetch_session``: one request to one leader (KIP-227).
- ``record_reader``: fetched bytes to records; ``record_rows``: many at once where numpy is installed; ``aborted``: what readers of
  committed records skip; ``records``: what is handed out.
- ``memberships``: what the consumer asks of its part in a group, whichever protocol it speaks.
- The classic protocol: ``membership``: joining a group, heartbeats; ``rebalance``: giving partitions up and taking them over; ``assignors``
  and ``sticky_assignment``: which member gets which partition.
- The consumer protocol (KIP-848): ``consumer_membership``: the task that sends heartbeats; ``group_member``: what they say;
  ``reconciler``: giving partitions up and taking them over.
- ``held_records``: what the blocking and asyncio consumers have not handed to the application yet.
- ``range_reader``: exactly one range of offsets, without positions and groups.
"""
