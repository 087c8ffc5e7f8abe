"""Measures every figure that tidelog claims, on the machine at hand, beside its peer.

``python -m benchmarks`` prints one table per peer.

- ``broker_process``: the one way a broker is started, stopped and killed. ``apache_kafka`` prepares
  the peer's directory for it.
- ``rounds``: the one way to measure: families of figures, in rounds, their sides taking turns.
- ``table``: rows, goals, and how they are printed.
- ``instructions``: the cost of operations in instructions, of two checkouts side by side. ``wire``
  is its client.
- The node, beside Apache Kafka: ``produce``, ``consume``, ``latency``, ``groups``, ``rebalances``,
  ``footprint``, ``partitions``; our client, beside confluent-kafka: ``clients``.
- The path to a table: the other modules, each saying what it measures and beside whom.

A new family is a function in a module of its own and a line in ``__main__``. README.md has the
figures and tells how to read them.
"""
