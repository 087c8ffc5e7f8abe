"""Consumer groups (KIP-848): members get their partitions in the responses to heartbeats.

The coordinator computes a target assignment for each member, and moves the member towards this
target step by step.

- ``group``: one group as the log stores it.
- ``listing``: descriptions of groups, and validation of their commits and fetches.
- ``requests``: the checks of a heartbeat that need no group.
- ``heartbeats``: the response to a heartbeat.
- ``steps``: the update of subscription, group epoch, targets and member after a request.
- ``reconciliation``: one member's next step towards its target.
- ``assignors``: the targets of all members.
- ``sessions``: the deadlines of members.
- ``removals``: members that leave or are removed.
- ``regex_refresher``: topics that regular expressions match.
"""
