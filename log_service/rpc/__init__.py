"""Requests that this process sends to nodes: connections, versions, deadlines, pauses.

Raft, replication, the controller's users and the client send through here, and none of them opens a
connection by itself.

- ``pool``: (destination, request) -> response; a ``NodeChannel`` keeps the connection to one
  destination, and opens it again after a pause.
- ``connection``: one connection, secured, authenticated and negotiated, and its typed requests;
  ``Security`` is the place of TLS and SASL.
- ``versions``: which version of an API a request goes out in. ``retry``: pauses between attempts,
  and the loop around them.
- ``misfits``: finds out why a listener ends fresh connections without a response. ``hello``: the
  first bytes of a TLS handshake, to which every TLS listener responds.
- ``channel``: frames over one byte stream: correlation ids, requests in flight, deadlines, bounds.
"""
