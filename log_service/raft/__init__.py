"""The log of metadata and its quorum. This version's quorum is one voter: elections and replication add voters, not another log.

- ``core``: what a start decides about epochs, and what the high watermark is: plain functions.
- ``quorum_store``: the file ``quorum-state``.
- ``batches``: metadata records and control records to batches and back.
- ``snapshots``: ``<offset>-<epoch>.checkpoint`` files, ``bootstrap.checkpoint`` among them.
- ``format``: a fresh directory, as ``kafka-storage format --standalone`` leaves it.
- ``waits``: callers that wait for a commit.
- ``driver``: opens the log, appends, syncs in groups, hands out what is committed.
"""
