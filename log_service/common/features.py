"""Names of the features whose levels a cluster finalizes, and the levels of kraft.version.

Names and levels are Kafka's, except names that begin with ``tidelog.``. Nodes of Apache Kafka do
not know those, and are refused if their level is above 0. ``metadata.features`` has the levels that
this software supports.
"""

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"
OBSERVERS = "tidelog.observers"

STATIC_QUORUM = 0
"""The level of kraft.version at which the voters are configuration, equal on every node by
convention.
"""

DYNAMIC_QUORUM = 1
"""The level of kraft.version from which on the voters are records, added and removed while the
cluster runs (KIP-853).
"""
