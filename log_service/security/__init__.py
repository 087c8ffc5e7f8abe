"""Who is behind a connection, and what they may do. For brokers and clients: logins and encryption need both ends.

The rooms decide; brokers and clients act. Nothing here knows the metadata, a coordinator or a topic's partitions: credentials, ACLs and
tokens are handed in as values. What a room needs of the world (a clock, randomness, a pool of threads) is an argument.

- ``tls``: encryption, and the names in certificates. ``sasl``: the mechanisms of logins, and the broker's side of them. ``acls``: who
  may do what.
- ``login``: the client's side of logins, over a connection. ``outgoing``: what is done with each fresh connection: TLS, then a login.
- ``delegation``: delegation tokens (KIP-48).
- ``jwks``: the keys that OAUTHBEARER's tokens are checked with, fetched and kept. ``token_endpoint``: where a client's tokens come from.
  ``issuer_requests``: how both ask an issuer over HTTP. ``issuer_errors``: what its failures are called.
- ``file_marks``: whether a file holds what it held before. ``audit``: the lines of the audit log.
"""
