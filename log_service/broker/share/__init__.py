"""Share groups on the leader of a partition (KIP-932): from a member's request to the records that it acquires.

- ``group_settings``: what a group's configuration says.
- ``log_reads``: batches of a partition's log, as far as a group may have them.
- ``led_share_partition``: one group on one partition that this node leads: loaded, stored, its locks timed.
- ``shares``: all of them, and the members' sessions.
- ``session``: the share sessions of members.
- ``counts``: what all this did, in numbers.
- ``start_offsets``: where a group begins in a partition of which nothing is stored.
- ``delayed_share_fetch``: a fetch that acquires records now, or waits for some.
- ``dead_letters``: what becomes of records that no member could work on. ``letters``: what such a letter holds.
- ``persister``: what is asked of share coordinators. ``state_requests``: the way to them, on this node and on others.
"""
