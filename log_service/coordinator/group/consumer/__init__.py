"""Consumer groups (KIP-848): the coordinator assigns, and members follow by heartbeats.

- ``group``: one group as the log holds it.
- ``listing``: how groups are described.
- ``requests``: the checks of a heartbeat.
- ``heartbeats``: its effects.
- ``steps``: the steps that follow a member's request.
- ``reconciliation``: one member's next step towards its target.
- ``assignors``: the targets of all members.
- ``sessions``: how long members may take.
- ``removals``: members that leave or are removed.
- ``regex_refresher``: topics that regular expressions match.
"""
