"""The owner of the cluster's metadata: every change of it is a decision made here and a batch of records in the metadata log.

- ``rules``: one module for each family of decisions, all of them pure functions.
- ``controller``: the core, a state machine: hands a message to its rule; ``replay`` alone changes the metadata.
- ``driver``: the shell: the core over the metadata log, while this node leads the quorum.
- ``sessions``: what the core knows of brokers and no log holds.
- ``death_watch``: when a broker whose connection ended counts as dead before its session ends; ``death_detector`` asks its addresses.
- ``channel``: the way of a message to the active controller, here or elsewhere; ``envelope`` and ``caller`` for what clients ask.
"""
