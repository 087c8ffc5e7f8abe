"""The client: producer, consumers and admin for trio, and the same for threads and for asyncio.

It speaks to any Kafka-compatible cluster. Names are loaded when they are first used, so that a service which only produces does not import
what only a consumer needs. The rooms, from the bottom up:

- ``connections``: what is known of the cluster, and the way to its nodes.
- ``producer``: records on their way in.
- ``admin``: questions about topics, groups, offsets and what carries the cluster, and changes to them.
- ``consumer``: records on their way out, with groups; and exact ranges of offsets. ``share``: records out of a queue.
- ``blocking``: the same for programs without an event loop. ``asyncio``: for programs on asyncio.

Beside them ``arguments`` checks what callers hand in, ``metrics`` counts, ``group_protocol`` holds the bytes that members of a group
exchange, ``settings_files`` reads settings that stand outside of a program, and ``portal`` runs a client in a thread of its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from log_service.client.admin.access import AclBinding, AclFilter, DelegationTokenDescription, ScramUser
    from log_service.client.admin.admin import Admin
    from log_service.client.admin.share_groups import ShareGroupDescription, ShareGroupOffset, ShareMemberDescription
    from log_service.client.admin.values import (
        BrokerDescription,
        ClusterDescription,
        CompactionResult,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        ConsumerGroupMetadata,
        ElectionType,
        EpochEnd,
        FeatureDescription,
        FeatureUpdate,
        FoundOffset,
        GroupDescription,
        GroupListing,
        HangingTransaction,
        ItemsFailed,
        LogDirDescription,
        MemberDescription,
        NewTopic,
        OffsetAndMetadata,
        OffsetSpec,
        PartitionOffsets,
        ProducerDescription,
        QuorumDescription,
        QuorumReplica,
        QuotaEntity,
        RaftVoter,
        Reassignment,
        ReplicaDescription,
        ResourceType,
        RetentionResult,
        TopicDescription,
        TopicListing,
        TopicPartitionReplica,
        TransactionDescription,
        TransactionListing,
        UpgradeType,
    )
    from log_service.client.asyncio.admin import AsyncioAdmin
    from log_service.client.asyncio.consumer import AsyncioConsumer
    from log_service.client.asyncio.producer import AsyncioDelivery, AsyncioProducer
    from log_service.client.asyncio.share_consumer import AsyncioShareConsumer
    from log_service.client.blocking.admin import BlockingAdmin
    from log_service.client.blocking.consumer import BlockingConsumer
    from log_service.client.blocking.producer import BlockingDelivery, BlockingProducer
    from log_service.client.blocking.range_arrow import read_range_arrow
    from log_service.client.blocking.share_consumer import BlockingShareConsumer
    from log_service.client.connections.env import real_env
    from log_service.client.consumer.commits import CommitCallback
    from log_service.client.consumer.consumer import Consumer, ConsumerInterceptor
    from log_service.client.consumer.range_reader import RawBatches, read_range
    from log_service.client.consumer.rebalance import RebalanceCallback
    from log_service.client.consumer.records import ConsumerRecord, Deserializer, LogTruncation, RecordDeserializationError
    from log_service.client.consumer.subscriptions import SubscriptionPattern
    from log_service.client.metrics import ClientMetrics, ConsumerMetrics, ProducerMetrics, TopicProduceMetrics
    from log_service.client.producer.delivery import Delivery, DeliveryCallback, RecordMetadata
    from log_service.client.producer.interception import ProducerInterceptor, ProducerRecord, Serializer
    from log_service.client.producer.partitioning import Partitioner, murmur2, partition_of_key
    from log_service.client.producer.producer import Producer
    from log_service.client.producer.transaction_errors import ProducerFailed, ProducerFenced, TransactionAbortable
    from log_service.client.settings_files import settings_from_environment, settings_from_file
    from log_service.client.share.acknowledgements import AcknowledgeCallback
    from log_service.client.share.consumer import ShareConsumer
    from log_service.client.share.metrics import ShareConsumerMetrics
    from log_service.client.share.records import AcknowledgeType, ShareDeserializationError, ShareRecord
    from log_service.common.errors import ConfigError, ErrorCode, KafkaError
    from log_service.common.types import TopicPartition

_HOMES = {
    "log_service.client.admin.access": ("AclBinding", "AclFilter", "DelegationTokenDescription", "ScramUser"),
    "log_service.client.admin.admin": ("Admin",),
    "log_service.client.admin.share_groups": (
        "ShareGroupDescription",
        "ShareGroupOffset",
        "ShareMemberDescription",
    ),
    "log_service.client.admin.values": (
        "BrokerDescription",
        "ClusterDescription",
        "CompactionResult",
        "ConfigChange",
        "ConfigEntry",
        "ConfigOperation",
        "ConfigResource",
        "ConsumerGroupMetadata",
        "ElectionType",
        "EpochEnd",
        "FeatureDescription",
        "FeatureUpdate",
        "FoundOffset",
        "GroupDescription",
        "GroupListing",
        "HangingTransaction",
        "ItemsFailed",
        "LogDirDescription",
        "MemberDescription",
        "NewTopic",
        "OffsetAndMetadata",
        "OffsetSpec",
        "PartitionOffsets",
        "ProducerDescription",
        "QuorumDescription",
        "QuorumReplica",
        "QuotaEntity",
        "RaftVoter",
        "Reassignment",
        "ReplicaDescription",
        "ResourceType",
        "RetentionResult",
        "TopicDescription",
        "TopicListing",
        "TopicPartitionReplica",
        "TransactionDescription",
        "TransactionListing",
        "UpgradeType",
    ),
    "log_service.client.asyncio.admin": ("AsyncioAdmin",),
    "log_service.client.asyncio.consumer": ("AsyncioConsumer",),
    "log_service.client.asyncio.producer": (
        "AsyncioDelivery",
        "AsyncioProducer",
    ),
    "log_service.client.asyncio.share_consumer": ("AsyncioShareConsumer",),
    "log_service.client.blocking.admin": ("BlockingAdmin",),
    "log_service.client.blocking.consumer": ("BlockingConsumer",),
    "log_service.client.blocking.producer": (
        "BlockingDelivery",
        "BlockingProducer",
    ),
    "log_service.client.blocking.range_arrow": ("read_range_arrow",),
    "log_service.client.blocking.share_consumer": ("BlockingShareConsumer",),
    "log_service.client.connections.env": ("real_env",),
    "log_service.client.consumer.commits": ("CommitCallback",),
    "log_service.client.consumer.consumer": (
        "Consumer",
        "ConsumerInterceptor",
    ),
    "log_service.client.consumer.range_reader": (
        "RawBatches",
        "read_range",
    ),
    "log_service.client.consumer.rebalance": ("RebalanceCallback",),
    "log_service.client.consumer.subscriptions": ("SubscriptionPattern",),
    "log_service.client.consumer.records": (
        "ConsumerRecord",
        "Deserializer",
        "LogTruncation",
        "RecordDeserializationError",
    ),
    "log_service.client.metrics": (
        "ClientMetrics",
        "ConsumerMetrics",
        "ProducerMetrics",
        "TopicProduceMetrics",
    ),
    "log_service.client.producer.delivery": (
        "Delivery",
        "DeliveryCallback",
        "RecordMetadata",
    ),
    "log_service.client.producer.interception": (
        "ProducerInterceptor",
        "ProducerRecord",
        "Serializer",
    ),
    "log_service.client.producer.partitioning": (
        "Partitioner",
        "murmur2",
        "partition_of_key",
    ),
    "log_service.client.producer.producer": ("Producer",),
    "log_service.client.producer.transaction_errors": (
        "ProducerFailed",
        "ProducerFenced",
        "TransactionAbortable",
    ),
    "log_service.client.settings_files": ("settings_from_environment", "settings_from_file"),
    "log_service.client.share.acknowledgements": ("AcknowledgeCallback",),
    "log_service.client.share.consumer": ("ShareConsumer",),
    "log_service.client.share.metrics": ("ShareConsumerMetrics",),
    "log_service.client.share.records": (
        "AcknowledgeType",
        "ShareDeserializationError",
        "ShareRecord",
    ),
    "log_service.common.errors": (
        "ConfigError",
        "ErrorCode",
        "KafkaError",
    ),
    "log_service.common.types": ("TopicPartition",),
}

__all__ = [
    "AcknowledgeCallback",
    "AcknowledgeType",
    "AclBinding",
    "AclFilter",
    "Admin",
    "AsyncioAdmin",
    "AsyncioConsumer",
    "AsyncioDelivery",
    "AsyncioProducer",
    "AsyncioShareConsumer",
    "BlockingAdmin",
    "BlockingConsumer",
    "BlockingDelivery",
    "BlockingProducer",
    "BlockingShareConsumer",
    "BrokerDescription",
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
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerMetrics",
    "ConsumerRecord",
    "DelegationTokenDescription",
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
    "HangingTransaction",
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
    "ProducerFailed",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerMetrics",
    "ProducerRecord",
    "QuorumDescription",
    "QuorumReplica",
    "QuotaEntity",
    "RaftVoter",
    "RawBatches",
    "Reassignment",
    "RebalanceCallback",
    "RecordDeserializationError",
    "RecordMetadata",
    "ReplicaDescription",
    "ResourceType",
    "RetentionResult",
    "ScramUser",
    "Serializer",
    "ShareConsumer",
    "ShareConsumerMetrics",
    "ShareDeserializationError",
    "ShareGroupDescription",
    "ShareGroupOffset",
    "ShareMemberDescription",
    "ShareRecord",
    "SubscriptionPattern",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionReplica",
    "TopicProduceMetrics",
    "TransactionAbortable",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
    "murmur2",
    "partition_of_key",
    "read_range",
    "read_range_arrow",
    "real_env",
    "settings_from_environment",
    "settings_from_file",
]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
