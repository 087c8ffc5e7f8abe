"""State machines over replicated logs, the common part of the controller and the coordinators.

A machine decides with plain functions and changes in ``replay``. The runtime appends what it
decided and replies when that is committed.

- ``decision``: one decision: records, replies, timers, and the way to take soft state back.
- ``runtime``: runs one machine over one log in one epoch.
- ``stalls``: extends sessions after this process was paused or busy, because the silence of a
  client is then no sign of its death.
"""
