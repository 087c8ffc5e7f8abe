"""SASL logins (KIP-12, KIP-43, KIP-84, KIP-152, KIP-255, KIP-368, RFC 4422).

- ``credentials``: the SCRAM credentials that a broker stores.
- ``jaas``: the parser of ``sasl.jaas.config``.
- ``mechanisms``: the outcomes of a login step, for all mechanisms, and the mechanisms' names.
- ``plain``: PLAIN, both sides.
- ``oauthbearer``: the broker's side of OAUTHBEARER.
- ``oauth_client``: the client's side of OAUTHBEARER.
- ``web_tokens``: the validation of JSON web tokens.
- ``scram``: keys, proofs and messages of SCRAM.
- ``scram_client``: the client's side of SCRAM.
- ``scram_server``: the broker's side of SCRAM.
- ``scram_argument``: a SCRAM user as given on the command line.
- ``session``: the broker's handling of each frame until the login is complete, and of later logins.

These modules only decide. Frames, users and random nonces are passed in.
"""
