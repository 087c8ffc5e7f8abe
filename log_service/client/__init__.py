"""The client: producer, consumer and admin for trio, and the same three as blocking classes for threads.

It speaks to any Kafka-compatible cluster. Names are loaded when they are first used, so that a service which only produces does not import
what only a consumer needs. The rooms, from the bottom up:

- ``backoff``, ``partitioning``, ``idempotence``, ``aborted``, ``fetch_session``, ``group_protocol``, ``assignors``, ``sticky_assignment``,
  ``arguments``: decisions without input or output. ``client_metrics``, ``quiet_log``: what clients count and say.
- ``connection_pool``: one connection per node and purpose, versions negotiated on each.
- ``cluster_view``, ``cluster_metadata``: what is known of the cluster, how it stays fresh, and how a call is tried again.
- ``interception``, ``delivery``, ``accumulator``, ``shared_accumulator``, ``verdicts``, ``sender``, ``producer``: records on their way
  in.
- ``subscriptions``, ``record_view``, ``record_rows``, ``record_reader``, ``fetch_exchange``, ``fetcher``, ``positions``, ``positioning``,
  ``commits``, ``membership``, ``rebalance``, ``consumer``: records on their way out; with numpy installed, twice as fast.
- ``admin_values``, ``admin_topics``, ``admin_groups``, ``admin_cluster_values``, ``admin_cluster``, ``offsets``, ``admin``: questions about
  topics, groups, offsets and what carries the cluster.
- ``range_reader``: exactly one range of offsets as raw batches; ``range_arrow``, above ``blocking``, as Arrow columns.
- ``portal``, ``blocking``, ``blocking_producer``: the same for programs without an event loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from log_service.client.admin import Admin
    from log_service.client.admin_cluster_values import (
        ElectionType,
        FeatureDescription,
        FeatureUpdate,
        LogDirDescription,
        ProducerDescription,
        QuorumDescription,
        QuorumReplica,
        RaftVoter,
        Reassignment,
        ReplicaDescription,
        TopicPartitionReplica,
        UpgradeType,
    )
    from log_service.client.admin_values import (
        ClusterDescription,
        CompactionResult,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        EpochEnd,
        FoundOffset,
        GroupDescription,
        GroupListing,
        ItemsFailed,
        MemberDescription,
        NewTopic,
        OffsetAndMetadata,
        OffsetSpec,
        PartitionOffsets,
        ResourceType,
        RetentionResult,
        TopicDescription,
        TopicListing,
    )
    from log_service.client.blocking import BlockingAdmin, BlockingConsumer
    from log_service.client.blocking_producer import BlockingDelivery, BlockingProducer
    from log_service.client.client_metrics import ClientMetrics, ConsumerMetrics, ProducerMetrics, TopicProduceMetrics
    from log_service.client.commits import CommitCallback
    from log_service.client.consumer import Consumer, ConsumerInterceptor
    from log_service.client.delivery import Delivery, DeliveryCallback, RecordMetadata
    from log_service.client.env import real_env
    from log_service.client.interception import ProducerInterceptor, ProducerRecord, Serializer
    from log_service.client.partitioning import Partitioner, murmur2, partition_of_key
    from log_service.client.producer import Producer
    from log_service.client.range_arrow import read_range_arrow
    from log_service.client.range_reader import RawBatches, read_range
    from log_service.client.rebalance import RebalanceCallback
    from log_service.client.record_view import ConsumerRecord, Deserializer, LogTruncation, RecordDeserializationError
    from log_service.common.errors import ConfigError, ErrorCode, KafkaError
    from log_service.common.types import TopicPartition

_HOMES = {
    "log_service.client.admin": ("Admin",),
    "log_service.client.admin_cluster_values": (
        "ElectionType",
        "FeatureDescription",
        "FeatureUpdate",
        "LogDirDescription",
        "ProducerDescription",
        "QuorumDescription",
        "QuorumReplica",
        "RaftVoter",
        "Reassignment",
        "ReplicaDescription",
        "TopicPartitionReplica",
        "UpgradeType",
    ),
    "log_service.client.admin_values": (
        "ClusterDescription",
        "CompactionResult",
        "ConfigChange",
        "ConfigEntry",
        "ConfigOperation",
        "ConfigResource",
        "EpochEnd",
        "FoundOffset",
        "GroupDescription",
        "GroupListing",
        "ItemsFailed",
        "MemberDescription",
        "NewTopic",
        "OffsetAndMetadata",
        "OffsetSpec",
        "PartitionOffsets",
        "ResourceType",
        "RetentionResult",
        "TopicDescription",
        "TopicListing",
    ),
    "log_service.client.blocking": ("BlockingAdmin", "BlockingConsumer"),
    "log_service.client.blocking_producer": ("BlockingDelivery", "BlockingProducer"),
    "log_service.client.client_metrics": ("ClientMetrics", "ConsumerMetrics", "ProducerMetrics", "TopicProduceMetrics"),
    "log_service.client.commits": ("CommitCallback",),
    "log_service.client.consumer": ("Consumer", "ConsumerInterceptor"),
    "log_service.client.delivery": ("Delivery", "DeliveryCallback", "RecordMetadata"),
    "log_service.client.env": ("real_env",),
    "log_service.client.interception": ("ProducerInterceptor", "ProducerRecord", "Serializer"),
    "log_service.client.partitioning": ("Partitioner", "murmur2", "partition_of_key"),
    "log_service.client.producer": ("Producer",),
    "log_service.client.rebalance": ("RebalanceCallback",),
    "log_service.client.record_view": ("ConsumerRecord", "Deserializer", "LogTruncation", "RecordDeserializationError"),
    "log_service.client.range_arrow": ("read_range_arrow",),
    "log_service.client.range_reader": ("RawBatches", "read_range"),
    "log_service.common.errors": ("ConfigError", "ErrorCode", "KafkaError"),
    "log_service.common.types": ("TopicPartition",),
}

__all__ = [
    "Admin",
    "BlockingAdmin",
    "BlockingConsumer",
    "BlockingDelivery",
    "BlockingProducer",
    "ClientMetrics",
    "ClusterDescription",
    "CommitCallback",
    "CompactionResult",
    "ConfigChange",
    "ConfigEntry",
    "ConfigError",
    "ConfigOperation",
    "ConfigResource",
    "Consumer",
    "ConsumerInterceptor",
    "ConsumerMetrics",
    "ConsumerRecord",
    "Delivery",
    "DeliveryCallback",
    "Deserializer",
    "ElectionType",
    "EpochEnd",
    "ErrorCode",
    "FeatureDescription",
    "FeatureUpdate",
    "FoundOffset",
    "GroupDescription",
    "GroupListing",
    "ItemsFailed",
    "KafkaError",
    "LogDirDescription",
    "LogTruncation",
    "MemberDescription",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PartitionOffsets",
    "Partitioner",
    "Producer",
    "ProducerDescription",
    "ProducerInterceptor",
    "ProducerMetrics",
    "ProducerRecord",
    "QuorumDescription",
    "QuorumReplica",
    "RaftVoter",
    "RawBatches",
    "Reassignment",
    "RebalanceCallback",
    "RecordDeserializationError",
    "RecordMetadata",
    "ReplicaDescription",
    "ResourceType",
    "RetentionResult",
    "Serializer",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionReplica",
    "TopicProduceMetrics",
    "UpgradeType",
    "murmur2",
    "partition_of_key",
    "read_range",
    "read_range_arrow",
    "real_env",
]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
