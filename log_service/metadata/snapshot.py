"""An image as the records that build it, for snapshots of the metadata log.

This module decides the order of the records, which is Apache Kafka's. Features come first, and the
metadata version before the others, because they say which records may follow. Brokers and
controllers follow, then topics with their partitions, configurations, quotas, producer ids, ACLs,
SCRAM credentials and tokens.

Invariants:

- Replaying the records on an empty image gives an equal image. Only the KRaft version is missing,
  because a snapshot has it as a control record.
- Equal images give equal snapshots.
- No snapshot is made inside a metadata transaction, because the transaction's records would be
  lost.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from log_service.common.features import KRAFT_VERSION, METADATA_VERSION
from log_service.common.types import ProducerId
from log_service.metadata.access_records import (
    acl_record,
    credential_record,
    quota_records,
    token_record,
)
from log_service.metadata.image import (
    BrokerRegistration,
    ConfigsImage,
    ControllerRegistration,
    Endpoint,
    MetadataImage,
    TopicsImage,
)
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
    """Return the records that build ``image``, each type of record in the order of its keys."""
    assert image.open_transaction is None, (
        "a snapshot inside a metadata transaction would lose what it holds"
    )
    return chain(
        _features(image.features),
        (register_broker_record(broker) for broker in image.cluster.brokers.values()),
        (
            register_controller_record(controller)
            for controller in image.cluster.controllers.values()
        ),
        _topics(image.topics),
        _configs(image.configs),
        (
            record
            for entity, quotas in image.access.client_quotas.items()
            for record in quota_records(entity, quotas)
        ),
        _producer_ids(image.next_producer_id),
        (acl_record(entry) for entry in image.access.acls.values()),
        (
            credential_record(user, credential)
            for user, credential in image.access.scram_credentials.items()
        ),
        (token_record(token) for token in image.access.delegation_tokens.values()),
    )


def _features(levels: Mapping[str, int]) -> Iterator[MetadataRecord]:
    if METADATA_VERSION in levels:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION])
    for name, level in sorted(levels.items()):
        if name not in (METADATA_VERSION, KRAFT_VERSION):
            yield FeatureLevelRecord(name=name, feature_level=level)


def _topics(topics: TopicsImage) -> Iterator[MetadataRecord]:
    for name, topic in topics.by_name.items():
        yield TopicRecord(name=name, topic_id=topic.topic_id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic.topic_id, index, partition)


def _configs(configs: ConfigsImage) -> Iterator[MetadataRecord]:
    for (resource_type, resource_name), texts in configs.by_resource.items():
        for key, value in texts.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=key, value=value
            )


def _producer_ids(next_producer_id: ProducerId) -> Iterator[MetadataRecord]:
    if next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_producer_id)


def register_broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    """Return the record that registers a broker in its present state."""
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(**_endpoint(name, endpoint))
            for name, endpoint in broker.endpoints.items()
        ],
        features=[BrokerFeature(**_feature(name, span)) for name, span in broker.features.items()],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=(
            None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs)
        ),
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
    )


def register_controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    """Return the record that registers a controller."""
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            ControllerEndpoint(**_endpoint(name, endpoint))
            for name, endpoint in controller.endpoints.items()
        ],
        features=[
            ControllerFeature(**_feature(name, span)) for name, span in controller.features.items()
        ],
        zk_migration_ready=controller.is_zk_migration_ready,
    )


def _endpoint(name: str, endpoint: Endpoint) -> dict[str, Any]:
    return {
        "name": name,
        "host": endpoint.host,
        "port": endpoint.port,
        "security_protocol": endpoint.security_protocol,
    }


def _feature(name: str, span: tuple[int, int]) -> dict[str, Any]:
    return {"name": name, "min_supported_version": span[0], "max_supported_version": span[1]}
