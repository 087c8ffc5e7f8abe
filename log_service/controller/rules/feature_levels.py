"""UpdateFeatures: the cluster's feature levels go up, or down where that loses nothing.

Decides on all updates of a request together: all or none. Which levels this software keeps is ``metadata.features``'. KIP-584, KIP-778.

Invariants: a level is written only where every registered broker keeps it; a level goes down only when the request says so; the KRaft
version, which lives in control records of the metadata log, never changes here.
"""

from collections.abc import Sequence
from enum import IntEnum

from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.features import KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from log_service.protocol.stored.metadata_records import FeatureLevelRecord, MetadataRecord


class UpgradeType(IntEnum):
    """Which way a level may go, by Kafka's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(image: MetadataImage, request: UpdateFeaturesRequest) -> tuple[list[MetadataRecord], UpdateFeaturesResponse]:
    """Return the records of all updates; levels that stay are no records. The results per feature are for versions 0 and 1.

    Raises:
        KafkaError: INVALID_UPDATE_VERSION, one of them cannot be; none is made.
    """
    records = _decide(image, request.feature_updates)
    results = [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in request.feature_updates]
    return ([] if request.validate_only else records), UpdateFeaturesResponse(error_message=None, results=results)


def _decide(image: MetadataImage, updates: Sequence[FeatureUpdateKey]) -> list[MetadataRecord]:
    levels = dict(image.features)
    records: list[MetadataRecord] = []
    for update in updates:
        name, level = update.feature, update.max_version_level
        _validate(image, update, levels.get(name, 0))
        if level != levels.get(name, 0):
            levels[name] = level
            records.append(FeatureLevelRecord(name=name, feature_level=level))
    return records


def _validate(image: MetadataImage, update: FeatureUpdateKey, present: int) -> None:
    name, level = update.feature, update.max_version_level
    way = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
    if way not in tuple(UpgradeType):
        fault = f"there is no upgrade type {way}; 1 is an upgrade, 2 a safe and 3 an unsafe downgrade"
    elif name not in SUPPORTED_FEATURES:
        fault = "this software does not have that feature"
    elif not max(lowest, 0) <= level <= highest:
        fault = f"this software keeps levels {lowest} to {highest}"
    elif level < present and way == UpgradeType.UPGRADE:
        fault = f"the level is {present}, and the request does not say that it may go down"
    elif name == KRAFT_VERSION and level != present:
        fault = f"the level is {present}, and that of a running cluster does not change here"
    else:
        fault = _brokers_fault(image, name, level)
    if fault:
        text = f"no feature was updated: {name or 'the empty name'} cannot become {level}: {fault}"
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _brokers_fault(image: MetadataImage, name: str, level: int) -> str:
    """Say which registered broker does not keep the level, nothing where all do."""
    for node_id, broker in sorted(image.cluster.brokers.items()):
        lowest, highest = broker.features.get(name, (0, 0))
        if not lowest <= level <= highest and (name == METADATA_VERSION or level > 0):
            return f"broker {node_id} keeps levels {lowest} to {highest}"
    return ""
