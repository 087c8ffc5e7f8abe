"""Limits on the rates of clients (KIP-13, KIP-55, KIP-124, KIP-219, KIP-599, KIP-612).

- ``entities``: finds the quota of a client.
- ``windows``: measures a client's rate, and how long the client has to pause.
- ``tokens``: counts how many partitions a client may create and delete.
- ``description``: finds the quotas that a DescribeClientQuotas request selects.

Broker and controller use them. Nothing here reads a clock, waits or touches a connection.
Replication has throttles of its own, beside the replicas.
"""
