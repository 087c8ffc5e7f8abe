"""The changes between two images, gathered record by record.

This module decides what each record of the metadata log changes. A delta copies nothing while
records are replayed. It keeps the new value of each object that they changed. ``build`` puts these
values into the maps of the base image. The records of a metadata transaction (KIP-868) are held
back until it ends, and then replayed together. An aborted transaction changes nothing.

Invariants:

- Replaying the same records on equal images builds equal images.
- Every record of Kafka 4.3's metadata log has an effect here, or is listed as one without effect.
- A record that refers to something unknown means a broken log, and is refused with
  ``MetadataError``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from log_service.common.features import KRAFT_VERSION
from log_service.common.sorted_map import changed_map
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId, ProducerId, TopicId
from log_service.metadata.access import AclEntry, DelegationToken, QuotaEntity, ScramUser
from log_service.metadata.access_records import acl_of, credential_of, quota_entity, token_of
from log_service.metadata.errors import MetadataError
from log_service.metadata.image import (
    AccessImage,
    BrokerRegistration,
    ClusterImage,
    ConfigsImage,
    ControllerRegistration,
    Endpoint,
    MetadataImage,
    OpenTransaction,
    ResourceType,
    TopicImage,
)
from log_service.metadata.topics_delta import ChangedTopic, TopicsDelta
from log_service.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from log_service.security.sasl.credentials import ScramCredential

if TYPE_CHECKING:
    from log_service.security.acls.index import AclIndex

K = TypeVar("K")
V = TypeVar("V")

_ENDS_OF_TRANSACTIONS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class MetadataDelta:
    """The changes of the image ``base``.

    ``replay`` applies records, and ``build`` makes the next image. Only then the ``changed_*``
    views are complete. In these views None marks a removed object, and an empty map marks removed
    configurations and quotas.
    """

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.changed_brokers: dict[NodeId, BrokerRegistration | None] = {}
        self.changed_controllers: dict[NodeId, ControllerRegistration | None] = {}
        self.changed_configs: dict[tuple[int, str], Mapping[str, str]] = {}
        self.changed_features: dict[str, int] = {}
        self.changed_acls: dict[int, AclEntry | None] = {}
        self.changed_scram_credentials: dict[ScramUser, ScramCredential | None] = {}
        self.changed_delegation_tokens: dict[str, DelegationToken | None] = {}
        self.changed_client_quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self._topics = TopicsDelta(base.topics)
        self._next_producer_id = base.next_producer_id
        self._transaction = base.open_transaction
        self._held = list(base.open_transaction.records) if base.open_transaction else []

    @classmethod
    def between(cls, base: MetadataImage, image: MetadataImage) -> "MetadataDelta":
        """Return the changes that lead from ``base`` to ``image``, as if they had been built.

        No more records are replayed into them.
        """
        delta = cls(base)
        delta._topics = TopicsDelta.between(base.topics, image.topics)
        delta._next_producer_id = image.next_producer_id
        delta._transaction = image.open_transaction
        delta.changed_brokers.update(_difference(base.cluster.brokers, image.cluster.brokers, None))
        delta.changed_controllers.update(
            _difference(base.cluster.controllers, image.cluster.controllers, None)
        )
        delta.changed_configs.update(
            _difference(base.configs.by_resource, image.configs.by_resource, {})
        )
        delta.changed_features.update(_difference(base.features, image.features, 0))
        delta.changed_acls.update(_difference(base.access.acls, image.access.acls, None))
        delta.changed_scram_credentials.update(
            _difference(base.access.scram_credentials, image.access.scram_credentials, None)
        )
        delta.changed_delegation_tokens.update(
            _difference(base.access.delegation_tokens, image.access.delegation_tokens, None)
        )
        delta.changed_client_quotas.update(
            _difference(base.access.client_quotas, image.access.client_quotas, {})
        )
        return delta

    @property
    def changed_topics(self) -> Mapping[TopicId, ChangedTopic]:
        """Topics that are new, or that have new or changed partitions, once the image is built."""
        return self._topics.changed

    @property
    def deleted_topics(self) -> Mapping[TopicId, TopicImage]:
        """Topics of the base image that were deleted, as they were in it."""
        return self._topics.deleted

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record to the delta, or hold it until its metadata transaction ends.

        Raises:
            MetadataError: the record refers to something unknown, such as a topic, or it begins or
                ends a metadata transaction out of order.
        """
        if self._transaction is not None and not isinstance(record, _ENDS_OF_TRANSACTIONS):
            self._held.append(record)
            return
        self.HANDLERS[type(record)](self, record)

    def replay_kraft_version(self, level: int) -> None:
        """Apply the KRaft version, which a control record of the log sets.

        The image has the version among the features, where responses to clients show it.
        """
        self.changed_features[KRAFT_VERSION] = level

    def build(self, *, offset: int, epoch: int) -> MetadataImage:
        """Return the image after the last record, which lies at ``offset``.

        No more records may be replayed into this delta.
        """
        transaction = self._transaction
        return MetadataImage(
            cluster=self._build_cluster(),
            topics=self._topics.build(),
            configs=self._build_configs(),
            features=self._build_features(),
            access=self._build_access(),
            next_producer_id=self._next_producer_id,
            open_transaction=(
                None if transaction is None else replace(transaction, records=tuple(self._held))
            ),
            offset=offset,
            epoch=LeaderEpoch(epoch),
        )

    # Metadata transactions

    def _begin_transaction(self, record: BeginTransactionRecord) -> None:
        if self._transaction is not None:
            raise MetadataError("a metadata transaction begins before the one before it has ended")
        self._transaction = OpenTransaction(name=record.name, records=())

    def _end_transaction(self, _record: EndTransactionRecord) -> None:
        for record in self._taken_from_transaction():
            self.replay(record)

    def _abort_transaction(self, _record: AbortTransactionRecord) -> None:
        self._taken_from_transaction()

    def _taken_from_transaction(self) -> list[MetadataRecord]:
        if self._transaction is None:
            raise MetadataError("the end of a metadata transaction that has not begun")
        held, self._held, self._transaction = self._held, [], None
        return held

    # Brokers and controllers

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
            cordoned_log_dirs=(
                None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs)
            ),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[NodeId(record.controller_id)] = ControllerRegistration(
            node_id=NodeId(record.controller_id),
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            is_zk_migration_ready=record.zk_migration_ready,
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

    def _broker(self, node_id: int, epoch: int) -> BrokerRegistration:
        broker = _newest(self.changed_brokers, self.base.cluster.brokers, NodeId(node_id))
        if broker is None or broker.epoch != epoch:
            raise MetadataError(
                f"a change of broker {node_id} with epoch {epoch}, which is not registered"
            )
        return broker

    # Topics and partitions

    def _create_topic(self, record: TopicRecord) -> None:
        self._topics.create_topic(record)

    def _create_partition(self, record: PartitionRecord) -> None:
        self._topics.create_partition(record)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        self._topics.change_partition(record)

    def _clear_eligible_leaders(self, record: ClearElrRecord) -> None:
        self._topics.clear_eligible_leaders(record)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        resource = (ResourceType.TOPIC, self._topics.remove_topic(record))
        if resource in self.changed_configs or self.base.configs.of(*resource):
            self.changed_configs[resource] = {}

    # Configurations, features, producer ids

    def _configure(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        present = self.changed_configs.get(resource, self.base.configs.of(*resource))
        self.changed_configs[resource] = changed_map(present, {record.name: record.value})

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        self.changed_features[record.name] = record.feature_level

    def _allocate_producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = ProducerId(record.next_producer_id)

    # Access

    def _add_acl(self, record: AccessControlEntryRecord) -> None:
        self.changed_acls[record.id.int] = acl_of(record)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if _newest(self.changed_acls, self.base.access.acls, record.id.int) is None:
            raise MetadataError(f"the removal of ACL {record.id}, which does not exist")
        self.changed_acls[record.id.int] = None

    def _set_credential(self, record: UserScramCredentialRecord) -> None:
        self.changed_scram_credentials[ScramUser(record.mechanism, record.name)] = credential_of(
            record
        )

    def _remove_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        self.changed_scram_credentials[ScramUser(record.mechanism, record.name)] = None

    def _set_token(self, record: DelegationTokenRecord) -> None:
        self.changed_delegation_tokens[record.token_id] = token_of(record)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.changed_delegation_tokens[record.token_id] = None

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity(record.entity)
        present = self.changed_client_quotas.get(
            entity, self.base.access.client_quotas.get(entity, {})
        )
        self.changed_client_quotas[entity] = changed_map(
            present, {record.key: None if record.remove else record.value}
        )

    # Nothing

    def _pass_over(self, record: NoOpRecord | ZkMigrationStateRecord) -> None:
        """Ignore a record without an effect.

        NoOpRecords only let the log grow. Kafka 4 ignores some records of older clusters, too.
        """

    # The next image

    def _build_cluster(self) -> ClusterImage:
        if not self.changed_brokers and not self.changed_controllers:
            return self.base.cluster
        return ClusterImage(
            brokers=changed_map(self.base.cluster.brokers, self.changed_brokers),
            controllers=changed_map(self.base.cluster.controllers, self.changed_controllers),
        )

    def _build_configs(self) -> ConfigsImage:
        if not self.changed_configs:
            return self.base.configs
        return ConfigsImage(
            by_resource=changed_map(
                self.base.configs.by_resource, _none_if_empty(self.changed_configs)
            )
        )

    def _build_features(self) -> Mapping[str, int]:
        if not self.changed_features:
            return self.base.features
        return changed_map(
            self.base.features,
            {name: level or None for name, level in self.changed_features.items()},
        )

    def _build_access(self) -> AccessImage:
        base = self.base.access
        if not (
            self.changed_acls
            or self.changed_scram_credentials
            or self.changed_delegation_tokens
            or self.changed_client_quotas
        ):
            return base
        return AccessImage(
            acls=changed_map(base.acls, self.changed_acls),
            acl_index=self._build_acl_index(),
            scram_credentials=changed_map(base.scram_credentials, self.changed_scram_credentials),
            delegation_tokens=changed_map(base.delegation_tokens, self.changed_delegation_tokens),
            client_quotas=changed_map(
                base.client_quotas, _none_if_empty(self.changed_client_quotas)
            ),
        )

    def _build_acl_index(self) -> "AclIndex | None":
        base, changed = self.base.access, self.changed_acls
        if not changed:
            return base.acl_index
        from log_service.security.acls.index import (  # noqa: PLC0415 - most clusters have no ACLs
            NO_INDEX,
        )

        added = [entry for entry in changed.values() if entry is not None]
        return (base.acl_index or NO_INDEX).changed(
            added, [base.acls[acl_id] for acl_id in changed if acl_id in base.acls]
        )

    HANDLERS: ClassVar[Mapping[type, Callable[["MetadataDelta", Any], None]]] = {
        RegisterBrokerRecord: _register_broker,
        RegisterControllerRecord: _register_controller,
        UnregisterBrokerRecord: _unregister_broker,
        BrokerRegistrationChangeRecord: _change_broker,
        FenceBrokerRecord: _fence_broker,
        UnfenceBrokerRecord: _unfence_broker,
        TopicRecord: _create_topic,
        PartitionRecord: _create_partition,
        PartitionChangeRecord: _change_partition,
        ClearElrRecord: _clear_eligible_leaders,
        RemoveTopicRecord: _remove_topic,
        ConfigRecord: _configure,
        FeatureLevelRecord: _set_feature,
        ProducerIdsRecord: _allocate_producer_ids,
        AccessControlEntryRecord: _add_acl,
        RemoveAccessControlEntryRecord: _remove_acl,
        UserScramCredentialRecord: _set_credential,
        RemoveUserScramCredentialRecord: _remove_credential,
        DelegationTokenRecord: _set_token,
        RemoveDelegationTokenRecord: _remove_token,
        ClientQuotaRecord: _set_quota,
        BeginTransactionRecord: _begin_transaction,
        EndTransactionRecord: _end_transaction,
        AbortTransactionRecord: _abort_transaction,
        NoOpRecord: _pass_over,
        ZkMigrationStateRecord: _pass_over,
    }
    """What every kind of record does."""


def _newest(changes: Mapping[K, V | None], base: Mapping[K, V], key: K) -> V | None:
    return changes[key] if key in changes else base.get(key)


def _none_if_empty(changes: Mapping[K, Mapping[str, V]]) -> dict[K, Mapping[str, V] | None]:
    return {key: values or None for key, values in changes.items()}


def _difference(base: Mapping[K, Any], image: Mapping[K, Any], gone: Any) -> dict[K, Any]:
    """Return the values of ``image`` that differ from ``base``, and ``gone`` for removed keys."""
    changes = {key: value for key, value in image.items() if base.get(key) != value}
    return changes | {key: gone for key in base if key not in image}


def _endpoints(end_points: Any) -> dict[str, Endpoint]:
    return {
        end_point.name: Endpoint(
            host=end_point.host, port=end_point.port, security_protocol=end_point.security_protocol
        )
        for end_point in end_points
    }


def _features(features: Any) -> dict[str, tuple[int, int]]:
    return {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }
