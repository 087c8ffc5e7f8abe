"""Classic groups: members join, the leader assigns, and a generation begins.

- ``group``: one group with the table of its states.
- ``stored_group``: converts a group to its record and back.
- ``joining``: the join phase.
- ``membership``: members that sync, send heartbeats, leave, or fall silent.
- ``consumer_protocol``: subscriptions and assignments that consumers exchange through the
  coordinator.
"""
