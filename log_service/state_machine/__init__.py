"""State machines over replicated logs, the common part of the controller and the coordinators.

A machine decides with plain functions, which change nothing. Its state changes only when it replays
records. The runtime appends the records of a decision, and replies when they are committed.

- ``decision``: one decision: records, replies, timers, and the undoing of soft state.
- ``runtime``: runs one machine over one log in one epoch.
- ``stalls``: extends sessions after this process was paused or busy, because a silent client may
  then be alive.
"""
