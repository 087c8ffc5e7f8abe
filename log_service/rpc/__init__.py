"""Sends requests of this process to nodes, over connections that are secured and negotiated.

Raft, replication, the client, and the code that asks the controller send through this package. None
of them opens a connection itself.

- ``pool``: sends a request to a destination and returns the response. A ``NodeChannel`` keeps the
  connection to one destination, and opens it again after a pause.
- ``connection``: one connection, secured, authenticated and negotiated, and its typed requests.
  Its ``Security`` adds TLS and SASL.
- ``versions``: chooses the version of each request. ``retry``: repeats failed attempts, with pauses
  between them.
- ``listener_checks``: finds out why a listener ends fresh connections without a response.
  ``hello``: the first bytes of a TLS handshake, to which every TLS listener responds.
- ``channel``: frames over one byte stream, with their correlation ids, deadlines and limits.
"""
