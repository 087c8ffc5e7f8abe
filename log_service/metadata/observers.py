"""Decides which brokers are observers: their replicas copy everything and are not in sync.

Observers acknowledge nothing and lead nothing. This module decides, from the metadata alone, which
brokers are observers, and when a partition needs its observers in sync. The controller, which
accepts in-sync replicas, and the leaders, which propose them, use the same rule. Apache Kafka has
no observers. The feature ``tidelog.observers`` keeps Apache Kafka's nodes out of a cluster that has
observers. A cluster without the feature has none.

The dynamic configuration ``tidelog.observer=true`` makes a broker an observer. With
``tidelog.observer.promotion=under-min-isr`` for all brokers, a partition adds observers that have
caught up to its ISR while fewer of its other replicas are in sync than ``min.insync.replicas``. It
removes the observers from the ISR when enough other replicas are in sync again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from log_service.common.features import OBSERVERS
from log_service.config.runtime_keys import OBSERVER, OBSERVER_PROMOTION
from log_service.metadata.image import MetadataImage, ResourceType

UNDER_MIN_ISR = "under-min-isr"
"""The value of ``tidelog.observer.promotion`` with which partitions under min ISR take their
observers.
"""


class Observers(NamedTuple):
    """The observers of a cluster, and whether a partition under min ISR adds them to its ISR."""

    node_ids: frozenset[int] = frozenset()
    is_promoting: bool = False

    def are_needed(self, isr: Iterable[int], min_isr: int) -> bool:
        """Whether observers may join the ISR, because too few other replicas are in sync."""
        return self.is_promoting and self.is_short(isr, min_isr)

    def is_short(self, isr: Iterable[int], min_isr: int) -> bool:
        """Whether a partition with this ISR would be under min ISR without its observers."""
        return sum(node_id not in self.node_ids for node_id in isr) < min_isr


NO_OBSERVERS = Observers()


def observers_of(image: MetadataImage) -> Observers:
    """Return the observers of a cluster."""
    if image.features.get(OBSERVERS, 0) == 0:
        return NO_OBSERVERS
    configs = image.configs
    node_ids = [
        node_id
        for node_id in image.cluster.brokers
        if configs.of(ResourceType.BROKER, str(node_id)).get(OBSERVER) == "true"
    ]
    is_promoting = configs.of(ResourceType.BROKER, "").get(OBSERVER_PROMOTION) == UNDER_MIN_ISR
    return Observers(frozenset(node_ids), is_promoting)
