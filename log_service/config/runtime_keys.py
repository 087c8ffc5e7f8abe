"""Broker keys that are set at run time and not in the file.

DescribeConfigs lists them only if they are set.
"""

from log_service.config.definition import CLUSTER_WIDE, PER_BROKER, ConfigKey, ConfigType, at_least

_QUOTAS = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)

_ACTING_QUOTAS = frozenset(_QUOTAS[:2])

QUOTA_KEYS = {
    name: ConfigKey(
        name=name,
        type=ConfigType.LONG,
        default=None,
        validator=at_least(0),
        documentation="Bytes per second of throttled replication between nodes or directories.",
        reason="no limit is needed unless replicas move",
        update_mode=CLUSTER_WIDE,
        is_acting=name in _ACTING_QUOTAS,
    )
    for name in _QUOTAS
}

OBSERVER, OBSERVER_PROMOTION = "tidelog.observer", "tidelog.observer.promotion"
OBSERVER_KEYS = {
    OBSERVER: ConfigKey(
        name=OBSERVER,
        type=ConfigType.BOOLEAN,
        default=None,
        documentation=(
            "Whether the broker is an observer. Its replicas copy all records and never join the"
            " in-sync replicas. Needs the feature tidelog.observers."
        ),
        reason="no broker is an observer",
        update_mode=PER_BROKER,
    ),
    OBSERVER_PROMOTION: ConfigKey(
        name=OBSERVER_PROMOTION,
        type=ConfigType.STRING,
        default=None,
        documentation=(
            "Whether caught-up observers join the in-sync replicas of a partition that is below"
            " min.insync.replicas: under-min-isr, or by-hand for never."
        ),
        reason="an operator promotes observers by hand",
        update_mode=CLUSTER_WIDE,
    ),
}
"""Keys that are not Apache Kafka's.

The controller checks their values, which depend on the cluster.
"""
RUNTIME_KEYS = {**QUOTA_KEYS, **OBSERVER_KEYS}
