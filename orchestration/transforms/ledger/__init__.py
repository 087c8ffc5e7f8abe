"""The ledger: a lake table that copies the progress of transforms to a topic or a database.

The progress of such a transform is outside the lake: in the offsets of its group, or in its
database. Sensors, lag and readers of dead letters use the copy.

- ``ledger``: the lake table, with a row per partition and transaction.
- ``progress``: the types of progress, and where a run of a transform to a topic begins.
"""
