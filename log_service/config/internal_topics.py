"""How many replicas the internal topics of coordinators have in a cluster of one broker.

Decides that a node alone makes one replica unless its file asks for more: Kafka's defaults ask for three, and such a node has no others.
"""

from log_service.config.server_values import ServerValues


def lone_factor(values: ServerValues, topic: str, *, is_only_voter: bool) -> int:
    """Return how many replicas a topic gets where there is one broker; ``topic`` is how the topic's keys begin."""
    name = f"{topic}.replication.factor"
    return 1 if is_only_voter and not values.is_set(name) else values.number(name)


def lone_min_isr(values: ServerValues, topic: str, *, is_only_voter: bool) -> int:
    """Return how many of them have to be in sync: no more than there are, unless the file says so."""
    name = f"{topic}.min.isr"
    min_isr = values.number(name)
    return min_isr if values.is_set(name) else min(min_isr, lone_factor(values, topic, is_only_voter=is_only_voter))
