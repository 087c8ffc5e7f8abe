"""Consumers of a share group, whose members acquire single records, not partitions (KIP-932).

- ``consumer``: the public class. ``records``: the returned records and acknowledgement types.
  ``in_hand``: records that the application holds. ``held_records``: records that the blocking and
  asyncio consumers have not handed out yet. ``metrics``: counters.
- ``fetcher``: when to acquire records, and acquired records that wait for a poll. ``acquired``:
  bytes of a response to acquired records.
- ``lane``: the requests to one leader, over one ``session``. ``acknowledgements``: acknowledgements
  on their way to a leader.
- ``membership``: heartbeats and assignments. ``leases``: records that other processes may settle.
"""
