"""TLS: keys, certificates and trust of listeners and clients, and the encrypted byte stream.

- ``material``: keys and certificates from PEM, PKCS12 and JKS.
- ``java_key_store``: the JKS format.
- ``contexts``: OpenSSL contexts.
- ``cipher_suites``: Java's names of cipher suites.
- ``connection``: ``TlsConnection``, an encrypted byte stream over another byte stream.
- ``failures``: error texts of failed handshakes.
- ``listener``: the handshakes of clients, their limits, and the clients' principals.
- ``outgoing``: the handshakes of connections that we open.
- ``replacement``: the check of new certificates that replace old ones while a node runs.
- ``distinguished_names``: the name in a certificate, as Java writes it.
- ``principal_mapping``: the mapping from the name in a certificate to a user.
"""
