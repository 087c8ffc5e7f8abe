"""The changes between two images, gathered record by record.

Decides what each record of the metadata log changes. A delta copies nothing while records are replayed: it keeps the new value of what they
touched, and ``build`` makes one copy of each map that has changes (a topic's partitions only if that topic changed).

Invariants: replaying the same records on equal images builds equal images; a record that refers to what is not there is a broken log, and
says so with ``MetadataError``. Records of a kind that the image does not show (quotas, credentials, ACLs) are passed over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from uuid import UUID

from log_service.common.errors import TidelogError
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId, ProducerId, TopicId
from log_service.metadata.image import (
    EMPTY_IMAGE,
    BrokerRegistration,
    ClusterImage,
    ConfigsImage,
    ControllerRegistration,
    Endpoint,
    MetadataImage,
    ResourceType,
    TopicImage,
    TopicsImage,
)
from log_service.metadata.partition import PartitionRegistration, changed_partition, partition_of
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)


class MetadataError(TidelogError):
    """A metadata log whose records contradict each other: it was damaged, or written by software that is not compatible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTopic:
    """What became of one topic that exists after the delta: its new image, and the partitions that are new or changed."""

    topic: TopicImage
    changed_partitions: Mapping[int, PartitionRegistration]
    is_new: bool


