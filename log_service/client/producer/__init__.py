"""Records on their way in.

- ``producer``: the public class. ``intake``: from ``send`` into a batch, with ``interception`` (serializers, interceptors, headers) and
  ``partitioning`` (which partition a record goes to).
- ``accumulator``: batches that wait, by partition. ``shared_accumulator``, ``shared_intake``: the same for records from other threads.
- ``delivery``: one batch, and the receipts of its records.
- ``sender``: the task that sends batches to leaders. ``verdicts``: what a response means for a batch. ``sequences``: the numbers that make
  retries harmless (KIP-98).
- ``transaction_state``: which calls a transactional producer takes, and what failed; ``transaction_errors``: what codes mean for it;
  ``transactor``: the requests to coordinators (KIP-890).
"""
