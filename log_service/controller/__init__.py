"""The owner of the cluster's metadata: every change of it is a decision made here and a batch of records in the metadata log.

- ``controller``: the core: one ``handle_<request>`` each, returns records, replies and timers; ``replay`` alone changes its state.
- ``topics``, ``partitions``, ``placement``: topics, their partitions, and which brokers hold them.
- ``brokers``: registration, heartbeats, fencing and what that does to leaders.
- ``configs``: changes of dynamic configuration.
- ``producer_ids``: blocks of producer ids.
- ``driver``: the shell: appends what was decided, replays it, answers when it is committed.
"""
