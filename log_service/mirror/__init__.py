"""Copies topics of one cluster into another, exactly once. Their configs and their groups' offsets
come along (KIP-382, KIP-618).

A *flow* goes from a *source cluster* to a *target cluster*; one process runs several. The rooms:

- ``replication_policy``: what a topic is called in the target, and which topics would go in a circle.
- ``settings``: what a file in MirrorMaker's words asks for. ``settings_file`` reads it.
- ``progress``: how far a partition is mirrored, and which target offset an offset of the source has.
- ``topic_plan``, ``group_plan``: what to change in the target cluster.
- ``offsets_topic``: where progress is kept, in the target cluster, in the transactions that write the records.
- ``topic_keeper``, ``group_keeper``: topics and committed offsets, kept as in the source. ``retries``: when what failed is tried again.
- ``refused_configs``: topics are created and changed with those configs that the target takes.
- ``transfer``: records, in transactions. ``flow``: all of one flow. ``service``: all flows of a process.
- ``reachability``: whether the clusters respond.
- ``lag``: how far the flows are behind.
- ``complaints``: what goes wrong at the moment. ``held_topics``: what the target refuses, and is left for a while.

The mirror uses only what every Kafka client may do, so that either cluster may be Apache Kafka.
"""
