from .admin.access import (
    AclBinding as AclBinding,
    AclFilter as AclFilter,
    DelegationTokenDescription as DelegationTokenDescription,
    ScramUser as ScramUser,
)
from .admin.admin import Admin as Admin
from .admin.share_groups import (
    ShareGroupDescription as ShareGroupDescription,
    ShareGroupOffset as ShareGroupOffset,
    ShareMemberDescription as ShareMemberDescription,
)
from .admin.values import (
    BrokerDescription as BrokerDescription,
    ClusterDescription as ClusterDescription,
    CompactionResult as CompactionResult,
    ConfigChange as ConfigChange,
    ConfigEntry as ConfigEntry,
    ConfigOperation as ConfigOperation,
    ConfigResource as ConfigResource,
    ConsumerGroupMetadata as ConsumerGroupMetadata,
    ElectionType as ElectionType,
    EpochEnd as EpochEnd,
    FeatureDescription as FeatureDescription,
    FeatureUpdate as FeatureUpdate,
    FoundOffset as FoundOffset,
    GroupDescription as GroupDescription,
    GroupListing as GroupListing,
    HangingTransaction as HangingTransaction,
    ItemsFailed as ItemsFailed,
    LogDirDescription as LogDirDescription,
    MemberDescription as MemberDescription,
    NewTopic as NewTopic,
    OffsetAndMetadata as OffsetAndMetadata,
    OffsetSpec as OffsetSpec,
    PartitionOffsets as PartitionOffsets,
    ProducerDescription as ProducerDescription,
    QuorumDescription as QuorumDescription,
    QuorumReplica as QuorumReplica,
    QuotaEntity as QuotaEntity,
    RaftVoter as RaftVoter,
    Reassignment as Reassignment,
    ReplicaDescription as ReplicaDescription,
    ResourceType as ResourceType,
    RetentionResult as RetentionResult,
    TopicDescription as TopicDescription,
    TopicListing as TopicListing,
    TopicOperations as TopicOperations,
    TopicPartitionReplica as TopicPartitionReplica,
    TransactionDescription as TransactionDescription,
    TransactionListing as TransactionListing,
    UpgradeType as UpgradeType,
)
from .asyncio.admin import AsyncioAdmin as AsyncioAdmin
from .asyncio.consumer import AsyncioConsumer as AsyncioConsumer
from .asyncio.producer import AsyncioDelivery as AsyncioDelivery, AsyncioProducer as AsyncioProducer
from .asyncio.share_consumer import AsyncioShareConsumer as AsyncioShareConsumer
from .blocking.admin import BlockingAdmin as BlockingAdmin
from .blocking.consumer import BlockingConsumer as BlockingConsumer
from .blocking.producer import (
    BlockingDelivery as BlockingDelivery,
    BlockingProducer as BlockingProducer,
)
from .blocking.range_arrow import (
    UnreadableBatch as UnreadableBatch,
    read_range_arrow as read_range_arrow,
)
from .blocking.share_consumer import BlockingShareConsumer as BlockingShareConsumer
from .connections.env import real_env as real_env
from .consumer.commits import CommitCallback as CommitCallback
from .consumer.consumer import Consumer as Consumer
from .consumer.interceptors import ConsumerInterceptor as ConsumerInterceptor
from .consumer.range_reader import RawBatches as RawBatches, read_range as read_range
from .consumer.rebalance import RebalanceCallback as RebalanceCallback
from .consumer.records import (
    ConsumerRecord as ConsumerRecord,
    ControlMarker as ControlMarker,
    Deserializer as Deserializer,
    LogRecord as LogRecord,
    LogTruncation as LogTruncation,
    RecordDeserializationError as RecordDeserializationError,
)
from .consumer.subscriptions import SubscriptionPattern as SubscriptionPattern
from .foundation import (
    ConfigError as ConfigError,
    ErrorCode as ErrorCode,
    KafkaError as KafkaError,
    TopicPartition as TopicPartition,
)
from .metrics import (
    ClientMetrics as ClientMetrics,
    ConsumerMetrics as ConsumerMetrics,
    ProducerMetrics as ProducerMetrics,
    TopicProduceMetrics as TopicProduceMetrics,
)
from .producer.delivery import (
    Delivery as Delivery,
    DeliveryCallback as DeliveryCallback,
    RecordMetadata as RecordMetadata,
)
from .producer.interception import (
    ProducerInterceptor as ProducerInterceptor,
    ProducerRecord as ProducerRecord,
    Serializer as Serializer,
)
from .producer.partitioning import (
    Partitioner as Partitioner,
    murmur2 as murmur2,
    partition_of_key as partition_of_key,
)
from .producer.producer import Producer as Producer
from .producer.transaction_errors import (
    ProducerFailed as ProducerFailed,
    ProducerFenced as ProducerFenced,
    TransactionAbortable as TransactionAbortable,
)
from .schemas.avro import (
    AvroDeserializer as AvroDeserializer,
    AvroSerializer as AvroSerializer,
    BlockingAvroDeserializer as BlockingAvroDeserializer,
    BlockingAvroSerializer as BlockingAvroSerializer,
)
from .schemas.errors import (
    SchemaRegistryError as SchemaRegistryError,
    SerializationError as SerializationError,
)
from .schemas.json_schema import (
    BlockingJsonSchemaDeserializer as BlockingJsonSchemaDeserializer,
    BlockingJsonSchemaSerializer as BlockingJsonSchemaSerializer,
    JsonSchemaDeserializer as JsonSchemaDeserializer,
    JsonSchemaSerializer as JsonSchemaSerializer,
)
from .schemas.protobuf import (
    BlockingProtobufDeserializer as BlockingProtobufDeserializer,
    BlockingProtobufSerializer as BlockingProtobufSerializer,
    ProtobufDeserializer as ProtobufDeserializer,
    ProtobufSerializer as ProtobufSerializer,
)
from .schemas.registry_client import (
    BlockingSchemaRegistryClient as BlockingSchemaRegistryClient,
    SchemaRegistryClient as SchemaRegistryClient,
)
from .schemas.subject_names import SubjectNameStrategy as SubjectNameStrategy
from .schemas.values import (
    CompatibilityResult as CompatibilityResult,
    RegisteredSchema as RegisteredSchema,
    Schema as Schema,
    SchemaReference as SchemaReference,
)
from .settings_files import (
    settings_from_environment as settings_from_environment,
    settings_from_file as settings_from_file,
)
from .share.acknowledgements import AcknowledgeCallback as AcknowledgeCallback
from .share.consumer import ShareConsumer as ShareConsumer
from .share.leases import Lease as Lease, LeaseToken as LeaseToken, ShareLeases as ShareLeases
from .share.metrics import ShareConsumerMetrics as ShareConsumerMetrics
from .share.records import (
    AcknowledgeType as AcknowledgeType,
    ShareDeserializationError as ShareDeserializationError,
    ShareRecord as ShareRecord,
)
