"""Authentication, authorization and encryption of connections, for brokers and clients.

The modules of this package decide, and brokers and clients act. They know neither the metadata, nor
coordinators, nor a topic's partitions. Credentials, ACLs and tokens are passed in as values. A
clock, randomness and a thread pool are passed in as arguments.

- ``tls``: encryption, and the names in certificates.
- ``sasl``: the SASL mechanisms, and the broker's side of a login.
- ``acls``: ACLs and the decisions made from them.
- ``login``: the client's side of a login, over a connection.
- ``outgoing``: TLS and then a login, on each connection that we open.
- ``delegation``: delegation tokens (KIP-48).
- ``jwks``: an issuer's public keys, with which OAUTHBEARER tokens are checked. ``oauth``: the check
  of tokens on a listener.
- ``token_endpoint``: the endpoint from which a client fetches its tokens.
- ``issuer_requests``: HTTP requests to an issuer, for keys and for tokens.
- ``issuer_errors``: the error of a failed exchange with an issuer.
- ``file_digests``: digests that show whether a file has changed.
- ``audit``: the lines of the audit log.
"""
