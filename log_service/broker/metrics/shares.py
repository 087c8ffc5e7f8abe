"""Metrics of share groups (KIP-1103) and of the share coordinator's writes (KIP-932).

They cover sessions of members, records in flight, acknowledgements, fetches, loads and expired
locks. Names are those of Apache Kafka's meters. If Apache Kafka shows a distribution, a sum and
a count show the mean. Apache Kafka locks a share partition for the time of a fetch, and shows that
time. Here reading and acquiring is one step, and the time of that step is shown.
"""

from collections.abc import Callable, Iterator, Mapping

from log_service.broker.metrics.sources import MetricsSources
from log_service.broker.metrics.state import counter, gauge
from log_service.broker.share.counts import FetchCounts, Spread
from log_service.broker.share.led_share_partition import LedSharePartition
from log_service.broker.share.shares import Shares
from log_service.common.types import SHARE_GROUP_STATE_TOPIC
from log_service.coordinator.share.record_states import AcknowledgeType
from log_service.coordinator.share.share_state import ShareKey
from log_service.metrics.exposition import Family, Labels, Sample, escaped, labels
from log_service.metrics.latency import NS_PER_MS, quantiles_ms


def share_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families of the share partitions that this node leads."""
    shares = sources.node.shares
    counts, sessions = shares.counts, shares.sessions
    prefix = "kafka_server_sharesessioncache_"
    yield gauge(
        f"{prefix}sharesessionscount", "Members of share groups that fetch here.", len(sessions)
    )
    yield gauge(
        f"{prefix}sharepartitionscount", "Partitions in their sessions.", sessions.partition_count
    )
    yield counter(
        f"{prefix}sharesessionevictions_total",
        "Sessions that ended with their connection.",
        shares.evicted_count,
    )
    prefix = "kafka_server_sharegroupmetrics_"
    acknowledged: list[Sample] = [
        ("", labels({"ackType": each.name.capitalize()}), shares.acknowledged[each])
        for each in AcknowledgeType
    ]
    text = "Fetches that waited until their deadline."
    yield counter(
        "kafka_server_delayedsharefetchmetrics_expires_total", text, shares.expired_fetch_count
    )
    text = "Acknowledgements of records that were stored, by type."
    yield Family(
        name=f"{prefix}recordacknowledgements_total",
        type="counter",
        help=text,
        samples=acknowledged,
    )
    yield counter(
        f"{prefix}partitionloadtimems_sum",
        "Milliseconds that loading share partitions took.",
        counts.load_ms,
    )
    yield counter(
        f"{prefix}partitionloadtimems_count", "Share partitions that were loaded.", counts.loads
    )
    yield from _fetch_families(shares.fetch_counts)
    yield from _partition_families(shares)
    yield counter(
        "tidelog_share_dead_letters_total",
        "Records of share groups that were given up with a dead letter.",
        counts.dead_letters,
    )
    yield from _coordinator_families(sources)


def _partition_families(shares: Shares) -> Iterator[Family]:
    """Yield the families of locks and batches of share partitions."""
    counts = shares.counts
    prefix = "kafka_server_sharepartitionmetrics_"
    expired: list[Sample] = [
        ("", "", counts.lock_timeouts),
        *_of_partitions(shares, lambda led: led.lock_timeout_count),
    ]
    text = (
        "Records whose lock expired: of share partitions that are served here, and without a label"
        " of all that ever were."
    )
    yield Family(
        name=f"{prefix}acquisitionlocktimeout_total", type="counter", help=text, samples=expired
    )
    in_flight = "Records of a group that are acquired, or wait for what came before them."
    records = _of_partitions(
        shares, lambda led: None if led.core is None else led.core.record_count
    )
    yield Family(
        name=f"{prefix}inflightmessagecount", type="gauge", help=in_flight, samples=records
    )
    batches = _of_partitions(shares, lambda led: None if led.core is None else led.core.batch_count)
    yield Family(
        name=f"{prefix}inflightbatchcount",
        type="gauge",
        help="The batches that they are in.",
        samples=batches,
    )
    text = "Milliseconds for which a fetch had a share partition to itself, to read and to acquire."
    yield _spreads(f"{prefix}fetchlocktimems", text, shares, lambda led: led.fetch_times.held_ms)
    text = (
        "The same as a percentage of the time since the fetch before it ended, summed up over all"
        " fetches."
    )
    yield _spreads(f"{prefix}fetchlockratio", text, shares, lambda led: led.fetch_times.percent)
    text = "Records of the batches that came in flight: acquired for the first time, or loaded."
    yield _spreads(f"{prefix}inflightbatchmessagecount", text, shares, lambda led: led.batch_counts)


def _fetch_families(by_group: Mapping[str, FetchCounts]) -> Iterator[Family]:
    """Yield two summaries for each group, over its fetches.

    The first is the percentage of a fetch's partitions from which it could acquire records. The
    second is the wait for the first such partition.
    """
    ratio = (
        "The percentage of its partitions that a fetch could acquire from, summed up over all"
        " fetches."
    )
    waited = "Milliseconds until there was a partition to acquire from, or the fetch gave up."
    ratios: list[Sample] = []
    waits: list[Sample] = []
    for group_id, counts in by_group.items():
        of_group = labels({"group": group_id})
        ratios += [("_sum", of_group, counts.percent_sum), ("_count", of_group, counts.fetch_count)]
        waits += [("_sum", of_group, counts.waited_ms), ("_count", of_group, counts.fetch_count)]
    prefix = "kafka_server_sharegroupmetrics_"
    yield Family(
        name=f"{prefix}requesttopicpartitionsfetchratio", type="summary", help=ratio, samples=ratios
    )
    yield Family(
        name=f"{prefix}topicpartitionsacquiretimems", type="summary", help=waited, samples=waits
    )


def _of_partitions(
    shares: Shares, value_of: Callable[[LedSharePartition], int | None]
) -> Iterator[Sample]:
    for key, led in shares.partitions.items():
        value = value_of(led)
        if value is not None:
            yield "", _labels_of(key, led), value


def _spreads(
    name: str, text: str, shares: Shares, spread_of: Callable[[LedSharePartition], Spread]
) -> Family:
    """Return a family with the sum and the count of each share partition's values."""
    samples: list[Sample] = []
    for key, led in shares.partitions.items():
        of_partition, spread = _labels_of(key, led), spread_of(led)
        samples += [("_sum", of_partition, spread.sum), ("_count", of_partition, spread.count)]
    return Family(name=name, type="summary", help=text, samples=samples)


