"""SASL: how a client proves who it is after it has connected (KIP-12, KIP-43, KIP-84, KIP-152, KIP-255, KIP-368, RFC 4422).

    credentials  what a broker keeps of a SCRAM password
    jaas         the text of ``sasl.jaas.config``, read
    mechanisms   what a login of any mechanism gives back, and the mechanisms' names
    plain        PLAIN, both sides
    oauthbearer  the broker's side of OAUTHBEARER
    oauth_client  the client's side of it
    web_tokens   JSON web tokens: which are valid
    scram        SCRAM: keys, proofs and the texts of its messages
    scram_client  the client's side of SCRAM
    scram_server  the broker's side of SCRAM
    scram_argument  a SCRAM user as the command line names it
    session      what a broker does with each frame of a connection until the login is complete, and when it is repeated

All of these decide and do nothing else: frames, users and random nonces are handed in.
"""
