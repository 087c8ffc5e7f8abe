"""Transactions on the leaders of partitions.

- ``verifier``, ``verdicts``: ask whether a partition is in a transaction, and answer the client.
- ``marker_sender``, ``marker_writer``: send the markers of ending transactions, and write them.
"""
