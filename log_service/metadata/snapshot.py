"""An image as the records that build it, for snapshots of the metadata log.

Decides the order: features first, because they say which records may follow, then controllers and brokers, topics with their partitions,
configurations and producer ids. Replaying the records on an empty image gives an equal one, but for the KRaft version, which a snapshot has
as a control record.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from log_service.metadata.features import KRAFT_VERSION, METADATA_VERSION
from log_service.metadata.image import BrokerRegistration, ControllerRegistration, Endpoint, MetadataImage
from log_service.metadata.partition import partition_record
from log_service.protocol.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records; each kind in a fixed order, so that equal images give equal snapshots."""
    yield from _features(image.features)
    for _, controller in sorted(image.cluster.controllers.items()):
        yield register_controller_record(controller)
    for _, broker in sorted(image.cluster.brokers.items()):
        yield register_broker_record(broker)
    for name, topic in sorted(image.topics.by_name.items()):
        yield TopicRecord(name=name, topic_id=topic.topic_id)
        for index, partition in sorted(topic.partitions.items()):
            yield partition_record(topic.topic_id, index, partition)
    for (resource_type, resource_name), configs in sorted(image.configs.by_resource.items()):
        for key, value in sorted(configs.items()):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=key, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)


def _features(levels: Mapping[str, int]) -> Iterator[MetadataRecord]:
    if METADATA_VERSION in levels:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION])
    for name, level in sorted(levels.items()):
        if name not in (METADATA_VERSION, KRAFT_VERSION):
            yield FeatureLevelRecord(name=name, feature_level=level)


def register_broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    """Return the record that registers a broker in the state it is in."""
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(**_endpoint(name, endpoint)) for name, endpoint in broker.endpoints.items()],
        features=[BrokerFeature(**_feature(name, span)) for name, span in broker.features.items()],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def register_controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    """Return the record that registers a controller."""
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        end_points=[ControllerEndpoint(**_endpoint(name, endpoint)) for name, endpoint in controller.endpoints.items()],
        features=[ControllerFeature(**_feature(name, span)) for name, span in controller.features.items()],
    )


def _endpoint(name: str, endpoint: Endpoint) -> dict[str, Any]:
    return {"name": name, "host": endpoint.host, "port": endpoint.port, "security_protocol": endpoint.security_protocol}


def _feature(name: str, span: tuple[int, int]) -> dict[str, Any]:
    return {"name": name, "min_supported_version": span[0], "max_supported_version": span[1]}
