"""How much clients may ask for in a time (KIP-13, KIP-55, KIP-124, KIP-219, KIP-599, KIP-612).

``entities`` says which quota holds for a client, ``windows`` how fast a client has been and for how
long it has to pause, ``tokens`` how many partitions it may create and delete, ``description`` which
quotas a request asks to see. Broker and controller count by them.

Plain decisions: nothing here reads a clock, waits or touches a connection. Replication has
throttles of its own, beside the replicas.
"""