class _TopicChanges:
    """The changes of one topic while records are replayed."""

    __slots__ = ("base", "is_new", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, base: TopicImage | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.base = base
        self.is_new = base is None
        self.partitions: dict[int, PartitionRegistration] = {}

    def partition(self, index: int) -> PartitionRegistration | None:
        if index in self.partitions:
            return self.partitions[index]
        return self.base.partitions.get(index) if self.base else None

    def build(self) -> TopicImage:
        partitions = {**self.base.partitions, **self.partitions} if self.base else self.partitions
        return TopicImage(name=self.name, topic_id=self.topic_id, partitions=partitions)


class MetadataDelta:
    """Changes on top of ``base``. ``replay`` takes records, ``build`` makes the next image; then the ``changed_*`` views are complete."""

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.changed_brokers: dict[NodeId, BrokerRegistration | None] = {}
        self.changed_configs: dict[tuple[int, str], dict[str, str]] = {}
        self.changed_features: dict[str, int] = {}
        self.deleted_topics: dict[TopicId, TopicImage] = {}
        self.changed_topics: dict[TopicId, ChangedTopic] = {}
        self._controllers: dict[NodeId, ControllerRegistration] = {}
        self._topics: dict[TopicId, _TopicChanges] = {}
        self._ids_by_name: dict[str, TopicId | None] = {}
        self._next_producer_id = base.next_producer_id

    @classmethod
    def from_nothing(cls, image: MetadataImage) -> "MetadataDelta":
        """Return a delta whose changes are all of ``image``, as if it had been built; nothing is replayed into it any more."""
        delta = cls(EMPTY_IMAGE)
        delta.changed_brokers.update(image.cluster.brokers)
        delta.changed_configs.update({resource: dict(configs) for resource, configs in image.configs.by_resource.items()})
        delta.changed_features.update(image.features)
        for name, topic in sorted(image.topics.by_name.items()):
            delta._topics[topic.topic_id] = _TopicChanges(name, topic.topic_id, None)
            delta.changed_topics[topic.topic_id] = ChangedTopic(topic=topic, changed_partitions=topic.partitions, is_new=True)
        delta._controllers.update(image.cluster.controllers)
        delta._next_producer_id = image.next_producer_id
        return delta

    @property
    def is_empty(self) -> bool:
        """Whether no record changed anything that the image shows."""
        return not (
            self.changed_brokers
            or self.changed_configs
            or self.changed_features
            or self.deleted_topics
            or self._topics
            or self._controllers
            or self._next_producer_id != self.base.next_producer_id
        )

    def replay(self, record: MetadataRecord) -> None:
        """Take one record.

        Raises:
            MetadataError: it refers to a broker, topic or partition that is not there.
        """
        handler = self._HANDLERS.get(type(record))
        if handler is not None:
            handler(self, record)

    def build(self, *, offset: int, epoch: int) -> MetadataImage:
        """Return the image after the last record, which lies at ``offset``."""
        topics = self._build_topics()
        return MetadataImage(
            cluster=self._build_cluster(),
            topics=topics,
            configs=self._build_configs(),
            features=self._build_features(),
            next_producer_id=self._next_producer_id,
            offset=offset,
            epoch=LeaderEpoch(epoch),
        )

    # What records do

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[NodeId(record.broker_id)] = BrokerRegistration(
            node_id=NodeId(record.broker_id),
            epoch=BrokerEpoch(record.broker_epoch),
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            is_in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
        )

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._controllers[NodeId(record.controller_id)] = ControllerRegistration(
            node_id=NodeId(record.controller_id),
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self.changed_brokers[NodeId(record.broker_id)] = None

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["is_fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["is_in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["log_dirs"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = tuple(record.cordoned_log_dirs)
        self.changed_brokers[broker.node_id] = replace(broker, **changes)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        broker = self._broker(record.id, record.epoch)
        self.changed_brokers[broker.node_id] = replace(broker, is_fenced=True)

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        broker = self._broker(record.id, record.epoch)
        self.changed_brokers[broker.node_id] = replace(broker, is_fenced=False)

    def _create_topic(self, record: TopicRecord) -> None:
        topic_id = TopicId(record.topic_id)
        if self._ids_by_name.get(record.name, None) or (record.name not in self._ids_by_name and record.name in self.base.topics.by_name):
            raise MetadataError(f"topic {record.name} is created twice")
        self._topics[topic_id] = _TopicChanges(record.name, topic_id, None)
        self._ids_by_name[record.name] = topic_id

    def _create_partition(self, record: PartitionRecord) -> None:
        self._topic(record.topic_id).partitions[record.partition_id] = partition_of(record)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        partition = topic.partition(record.partition_id)
        if partition is None:
            raise MetadataError(f"a change of partition {topic.name}-{record.partition_id}, which does not exist")
        topic.partitions[record.partition_id] = changed_partition(partition, record)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        del self._topics[topic.topic_id]
        self._ids_by_name[topic.name] = None
        self._forget_configs((ResourceType.TOPIC, topic.name))
        if topic.base is not None:
            self.deleted_topics[topic.topic_id] = topic.base

    def _forget_configs(self, resource: tuple[int, str]) -> None:
        if resource in self.changed_configs or self.base.configs.of(*resource):
            self.changed_configs[resource] = {}

    def _configure(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self.changed_configs.get(resource)
        if configs is None:
            configs = self.changed_configs[resource] = dict(self.base.configs.of(*resource))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        self.changed_features[record.name] = record.feature_level

    def _allocate_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = ProducerId(record.next_producer_id)

    # Lookups over base and changes

    def _broker(self, node_id: int, epoch: int) -> BrokerRegistration:
        node = NodeId(node_id)
        broker = self.changed_brokers[node] if node in self.changed_brokers else self.base.cluster.brokers.get(node)
        if broker is None or broker.epoch != epoch:
            raise MetadataError(f"a change of broker {node_id} with epoch {epoch}, which is not registered")
        return broker

    def _topic(self, topic_id: UUID) -> _TopicChanges:
        changes = self._topics.get(TopicId(topic_id))
        if changes is None:
            base = None if topic_id in self.deleted_topics else self.base.topics.by_id.get(TopicId(topic_id))
            if base is None:
                raise MetadataError(f"a change of topic {topic_id}, which does not exist")
            changes = self._topics[TopicId(topic_id)] = _TopicChanges(base.name, base.topic_id, base)
        return changes

    # The next image

    def _build_cluster(self) -> ClusterImage:
        if not self.changed_brokers and not self._controllers:
            return self.base.cluster
        brokers = {**self.base.cluster.brokers, **self.changed_brokers}
        return ClusterImage(
            brokers={node_id: broker for node_id, broker in brokers.items() if broker is not None},
            controllers={**self.base.cluster.controllers, **self._controllers},
        )

    def _build_topics(self) -> TopicsImage:
        if not self._topics and not self.deleted_topics:
            return self.base.topics
        by_name, by_id = dict(self.base.topics.by_name), dict(self.base.topics.by_id)
        for topic in self.deleted_topics.values():
            del by_name[topic.name], by_id[topic.topic_id]
        for changes in self._topics.values():
            topic = changes.build()
            by_name[topic.name] = by_id[topic.topic_id] = topic
            self.changed_topics[topic.topic_id] = ChangedTopic(topic=topic, changed_partitions=changes.partitions, is_new=changes.is_new)
        return TopicsImage(by_name=by_name, by_id=by_id)

    def _build_configs(self) -> ConfigsImage:
        if not self.changed_configs:
            return self.base.configs
        by_resource = {**self.base.configs.by_resource, **self.changed_configs}
        return ConfigsImage(by_resource={resource: configs for resource, configs in by_resource.items() if configs})

    def _build_features(self) -> Mapping[str, int]:
        if not self.changed_features:
            return self.base.features
        levels = {**self.base.features, **self.changed_features}
        return {name: level for name, level in levels.items() if level}

    _HANDLERS: ClassVar[Mapping[type, Callable[["MetadataDelta", Any], None]]] = {
        RegisterBrokerRecord: _register_broker,
        RegisterControllerRecord: _register_controller,
        UnregisterBrokerRecord: _unregister_broker,
        BrokerRegistrationChangeRecord: _change_broker,
        FenceBrokerRecord: _fence_broker,
        UnfenceBrokerRecord: _unfence_broker,
        TopicRecord: _create_topic,
        PartitionRecord: _create_partition,
        PartitionChangeRecord: _change_partition,
        RemoveTopicRecord: _remove_topic,
        ConfigRecord: _configure,
        FeatureLevelRecord: _set_feature,
        ProducerIdsRecord: _allocate_producer_ids,
    }


def _endpoints(end_points: Any) -> dict[str, Endpoint]:
    return {
        end_point.name: Endpoint(host=end_point.host, port=end_point.port, security_protocol=end_point.security_protocol)
        for end_point in end_points
    }


def _features(features: Any) -> dict[str, tuple[int, int]]:
    return {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in features}
