"""Finds and connects to the nodes of a cluster, and retries calls.

- ``cluster_view``: the known nodes, topics and leaders, as a value. ``cluster_metadata``: refreshes
  this view, and decides where requests go. Its connections are those of the package ``rpc``.
- ``env``: the real clock, randomness and network.
"""
