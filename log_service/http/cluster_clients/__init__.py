"""Clients of the cluster that act as the user behind an HTTP request.

The cluster decides by its own ACLs what that user may do, so HTTP services have no rights of
their own to give away. The rooms, from the bottom up:

- ``credentials``: the login that a request carries.
- ``hosted``: a client that outlives the request which opened it.
- ``pool``: the clients of each login, kept open between requests within bounds.
"""
