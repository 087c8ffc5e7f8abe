"""Transactions: producers, partitions and outcomes of transactional ids (KIP-98, KIP-360, KIP-890).

- ``transaction``: the value of one transactional id, and the table of its state transitions.
- ``rules``: the effect of each request on such a value, as plain functions.
- ``records``: the records of ``__transaction_state``.
- ``transaction_coordinator``: one shard with the transactional ids of one partition.
- ``waiting_requests``: requests that wait for the end of the previous transaction.
- ``markers``: the markers that partitions must still get, waiting or in flight.
- ``listing``: views of transactional ids for admin clients.
"""
