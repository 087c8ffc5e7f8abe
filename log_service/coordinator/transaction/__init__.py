"""Transactions: which producer owns a transactional id, which partitions its transaction has, and how it ends (KIP-98, KIP-360, KIP-890).

- ``transaction``: the value of one transactional id, and the table of allowed moves between its states.
- ``rules``: what each request makes of such a value; plain functions.
- ``records``: what ``__transaction_state`` holds.
- ``transaction_coordinator``: one shard: the transactional ids of one partition of that topic.
- ``waiting_requests``: the requests that came while the transaction before theirs was ending.
- ``markers``: which markers are owed to which partitions, and where they are on their way.
- ``listing``: what admin clients are told.
"""
