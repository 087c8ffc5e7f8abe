"""The replication of internal topics in a cluster of one broker.

A lone node makes one replica unless its file asks for more. Kafka's defaults ask for three, and
such a node has no others.
"""

from log_service.config.server_values import ServerValues


def lone_factor(values: ServerValues, topic: str, *, is_only_voter: bool) -> int:
    """Return a topic's replication factor with one broker. ``topic`` is the prefix of its keys."""
    name = f"{topic}.replication.factor"
    return 1 if is_only_voter and not values.is_set(name) else values.number(name)


def lone_min_isr(values: ServerValues, topic: str, *, is_only_voter: bool) -> int:
    """Return the topic's min ISR: no more than its replicas, unless the file says so."""
    name = f"{topic}.min.isr"
    min_isr = values.number(name)
    return (
        min_isr
        if values.is_set(name)
        else min(min_isr, lone_factor(values, topic, is_only_voter=is_only_voter))
    )
