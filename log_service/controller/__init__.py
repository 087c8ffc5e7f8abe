"""The owner of the cluster's metadata: every change of it is a decision made here and a batch of records in the metadata log.

- ``rules``: one module for each family of decisions, all of them pure functions.
- ``controller``: the core: one ``handle_<request>`` each, returns records, replies and timers; ``replay`` alone changes its state.
- ``driver``: the shell: appends what was decided, replays it, responds when it is committed.
"""
