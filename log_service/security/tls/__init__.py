"""TLS: what listeners and clients show and trust, and the byte stream between them.

- ``material``: keys and certificates out of PEM, PKCS12 and JKS. ``java_key_store``: the last of these. ``contexts``: what OpenSSL is told.
  ``cipher_suites``: Java's names for them.
- ``connection``: ``TlsConnection``, a byte stream over another one. ``failures``: what a handshake that failed is called.
- ``listener``: the handshakes of clients, their number and time, and who they are. ``outgoing``: the handshakes of our own connections.
- ``replacement``: whether new certificates may take the place of old ones while a node runs.
- ``distinguished_names``, ``principal_mapping``: the name in a certificate, as Java writes it, and the user that it stands for.
"""
