"""The controller, which decides on every change of the cluster's metadata.

Each decision becomes a batch of records in the metadata log.

- ``rules``: one module for each family of decisions, all of them pure functions.
- ``controller``: the core, a state machine. It passes each request to its rule. Only ``replay``
  changes the metadata.
- ``driver``: the shell. It runs the core over the metadata log while this node leads the quorum.
- ``sessions``: the last heartbeats of brokers, which are held only in memory.
- ``death_watch``: decides when a broker whose connection ended counts as dead before its session
  ends. ``death_detector`` probes the broker's addresses.
- ``channel``: sends a message to the active controller, in this process or on another node.
  ``envelope`` and ``caller`` are for requests of clients.
"""
