"""The owner of the cluster's metadata.

Every change of the metadata is a decision made here and a batch of records in the metadata log.

- ``rules``: one module for each family of decisions, all of them pure functions.
- ``controller``: the core, a state machine. It passes a message to its rule. Only ``replay``
  changes the metadata.
- ``driver``: the shell. It runs the core over the metadata log while this node leads the quorum.
- ``sessions``: state of brokers that is in no log.
- ``death_watch``: decides when a broker whose connection ended counts as dead before its session
  ends. ``death_detector`` probes its addresses.
- ``channel``: sends a message to the active controller, here or elsewhere. ``envelope`` and
  ``caller`` are for requests of clients.
"""
