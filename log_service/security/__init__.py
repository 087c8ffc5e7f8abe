"""Who is behind a connection, and what they may do. For brokers and clients: logins and encryption need both ends.

The rooms decide; brokers and clients act. Nothing here knows the metadata, a coordinator or a topic's partitions: credentials, ACLs and
tokens are handed in as values. What a room needs of the world (a clock, randomness, a pool of threads) is an argument.
"""
