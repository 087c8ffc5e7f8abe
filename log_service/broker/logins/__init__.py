"""Logins of the node's listeners.

- ``login``: one connection's login, before requests reach the pipeline. ``offered``: the mechanisms
  of a listener.
- ``tokens``: logins by delegation tokens.
- ``first_users``: warnings about a new cluster that no client could log in to.
"""
