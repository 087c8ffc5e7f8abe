"""The version a request goes out in is the highest that both sides speak."""

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from log_service.rpc.versions import BEFORE_NEGOTIATION, MAINTENANCE_FEATURE, SpokenVersions


def peer(low: int, high: int, *, maintenance_level: int = 0) -> SpokenVersions:
    features = (
        [
            SupportedFeatureKey(
                name=MAINTENANCE_FEATURE, min_version=1, max_version=maintenance_level
            )
        ]
        if maintenance_level
        else []
    )
    api = ApiVersion(api_key=ApiKey.ALTER_PARTITION, min_version=low, max_version=high)
    return SpokenVersions.of(ApiVersionsResponse(api_keys=[api], supported_features=features))


@pytest.mark.parametrize(
    ("theirs", "max_version", "chosen"),
    [
        ((0, 2), None, 2),
        ((2, 3), None, 3),
        ((3, 9), None, 3),
        ((0, 9), 2, 2),
        ((0, 1), None, None),
        ((4, 9), None, None),
        ((3, 3), 2, None),
    ],
)
def test_highest_common_version(
    theirs: tuple[int, int], max_version: int | None, chosen: int | None
) -> None:
    """We speak AlterPartition 2-3."""
    if chosen is not None:
        assert peer(*theirs).choose(ApiKey.ALTER_PARTITION, max_version) == chosen
        return
    with pytest.raises(KafkaError) as caught:
        peer(*theirs).choose(ApiKey.ALTER_PARTITION, max_version)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_api_that_the_peer_did_not_name_is_refused() -> None:
    with pytest.raises(KafkaError, match="no common version of Vote: the broker speaks none"):
        peer(0, 9).choose(ApiKey.VOTE)


def test_a_client_at_a_controllers_listener_is_told_so() -> None:
    ranges = {int(ApiKey.VOTE): (0, 2), int(ApiKey.FETCH): (0, 17)}
    with pytest.raises(
        KafkaError,
        match="this is a controller's listener, which serves no clients: name the address of a broker's",
    ):
        SpokenVersions(ranges=ranges, features={}).choose(ApiKey.METADATA)


def test_before_anything_was_said_only_the_question_for_versions_may_be_sent() -> None:
    assert BEFORE_NEGOTIATION.choose(ApiKey.API_VERSIONS) == 3
    with pytest.raises(KafkaError):
        BEFORE_NEGOTIATION.choose(ApiKey.METADATA)


def test_an_api_of_our_own_is_spoken_by_a_peer_with_the_feature() -> None:
    assert [
        peer(0, 1, maintenance_level=level).choose(ApiKey.TIDELOG_MAINTENANCE)
        for level in (1, 2, 9)
    ] == [0, 1, 1]
    with pytest.raises(KafkaError, match="the broker is not tidelog"):
        peer(0, 1).choose(ApiKey.TIDELOG_MAINTENANCE)
