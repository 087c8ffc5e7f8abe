"""The APIs of groups and of their committed offsets.

- ``membership``: members of classic groups. ``consumer``: consumer groups (KIP-848). ``streams``:
  streams groups (KIP-1071).
- ``admin``: list, describe and delete groups.
- ``described``: the steps that descriptions of the newer groups share.
- ``offset_commit``, ``offset_fetch``, ``offset_delete``, ``txn_offset_commit``: committed offsets.
"""
