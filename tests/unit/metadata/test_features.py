"""Feature levels: what a new cluster begins with, and which clusters are not ours to serve."""

import pytest

from log_service.common.errors import StorageError
from log_service.metadata.features import (
    bootstrap_records,
    first_feature_records,
    is_supported,
    validate_levels,
)
from log_service.protocol.stored.metadata_records import FeatureLevelRecord


def level(name: str, number: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=number)


def test_a_new_cluster_begins_with_the_levels_of_kafka_4_3() -> None:
    levels = {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    expected = [level(name, number) for name, number in levels.items()]
    assert first_feature_records() == expected == bootstrap_records([])


def test_features_that_are_not_there_are_left_out_of_a_foreign_bootstrap() -> None:
    found = [
        level("metadata.version", 30),
        level("group.version", 1),
        level("share.version", 1),
        level("transaction.version", 2),
    ]
    assert bootstrap_records(found) == found
    assert bootstrap_records(found[:1]) == found[:1], "a directory of level 0 goes on at level 0"


def test_a_directory_formatted_for_another_metadata_version_is_refused() -> None:
    with pytest.raises(
        StorageError, match=r"metadata\.version at level 21, this version serves 30"
    ):
        bootstrap_records([level("metadata.version", 21)])


def test_a_cluster_with_a_feature_that_is_not_there_is_refused() -> None:
    validate_levels({"metadata.version": 30, "kraft.version": 1})
    with pytest.raises(StorageError, match=r"streams\.version at level 2"):
        validate_levels({"metadata.version": 30, "group.version": 1, "streams.version": 2})


def test_level_zero_of_an_unknown_feature_is_kept_by_everybody() -> None:
    assert is_supported("some.future.version", 0)
    assert not is_supported("some.future.version", 1)
