"""Classic groups: members join, the leader assigns, and a generation begins.

- ``group``: one group with the table of its states.
- ``stored_group``: converts a group to its record and back.
- ``joining``: the join phase.
- ``membership``: everything between two join phases.
- ``consumer_protocol``: subscriptions and assignments that consumers exchange through the
  coordinator.
"""
