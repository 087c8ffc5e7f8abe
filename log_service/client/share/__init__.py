"""Consumers of a share group, whose members acquire single records, not partitions (KIP-932).

- ``consumer``: the public class. ``records``: the returned records and acknowledgement types.
  ``in_hand``: records that were returned to the application and are not acknowledged yet.
  ``held_records``: records that the blocking and asyncio consumers have polled, but not returned to
  the application yet. ``metrics``: counters.
- ``fetcher``: decides when to acquire records, and keeps acquired records until a poll.
  ``acquired``: turns the bytes of a response into acquired records.
- ``lane``: sends the requests to one leader, in one ``session``. ``acknowledgements``:
  acknowledgements until the leader has responded.
- ``membership``: heartbeats and assignments. ``leases``: acquires records that other processes may
  acknowledge. ``silent_nodes``: leaders that it asks after the others.
"""
