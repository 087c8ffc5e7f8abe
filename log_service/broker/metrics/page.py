"""The whole metrics page of a broker, family by family.

Decides the order of families, and where the task that makes the page lets other tasks run. Sums
over all partitions are made ``PARTITIONS_PER_TURN`` partitions at a time. The partitions that are
summed up are those at the start, so no counter falls because a topic was deleted meanwhile.
"""

from collections.abc import Iterator

from log_service.broker.metrics.authorizer import authorizer_families
from log_service.broker.metrics.clients import pushed_families
from log_service.broker.metrics.lag import group_families
from log_service.broker.metrics.logins import certificate_families, login_families
from log_service.broker.metrics.partitions import partition_families
from log_service.broker.metrics.process import process_families
from log_service.broker.metrics.quotas import quota_families
from log_service.broker.metrics.schema_validation import schema_validation_families
from log_service.broker.metrics.shares import share_families
from log_service.broker.metrics.sources import MetricsSources
from log_service.broker.metrics.state import (
    ClusterCounts,
    PartitionCounts,
    cleaner_families,
    connection_families,
    controller_families,
    coordinator_families,
    replica_families,
    storage_families,
    waiting_families,
)
from log_service.broker.metrics.traffic import producer_family, request_families, topic_families
from log_service.broker.metrics.transactions import late_before_ms, transaction_families
from log_service.coordinator.group.listing import GroupOverview
from log_service.metrics.exposition import Family
from log_service.replication.traffic import Traffic

PARTITIONS_PER_TURN = 250


def page(sources: MetricsSources) -> Iterator[Family | None]:
    """Yield every family, and None at the points where other tasks may run."""
    replicas, image = sources.node.replicas, sources.node.image()
    partitions = tuple(replicas.partitions.values())
    total = replicas.retired_traffic.copy()
    topics: dict[str, Traffic] = {}
    counts = PartitionCounts(late_before_ms=late_before_ms(sources))
    for start in range(0, len(partitions), PARTITIONS_PER_TURN):
        for partition in partitions[start : start + PARTITIONS_PER_TURN]:
            total.add(partition)
            topics.setdefault(partition.topic_partition.topic, Traffic()).add(partition)
            counts.add(partition)
        yield None
    yield from topic_families(topics, total)
    yield producer_family(sources.node.produced)
    yield from request_families(sources.meters, sources.now_ms())
    yield from connection_families(sources)
    yield from login_families(sources)
    yield from certificate_families(sources.certificate_days())
    yield from quota_families(sources.quotas, sources.now_ms())
    yield from authorizer_families(
        sources.decided,
        lambda name, value: sources.rates.of(("authorizer", name), value, sources.now_ms()),
    )
    yield from schema_validation_families(sources)
    yield from pushed_families(sources.node.telemetry.series, sources.now_ms())
    yield from replica_families(replicas, counts)
    yield from transaction_families(sources, counts.late)
    cluster = ClusterCounts()
    for number, topic in enumerate(image.topics.by_name.values(), 1):
        cluster.add(topic, image)
        if number % PARTITIONS_PER_TURN == 0:
            yield None
    yield from controller_families(sources, image, cluster)
    yield from waiting_families(sources)
    yield from share_families(sources)
    yield from storage_families(sources)
    yield from cleaner_families(sources)
    yield from process_families()
    groups: list[GroupOverview] = []
    for found in sources.node.groups.overviews():
        groups += found
        yield None
    yield from coordinator_families(groups)
    yield from group_families(groups, replicas.partitions)
    yield from partition_families(partitions, image)
