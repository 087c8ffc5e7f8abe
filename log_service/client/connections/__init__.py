"""Connects to a cluster's nodes: knows nodes and leaders, and tries calls again.

- ``cluster_view``: the known state of the cluster, as a value. ``cluster_metadata``: refreshes that
  state, and decides where requests go. It uses the connections of ``rpc``.
- ``env``: the real clock, randomness and network.
"""
