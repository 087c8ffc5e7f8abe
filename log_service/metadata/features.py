"""Feature levels: those that this software supports, and those of a new cluster.

This module decides whether this software can serve a cluster's finalized levels. Names and levels
are Kafka's: metadata.version 30 is 4.3-IV0. A feature that is not listed here has level 0, which
tells clients that it is missing.
"""

from collections.abc import Iterable, Mapping

from log_service.common.errors import StorageError
from log_service.common.features import (
    DYNAMIC_QUORUM,
    ELIGIBLE_LEADER_REPLICAS,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    OBSERVERS,
    SHARE_VERSION,
    STATIC_QUORUM,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from log_service.protocol.stored.metadata_records import FeatureLevelRecord, MetadataRecord

METADATA_VERSION_LEVEL = 30
ELIGIBLE_LEADERS_LEVEL = 1
"""The level of eligible.leader.replicas.version from which on a cluster keeps them (KIP-966)."""
CONSUMER_GROUPS_LEVEL = 1
"""The level of group.version from which on groups may use the consumer protocol (KIP-848)."""
CORDONS_LEVEL = 30
"""The metadata.version (4.3-IV0) from which on brokers report their cordoned log directories
(KIP-1066).
"""
SHARE_GROUPS_LEVEL = 1
"""The level of share.version from which on there are share groups (KIP-932)."""
STREAMS_GROUPS_LEVEL = 1
"""The level of streams.version from which on there are streams groups (KIP-1071)."""
TRANSACTION_VERSION_LEVEL = 2

SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    ELIGIBLE_LEADER_REPLICAS: (0, ELIGIBLE_LEADERS_LEVEL),
    GROUP_VERSION: (0, CONSUMER_GROUPS_LEVEL),
    KRAFT_VERSION: (STATIC_QUORUM, DYNAMIC_QUORUM),
    METADATA_VERSION: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    OBSERVERS: (0, 1),
    SHARE_VERSION: (0, SHARE_GROUPS_LEVEL),
    STREAMS_VERSION: (0, STREAMS_GROUPS_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
}
"""The lowest and highest supported level of each feature."""


FIRST_LEVELS: Mapping[str, int] = {
    METADATA_VERSION: METADATA_VERSION_LEVEL,
    ELIGIBLE_LEADER_REPLICAS: ELIGIBLE_LEADERS_LEVEL,
    GROUP_VERSION: CONSUMER_GROUPS_LEVEL,
    SHARE_VERSION: SHARE_GROUPS_LEVEL,
    STREAMS_VERSION: STREAMS_GROUPS_LEVEL,
    TRANSACTION_VERSION: TRANSACTION_VERSION_LEVEL,
}
"""The levels of a new cluster, in the order of its records."""


def is_supported(name: str, level: int) -> bool:
    """Whether this software can serve a feature at a finalized level."""
    lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
    return lowest <= level <= highest


def keeps_eligible_leaders(levels: Mapping[str, int]) -> bool:
    """Whether a cluster with these levels keeps eligible leader replicas (KIP-966)."""
    return levels.get(ELIGIBLE_LEADER_REPLICAS, 0) >= ELIGIBLE_LEADERS_LEVEL


def keeps_cordons(levels: Mapping[str, int]) -> bool:
    """Whether a cluster with these levels stores which log directories are cordoned (KIP-1066)."""
    return levels.get(METADATA_VERSION, 0) >= CORDONS_LEVEL


def has_consumer_groups(levels: Mapping[str, int]) -> bool:
    """Whether groups of a cluster with these levels may use the consumer protocol (KIP-848)."""
    return levels.get(GROUP_VERSION, 0) >= CONSUMER_GROUPS_LEVEL


def has_share_groups(levels: Mapping[str, int]) -> bool:
    """Whether a cluster with these levels has share groups (KIP-932)."""
    return levels.get(SHARE_VERSION, 0) >= SHARE_GROUPS_LEVEL


def has_streams_groups(levels: Mapping[str, int]) -> bool:
    """Whether a cluster with these levels has streams groups (KIP-1071)."""
    return levels.get(STREAMS_VERSION, 0) >= STREAMS_GROUPS_LEVEL


def first_feature_records() -> list[MetadataRecord]:
    """Return the records with which a new cluster begins.

    The KRaft version is missing here, because it is set by a control record.
    """
    return [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in FIRST_LEVELS.items()
    ]


def bootstrap_records(found: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    """Return the records with which an empty metadata log begins.

    ``found`` are the bootstrap records of a formatted directory. Unsupported levels of optional
    features are left out, so that they stay at level 0. An unsupported metadata version is refused.
    If no records are left, the result is ``first_feature_records``.

    Raises:
        StorageError: the directory was formatted for another metadata version.
    """
    records: list[MetadataRecord] = []
    for record in found:
        if isinstance(record, FeatureLevelRecord) and not is_supported(
            record.name, record.feature_level
        ):
            if record.name == METADATA_VERSION:
                raise StorageError(_unsupported(record.name, record.feature_level))
            continue
        records.append(record)
    return records or first_feature_records()


def validate_levels(levels: Mapping[str, int]) -> None:
    """Check the finalized levels of an existing cluster.

    Raises:
        StorageError: this version cannot serve one of the levels.
    """
    for name, level in sorted(levels.items()):
        if not is_supported(name, level):
            raise StorageError(_unsupported(name, level))


def unserved_levels(levels: Mapping[str, int]) -> list[str]:
    """Return a sentence for each unsupported finalized level, with the supported levels."""
    spans = {name: SUPPORTED_FEATURES.get(name, (0, 0)) for name in sorted(levels)}
    return [
        f"feature {name} at level {levels[name]}, this version serves {lowest} to {highest}"
        for name, (lowest, highest) in spans.items()
        if not lowest <= levels[name] <= highest
    ]


def _unsupported(name: str, level: int) -> str:
    lowest, highest = SUPPORTED_FEATURES.get(name, (0, 0))
    span = str(lowest) if lowest == highest else f"{lowest} to {highest}"
    return (
        f"the cluster of this directory has feature {name} at level {level}, this version serves"
        f" {span}; change the level with kafka-features.sh while the software that wrote it still"
        " runs, or start with an empty directory"
    )