def _labels_of(key: ShareKey, led: LedSharePartition) -> Labels:
    where = led.partition.topic_partition
    return f'group="{escaped(key.group_id)}",topic="{where.topic}",partition="{where.partition}"'


def _coordinator_families(sources: MetricsSources) -> Iterator[Family]:
    """Yield the families of the share coordinator's writes."""
    times, now_ms = sources.node.share_states.write_times, sources.now_ms()
    prefix = "kafka_server_share_coordinator_metrics_"
    rate = sources.rates.of(("share states", "written"), times.count, now_ms)
    busy_ms = sources.rates.of(("share states", "time"), times.sum_ns / NS_PER_MS, now_ms)
    yield counter(f"{prefix}write_total", "Writes of states of share groups.", times.count)
    yield gauge(f"{prefix}write_rate", "The same per second, lately.", rate)
    text = "How long they took, until replicas had them, in milliseconds."
    yield gauge(f"{prefix}write_latency_avg", text, busy_ms / rate if rate else 0.0)
    (longest_ms,) = quantiles_ms(times.recent(now_ms), (1.0,))
    yield gauge(f"{prefix}write_latency_max", "The longest of them, to within a tenth.", longest_ms)
    pruned: list[Sample] = [
        ("", labels({"topic": topic, "partition": index}), partition.log_start_offset)
        for (topic, index), partition in sources.node.replicas.partitions.items()
        if topic == SHARE_GROUP_STATE_TOPIC and partition.is_leader and not partition.is_offline
    ]
    text = "Before this offset no record of share states is needed any more."
    yield Family(name=f"{prefix}last_pruned_offset", type="gauge", help=text, samples=pruned)
