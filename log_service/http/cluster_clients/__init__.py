"""Clients of the cluster that act as the user behind an HTTP request.

The cluster decides by its own ACLs what that user may do, so a request never gets the rights of the
HTTP service. The modules, from the bottom up:

- ``credentials``: the user and password, or the token, of a request.
- ``hosted``: a client that outlives the request which opened it.
- ``pool``: the clients of each login, kept open between requests within bounds.
"""
