"""UpdateFeatures changes levels in the asked way, if every member keeps them (KIP-584, KIP-778)."""

from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.metadata.features import SUPPORTED_FEATURES
from log_service.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
)
from log_service.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from log_service.protocol.stored.metadata_records import ConfigRecord, FeatureLevelRecord
from tests.unit.controller.context import ControllerContext, new_topic

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
BROKER, MIN_ISR = 4, "min.insync.replicas"
ELR, KRAFT, METADATA, SHARE, TRANSACTIONS = (
    "eligible.leader.replicas.version",
    "kraft.version",
    "metadata.version",
    "share.version",
    "transaction.version",
)


def update(context: ControllerContext, *updates: tuple[str, int, int]) -> None:
    asked = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=way)
        for name, level, way in updates
    ]
    context.ask(UpdateFeaturesRequest(feature_updates=asked))


def refused(context: ControllerContext, *updates: tuple[str, int, int]) -> str:
    """Return why updates are refused; nothing is written then."""
    count = len(context.records)
    with pytest.raises(KafkaError) as raised:
        update(context, *updates)
    assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert len(context.records) == count
    return str(raised.value)


def level_of(context: ControllerContext, name: str) -> int:
    return context.controller.image.features.get(name, 0)


@pytest.mark.parametrize("way", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_a_level_goes_down_where_the_request_says_so_and_up_where_it_does_not(way: int) -> None:
    context = ControllerContext().start(1)
    assert "does not say that it may go down" in refused(context, (TRANSACTIONS, 1, UPGRADE))
    update(context, (TRANSACTIONS, 1, way))
    assert level_of(context, TRANSACTIONS) == 1
    assert "a downgrade cannot raise it" in refused(context, (TRANSACTIONS, 2, way))
    update(context, (TRANSACTIONS, 2, UPGRADE))
    assert level_of(context, TRANSACTIONS) == 2


@pytest.mark.parametrize("way", [UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_a_level_that_is_there_may_be_asked_for_in_any_way(way: int) -> None:
    context = ControllerContext().start(1)
    context.write(FeatureLevelRecord(name=KRAFT, feature_level=1))
    count = len(context.records)
    update(context, (TRANSACTIONS, 2, way), (KRAFT, 1, way))
    assert len(context.records) == count


def test_the_quorum_never_goes_back_to_voters_in_files() -> None:
    context = ControllerContext().start(1)
    context.write(FeatureLevelRecord(name=KRAFT, feature_level=1))
    assert "never goes down" in refused(context, (KRAFT, 0, UNSAFE_DOWNGRADE))


@pytest.mark.parametrize(
    ("name", "level", "told"),
    [
        (TRANSACTIONS, 3, "this software keeps levels 0 to 2"),
        (TRANSACTIONS, -1, "this software keeps levels 0 to 2"),
        (METADATA, 29, "this software keeps levels 30 to 30"),
        (METADATA, 0, "this software keeps levels 30 to 30"),
        ("some.version", 0, "this software does not have that feature"),
        ("", 1, "the empty name cannot become 1"),
    ],
)
def test_levels_that_this_software_does_not_keep_are_refused_whichever_way(
    name: str, level: int, told: str
) -> None:
    for way in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        assert told in refused(ControllerContext().start(1), (name, level, way))


def mixed(features: dict[str, tuple[int, int]], *, is_controller: bool) -> ControllerContext:
    """A cluster at no optional level, one member of which keeps other ones than this software."""
    bootstrap = [FeatureLevelRecord(name=METADATA, feature_level=30)]
    context = ControllerContext(bootstrap=bootstrap).start(1)
    kept = {**SUPPORTED_FEATURES, **features}
    if is_controller:
        listed = [
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in kept.items()
        ]
        context.ask(
            ControllerRegistrationRequest(
                controller_id=9, incarnation_id=UUID(int=9), features=listed
            )
        )
    else:
        context.register(9, features=kept)
    return context


@pytest.mark.parametrize("is_controller", [False, True], ids=["broker", "controller"])
def test_a_level_is_refused_where_one_member_is_too_old_for_it(*, is_controller: bool) -> None:
    context = mixed({TRANSACTIONS: (0, 1)}, is_controller=is_controller)
    who = "controller 9" if is_controller else "broker 9"
    assert f"{who} keeps levels 0 to 1" in refused(context, (TRANSACTIONS, 2, UPGRADE))
    update(context, (TRANSACTIONS, 1, UPGRADE), (SHARE, 1, UPGRADE))
    assert (level_of(context, TRANSACTIONS), level_of(context, SHARE)) == (1, 1)


def test_a_level_is_refused_where_one_member_is_too_new_for_it() -> None:
    context = mixed({}, is_controller=True)
    update(context, (TRANSACTIONS, 2, UPGRADE))
    context.register(9, features={**SUPPORTED_FEATURES, TRANSACTIONS: (2, 3)})
    assert "broker 9 keeps levels 2 to 3" in refused(context, (TRANSACTIONS, 1, SAFE_DOWNGRADE))
    update(context, (TRANSACTIONS, 0, SAFE_DOWNGRADE))
    assert level_of(context, TRANSACTIONS) == 0, "a feature that is off asks nothing of a member"


def test_the_metadata_version_is_never_off_for_a_member() -> None:
    """Level 0 of another feature is for members that do not have it.

    There are records of this one in every log.
    """
    context = ControllerContext().start(1)
    features = [Feature(name=TRANSACTIONS, min_supported_version=0, max_supported_version=2)]
    context.ask(
        ControllerRegistrationRequest(
            controller_id=9, incarnation_id=UUID(int=9), features=features
        )
    )
    assert "controller 9 keeps levels 0 to 0" in refused(context, (METADATA, 30, UPGRADE))


def test_one_update_that_cannot_be_keeps_the_others_from_being_made() -> None:
    context = ControllerContext().start(1)
    refused(context, (TRANSACTIONS, 1, SAFE_DOWNGRADE), (SHARE, 7, UPGRADE))
    assert level_of(context, TRANSACTIONS) == 2


def test_min_insync_replicas_becomes_a_value_of_the_cluster_with_elr_alone() -> None:
    context = mixed({}, is_controller=False)
    count = len(context.records)
    update(context, (SHARE, 1, UPGRADE))
    assert [type(record) for record in context.records[count:]] == [FeatureLevelRecord]
    update(context, (ELR, 1, UPGRADE))
    assert [type(record).__name__ for record in context.records[count + 1 :]] == [
        "ConfigRecord",
        "FeatureLevelRecord",
    ]


def test_min_insync_replicas_of_topics_and_of_the_cluster_stay_when_elr_begin() -> None:
    """Values of single brokers alone go: every controller reads the others alike."""
    context = mixed({}, is_controller=False)
    context.create(new_topic("a", assignments={0: (1,)}, configs={MIN_ISR: "3"}))
    for name, key in (("", MIN_ISR), ("1", MIN_ISR), ("9", "message.max.bytes")):
        assert (
            context.alter(name, (key, 0, "2000"), resource_type=BROKER).error_code == ErrorCode.NONE
        )
    count = len(context.records)
    update(context, (ELR, 1, UPGRADE))
    assert context.records[count:] == [
        ConfigRecord(resource_type=BROKER, resource_name="1", name=MIN_ISR, value=None),
        FeatureLevelRecord(name=ELR, feature_level=1),
    ]
    assert (context.configs("a")[MIN_ISR], context.configs("", BROKER)[MIN_ISR]) == ("3", "2000")
