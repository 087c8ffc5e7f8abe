"""Records that nodes write into logs and files, instead of sending them.

- ``metadata_records``: the metadata log.
- ``group_records``: the group coordinator's log: committed offsets and classic groups.
- ``consumer_group_records``, ``share_group_records``, ``streams_group_records``: the other kinds of
  groups in that log.
- ``transaction_records``: the transaction coordinator's log.
- ``share_state_records``: the share coordinator's log.
- ``control_records``: transaction markers, elections, ends of snapshots, voters.
- ``producer_snapshot``: the file of a partition's producers.
- ``serde``: the framing of metadata records, and of keys and values in the coordinators' logs. It
  is the only module that is not generated.
"""
