"""The compacted topic that holds all state of a registry: one reader and one fenced writer.

The modules, from the bottom up:

- ``errors``: why a read or a write failed, split by what the caller does next.
- ``topic``: creates the topic, and refuses one that would lose or reorder records.
- ``reader``: passes every record to a listener, in order, and follows the log without end.
- ``freshness``: how long a writer may trust its producer epoch.
- ``expiration``: warns of brokers that forget a writer too early.
- ``writer``: appends batches under a producer epoch, so that brokers refuse a superseded writer.
- ``schemas_log``: reader and writer together, as the registry uses them.

Nothing here knows the format of records, except for the key of the record that a new writer writes.
A registry's user needs READ and WRITE on the topic (CREATE on the cluster if it is missing), and
WRITE on the transactional id ``tidelog-schema-registry-<topic>``.
"""
