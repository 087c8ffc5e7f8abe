"""Producers, with and without transactions.

- ``producer``: the public class. ``intake``: puts a record from ``send`` into a batch, with
  ``interception`` (serializers, interceptors, headers) and ``partitioning`` (the partition of a
  record).
- ``accumulator``: waiting batches, by partition. ``shared_accumulator``, ``shared_intake``:
  ``accumulator`` and ``intake`` for records from other threads.
- ``delivery``: one batch, and the receipts of its records. A receipt is a future of the result.
- ``sender``: the task that sends batches to leaders. ``batch_actions``: decides what to do with a
  batch after its response. ``sequences``: sequence numbers, which make retries harmless (KIP-98).
- ``transaction_state``: the state machine of a transactional producer. ``transaction_errors``: the
  meaning of error codes for such a producer. ``transactor``: the requests to coordinators
  (KIP-890).
"""
