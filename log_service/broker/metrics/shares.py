"""Share groups in numbers (KIP-1103): sessions of members, records in flight, acknowledgements, loads, locks that expired.

Decides the names, which are those of Apache Kafka's meters, as far as there is something to count: no fetch lock is waited for here,
because reading and acquiring is one step.
"""

from collections.abc import Iterator

from log_service.broker.metrics.sources import MetricsSources
from log_service.broker.metrics.state import counter, gauge
from log_service.broker.share.shares import Shares
from log_service.coordinator.share.record_states import AcknowledgeType
from log_service.metrics.exposition import Family, Sample, escaped, labels


def share_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield what this node leads of share groups."""
    shares = sources.node.shares
    counts, sessions = shares.counts, shares.sessions
    prefix = "kafka_server_sharesessioncache_"
    yield gauge(f"{prefix}sharesessionscount", "Members of share groups that fetch here.", len(sessions))
    yield gauge(f"{prefix}sharepartitionscount", "Partitions in their sessions.", sessions.partition_count)
    yield counter(f"{prefix}sharesessionevictions_total", "Sessions that ended with their connection.", shares.evicted_count)
    prefix = "kafka_server_sharegroupmetrics_"
    acknowledged: list[Sample] = [("", labels({"ackType": each.name.capitalize()}), shares.acknowledged[each]) for each in AcknowledgeType]
    text = "Acknowledgements of records that were stored, by type."
    yield Family(name=f"{prefix}recordacknowledgements_total", type="counter", help=text, samples=acknowledged)
    yield counter(f"{prefix}partitionloadtimems_sum", "Milliseconds that loading share partitions took.", counts.load_ms)
    yield counter(f"{prefix}partitionloadtimems_count", "Share partitions that were loaded.", counts.loads)
    prefix = "kafka_server_sharepartitionmetrics_"
    yield counter(f"{prefix}acquisitionlocktimeout_total", "Records whose lock expired.", counts.lock_timeouts)
    in_flight = "Records of a group that are acquired, or wait for what came before them."
    yield Family(name=f"{prefix}inflightmessagecount", type="gauge", help=in_flight, samples=_in_flight(shares, is_batches=False))
    yield Family(
        name=f"{prefix}inflightbatchcount", type="gauge", help="The batches that they are in.", samples=_in_flight(shares, is_batches=True)
    )
    yield counter("tidelog_share_dead_letters_total", "Records of share groups that were given up with a dead letter.", counts.dead_letters)


def _in_flight(shares: Shares, *, is_batches: bool) -> Iterator[Sample]:
    for key, led in shares.partitions.items():
        if led.core is not None:
            where = led.partition.topic_partition
            value = led.core.batch_count if is_batches else led.core.record_count
            yield "", f'group="{escaped(key.group_id)}",topic="{where.topic}",partition="{where.partition}"', value
