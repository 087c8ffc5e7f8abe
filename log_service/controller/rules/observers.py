"""Decides on changes of ``tidelog.observer`` and ``tidelog.observer.promotion``.

An observer replicates partitions, but never leads one. It is in sync only while a partition needs
it (``metadata.observers``). A broker may become an observer only if no partition needs it: it leads
none, and each of its partitions has enough other replicas in sync. Leaders then remove it from the
in-sync sets as they remove a lagging follower. Other configuration is not decided here.
"""

from collections.abc import Mapping

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import OBSERVERS
from log_service.common.types import NodeId
from log_service.config.runtime_keys import OBSERVER, OBSERVER_PROMOTION
from log_service.controller.rules.partitions import Partitions
from log_service.metadata.observers import UNDER_MIN_ISR, Observers, observers_of

_VALUES = {OBSERVER: ("true", "false"), OBSERVER_PROMOTION: ("by-hand", UNDER_MIN_ISR)}


def validate_observer_change(
    partitions: Partitions, broker_name: str, changed: Mapping[str, str | None]
) -> None:
    """Check the observer keys of a broker's new configuration.

    ``broker_name`` is empty for all brokers.

    Raises:
        KafkaError: INVALID_CONFIG, a value or the broker is wrong, or the cluster lacks the
            feature; POLICY_VIOLATION, a partition needs the broker.
    """
    for name, values in _VALUES.items():
        text = changed.get(name)
        if text is None:
            continue
        if text not in values:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{name} is {' or '.join(values)}, not {text!r}"
            )
        if bool(broker_name) != (name == OBSERVER):
            where = "for single brokers" if name == OBSERVER else "for all brokers together"
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is set {where}")
        if partitions.image.features.get(OBSERVERS, 0) == 0:
            text = (
                f"{name} needs the feature {OBSERVERS} at level 1, which every broker and"
                " controller has to know; nodes of Apache Kafka do not. Set it with:"
                f" kafka-features.sh upgrade --feature {OBSERVERS}=1"
            )
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    if changed.get(OBSERVER) == "true":
        _check_spared(partitions, NodeId(int(broker_name)))


def _check_spared(partitions: Partitions, node_id: NodeId) -> None:
    """Refuse to make a broker an observer if a partition needs it."""
    present = observers_of(partitions.image)
    observers = Observers(present.node_ids | {node_id}, present.is_promoting)
    if node_id in present.node_ids:
        return
    for topic, index, partition in partitions.iterate():
        if node_id not in (partition.leader, *partition.isr, *partition.eligible_leader_replicas):
            continue
        min_isr = partitions.policy_of(topic).min_isr
        if partition.leader == node_id:
            fault = "leads it: let another broker lead first"
        elif node_id in partition.eligible_leader_replicas:
            fault = "may be elected for it: wait until enough others are in sync"
        elif observers.is_short(partition.isr, min_isr):
            fault = (
                f"is in sync, and without it fewer than {min_isr} would be, as min.insync.replicas"
                " asks for"
            )
        else:
            continue
        text = (
            f"broker {node_id} cannot become an observer, {topic.name}-{index} needs it: it {fault}"
        )
        raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
