"""APIs of groups and of their offsets.

- ``membership``: classic groups. ``consumer``: KIP-848. ``streams``: KIP-1071. ``admin``: operators.
- ``offset_commit``, ``offset_fetch``, ``offset_delete``, ``txn_offset_commit``: committed offsets.
"""
