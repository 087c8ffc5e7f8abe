"""The lake's account of transforms that commit to a topic or to a database.

The progress of such a transform is outside the lake: in the offsets of its group, or in its
database. The ledger is a copy of that progress, which sensors, lag and readers of dead letters use.

- ``ledger``: the lake table, with a row per partition and transaction.
- ``progress``: the types of progress, and where a run of a transform to a topic begins.
"""
