"""Decides on UpdateFeatures, which changes the feature levels of the cluster (KIP-584, KIP-778).

Either all updates of a request are made, or none. ``metadata.features`` lists the levels
that this software supports.

Before the cluster begins to keep eligible leader replicas (ELR), min.insync.replicas becomes a
value of the whole cluster, and its values of single brokers are removed. Otherwise controllers with
different properties files would choose different ELR (KIP-966).

Invariants: a level is written only if every registered broker and controller supports it, because a
node that reads an unsupported level stops. A level is lowered only if the request allows it. The
KRaft version is a control record of the metadata log. This module decides whether it may be raised,
the leader of the quorum writes it, and it is never lowered.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION
from log_service.config.describe import format_value
from log_service.config.resolve import Layers, holding
from log_service.controller.rules.partitions import MIN_ISR
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.metadata.image import MetadataImage, ResourceType
from log_service.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from log_service.protocol.stored.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
)


class UpgradeType(IntEnum):
    """The direction in which a level may change. The values are Kafka's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, static_texts: Mapping[str, str]
) -> tuple[list[MetadataRecord], UpdateFeaturesResponse]:
    """Return the records of all updates, and the response. An unchanged level gets no record.

    Only versions 0 and 1 of the response hold a result for each feature. ``static_texts`` are the
    values of the controller's properties file.

    Raises:
        KafkaError: INVALID_UPDATE_VERSION, one update is impossible, so none is made.
    """
    records = _decide(image, request.feature_updates)
    if any(
        isinstance(record, FeatureLevelRecord)
        and record.name == ELIGIBLE_LEADER_REPLICAS
        and record.feature_level
        for record in records
    ):
        records = [*min_isr_records(image, static_texts), *records]
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=None)
        for update in request.feature_updates
    ]
    return ([] if request.validate_only else records), UpdateFeaturesResponse(
        error_message=None, results=results
    )


def _decide(image: MetadataImage, updates: Sequence[FeatureUpdateKey]) -> list[MetadataRecord]:
    levels = dict(image.features)
    records: list[MetadataRecord] = []
    for update in updates:
        name, level = update.feature, update.max_version_level
        _validate(image, update, levels.get(name, 0))
        if level != levels.get(name, 0):
            levels[name] = level
            if name != KRAFT_VERSION:
                records.append(FeatureLevelRecord(name=name, feature_level=level))
    return records


def _validate(image: MetadataImage, update: FeatureUpdateKey, present: int) -> None:
    name, level = update.feature, update.max_version_level
    way = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
    if way not in tuple(UpgradeType):
        fault = (
            f"there is no upgrade type {way}; 1 is an upgrade, 2 a safe and 3 an unsafe downgrade"
        )
    elif name not in SUPPORTED_FEATURES:
        fault = "this software does not have that feature"
    elif not max(lowest, 0) <= level <= highest:
        fault = f"this software keeps levels {lowest} to {highest}"
    elif level < present and way == UpgradeType.UPGRADE:
        fault = f"the level is {present}, and the request does not say that it may go down"
    elif level > present and way != UpgradeType.UPGRADE:
        fault = f"the level is {present}, and a downgrade cannot raise it"
    elif name == KRAFT_VERSION and level < present:
        fault = f"the level is {present}, and never goes down"
    else:
        fault = _members_fault(image, name, level)
    if fault:
        text = f"no feature was updated: {name or 'the empty name'} cannot become {level}: {fault}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _members_fault(image: MetadataImage, name: str, level: int) -> str:
    """Return a text that names a node without support for a level, or "" if all support it."""
    members = [
        *(
            ("broker", node_id, broker.features)
            for node_id, broker in sorted(image.cluster.brokers.items())
        ),
        *(
            ("controller", node_id, controller.features)
            for node_id, controller in sorted(image.cluster.controllers.items())
        ),
    ]
    for kind, node_id, features in members:
        lowest, highest = features.get(name, (0, 0))
        if not lowest <= level <= highest and (name == METADATA_VERSION or level > 0):
            return f"{kind} {node_id} keeps levels {lowest} to {highest}"
    return ""


def min_isr_records(image: MetadataImage, static_texts: Mapping[str, str]) -> list[MetadataRecord]:
    """Return the records that set min.insync.replicas for the whole cluster only.

    The values of single brokers are removed.
    """
    records: list[MetadataRecord] = []
    if MIN_ISR not in image.configs.of(ResourceType.BROKER, ""):
        text = format_value(holding(MIN_ISR, Layers(static=static_texts)).value)
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER, resource_name="", name=MIN_ISR, value=text
            )
        )
    for (resource_type, name), texts in image.configs.by_resource.items():
        if resource_type == ResourceType.BROKER and name and MIN_ISR in texts:
            records.append(
                ConfigRecord(
                    resource_type=resource_type, resource_name=name, name=MIN_ISR, value=None
                )
            )
    return records
