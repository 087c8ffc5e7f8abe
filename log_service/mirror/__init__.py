"""Copies topics of one cluster into another exactly once, with configs and committed offsets.

KIP-382, KIP-618. A *flow* goes from a *source cluster* to a *target cluster*. One process runs
several flows. The modules:

- ``replication_policy``: names mirrored topics in the target, and detects topics that came from
  the target.
- ``settings``: the meaning of a settings file with MirrorMaker's keys. ``settings_file`` reads it.
- ``progress``: the mirrored offset of a partition, and the translation of source offsets.
- ``topic_plan``, ``group_plan``: decide the changes in the target cluster.
- ``offsets_topic``: the topic of the target that holds the progress. Records and progress are
  written in the same transactions.
- ``topic_keeper``, ``group_keeper``: make those changes at intervals. ``retries``: decides when a
  failed change is tried again.
- ``refused_configs``: creates and alters topics without the configs that the target refuses.
- ``transfer``: mirrors records in transactions. ``flow``: one flow. ``service``: all flows of a
  process.
- ``reachability``: checks whether the clusters respond.
- ``lag``: measures the lag of flows.
- ``complaints``: the present problems of a flow. ``held_topics``: topics that are not mirrored for
  a while, because the target refuses their records.

The mirror uses only APIs that every Kafka client may use, so either cluster may be Apache Kafka.
"""
