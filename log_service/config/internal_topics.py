"""The replication of internal topics in a cluster of one broker.

A node that is alone in its cluster makes one replica, unless its file sets another number. Kafka's
default is three, and such a node has no other brokers for them.
"""

from log_service.config.server_values import ServerValues


def lone_factor(values: ServerValues, topic: str, *, is_only_voter: bool) -> int:
    """Return an internal topic's replication factor while the cluster has one broker.

    ``topic`` is the prefix of the topic's keys.
    """
    name = f"{topic}.replication.factor"
    return 1 if is_only_voter and not values.is_set(name) else values.number(name)


def lone_min_isr(values: ServerValues, topic: str, *, is_only_voter: bool) -> int:
    """Return an internal topic's min ISR while the cluster has one broker.

    It is at most the replication factor, unless the file sets the min ISR.
    """
    name = f"{topic}.min.isr"
    min_isr = values.number(name)
    return (
        min_isr
        if values.is_set(name)
        else min(min_isr, lone_factor(values, topic, is_only_voter=is_only_voter))
    )
