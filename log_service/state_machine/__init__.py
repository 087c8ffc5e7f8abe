"""State machines over replicated logs, the common part of the controller and the coordinators.

A machine decides with plain functions and changes in ``replay``. The runtime appends what it
decided and replies when that is committed.

- ``decision``: what a machine decided: records, replies, timers, and how to take soft state back.
- ``runtime``: one machine over one log in one epoch.
- ``stalls``: silence that is no sign of death, because this process was paused or busy.
"""
