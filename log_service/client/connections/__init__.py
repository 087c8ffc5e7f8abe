"""The way to a cluster's nodes: which ones there are, which leads what, and how a call is tried again. Connections are ``rpc``'s.

- ``cluster_view``: what is known of the cluster, as a value. ``cluster_metadata``: how it stays fresh, and where requests go.
- ``env``: the real clock, randomness and network.
"""
