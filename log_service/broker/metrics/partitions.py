"""Metrics with one row for each partition.

The families are ``kafka_log_log_*``, ``kafka_cluster_partition_*`` and kafka_exporter's
``kafka_topic_partition_*``. Decides their names. Ten thousand partitions are more than a hundred
thousand lines, so each line is made while it is written and none is kept.
"""

from collections.abc import Callable, Iterator, Sequence

from log_service.metadata.image import MetadataImage
from log_service.metrics.exposition import Family, Sample
from log_service.replication.partition import Partition

Read = Callable[[Partition], int]


def min_isr_of(partition: Partition) -> int:
    """Return min.insync.replicas of the partition, at most its replica count."""
    wanted = 1 if partition.log is None else partition.log.config.min_insync_replicas
    return min(wanted, partition.replica_count)


def is_under_replicated(partition: Partition) -> bool:
    """Return whether this node leads the partition and a replica is not in sync."""
    return partition.is_leader and len(partition.isr) < partition.replica_count


LOG_GAUGES: Sequence[tuple[str, str, Read]] = (
    (
        "kafka_log_log_size",
        "Bytes of all segments.",
        lambda partition: partition.log.size_bytes if partition.log else 0,
    ),
    (
        "kafka_log_log_numlogsegments",
        "Segments.",
        lambda partition: len(partition.log.segments) if partition.log else 0,
    ),
    (
        "kafka_log_log_logstartoffset",
        "First offset.",
        lambda partition: partition.log.log_start_offset if partition.log else -1,
    ),
    (
        "kafka_log_log_logendoffset",
        "Offset of the next record.",
        lambda partition: partition.log.log_end_offset if partition.log else -1,
    ),
)
LEADER_GAUGES: Sequence[tuple[str, str, Read]] = (
    (
        "kafka_cluster_partition_underreplicated",
        "Whether a replica is not in sync.",
        lambda partition: int(is_under_replicated(partition)),
    ),
    (
        "kafka_cluster_partition_underminisr",
        "Whether fewer replicas are in sync than min.insync.replicas.",
        lambda partition: int(len(partition.isr) < min_isr_of(partition)),
    ),
    (
        "kafka_cluster_partition_atminisr",
        "Whether just min.insync.replicas are in sync.",
        lambda partition: int(len(partition.isr) == min_isr_of(partition)),
    ),
    (
        "kafka_cluster_partition_insyncreplicascount",
        "Replicas in sync.",
        lambda partition: len(partition.isr),
    ),
    (
        "kafka_cluster_partition_laststableoffsetlag",
        "How far readers of committed records are held back: to the high watermark.",
        lambda partition: partition.high_watermark - partition.state.last_stable_offset,
    ),
    (
        "kafka_cluster_partition_replicascount",
        "Replicas.",
        lambda partition: partition.replica_count,
    ),
    (
        "kafka_topic_partition_current_offset",
        "High watermark: the end of what consumers may read.",
        lambda partition: partition.high_watermark,
    ),
    (
        "kafka_topic_partition_oldest_offset",
        "First offset.",
        lambda partition: partition.log_start_offset,
    ),
    ("kafka_topic_partition_leader", "Node id of the leader.", lambda partition: partition.leader),
    ("kafka_topic_partition_replicas", "Replicas.", lambda partition: partition.replica_count),
    (
        "kafka_topic_partition_in_sync_replica",
        "Replicas in sync.",
        lambda partition: len(partition.isr),
    ),
    (
        "kafka_topic_partition_under_replicated_partition",
        "Whether a replica is not in sync.",
        lambda partition: int(is_under_replicated(partition)),
    ),
)


def partition_families(partitions: Sequence[Partition], image: MetadataImage) -> Iterator[Family]:
    """Yield the families about all partitions of this node, then those about the ones it leads."""
    for name, text, read in LOG_GAUGES:
        yield Family(name=name, type="gauge", help=text, samples=_rows(partitions, read))
    led = [partition for partition in partitions if partition.is_leader]
    for name, text, read in LEADER_GAUGES:
        yield Family(name=name, type="gauge", help=text, samples=_rows(led, read))
    name, text = (
        "kafka_topic_partition_leader_is_preferred",
        "Whether the partition's first replica leads it.",
    )
    yield Family(name=name, type="gauge", help=text, samples=_preferences(led, image))


def _preferences(led: Sequence[Partition], image: MetadataImage) -> Iterator[Sample]:
    for partition in led:
        topic, index = partition.topic_partition
        registration = image.topics.partition(topic, index)
        if registration is not None:
            yield (
                "",
                f'topic="{topic}",partition="{index}"',
                int(partition.leader == registration.replicas[0]),
            )


def _rows(partitions: Sequence[Partition], read: Read) -> Iterator[Sample]:
    for partition in partitions:
        topic, index = partition.topic_partition  # names of topics need no escaping
        yield "", f'topic="{topic}",partition="{index}"', read(partition)
