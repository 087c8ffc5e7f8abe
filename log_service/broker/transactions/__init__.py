"""Transactions on the leaders of partitions.

- ``verifier``: asks coordinators whether partitions are in a transaction.
  ``response_errors``: the errors that clients get if they are not.
- ``marker_sender``, ``marker_writer``: send the markers of ending transactions, and write them.
"""
