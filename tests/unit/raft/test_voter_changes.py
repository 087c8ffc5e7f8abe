"""A leader changes one voter at a time, and only to a set that every voter can follow."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from log_service.common.errors import ErrorCode
from log_service.common.features import DYNAMIC_QUORUM, STATIC_QUORUM
from log_service.common.types import LeaderEpoch, NodeId
from log_service.raft.batches import (
    decode_batches,
    encode_control,
    kraft_version,
    leader_change,
    voter_changes,
    voters_record,
)
from log_service.raft.leader import Leader, PendingVoterChange
from log_service.raft.messages import (
    UNKNOWN_OFFSET,
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpgradeRequest,
)
from log_service.raft.voter_changes import (
    Refusal,
    check_addition,
    check_removal,
    check_update,
    check_upgrade,
)
from log_service.raft.voters import (
    NO_DIRECTORY,
    ReplicaKey,
    Voter,
    VoterChange,
    VoterEntry,
    VoterSet,
)
from tests.unit.raft.quorum import LISTENER, directory, voter

OWN = ReplicaKey(NodeId(1), directory(1))
VOTERS = VoterSet(tuple(voter(each) for each in (1, 2, 3)))
UPDATE = UpdateVoterRequest(epoch=LeaderEpoch(1), voter=voter(2))
UPGRADE = UpgradeRequest(kraft_version=DYNAMIC_QUORUM)
WRITTEN_AT = 8
"""The offset of the record that names the present voters."""

Check = Callable[[Leader, VoterEntry], VoterSet | Refusal | None]


def leader(*, high_watermark: int = WRITTEN_AT + 1, told: VoterSet | None = None) -> Leader:
    found = Leader(
        epoch=LeaderEpoch(1),
        own=OWN,
        epoch_start_offset=0,
        voters=VOTERS,
        check_quorum_ms=0,
        now_ms=0,
    )
    found.high_watermark, found.volatile_voters = high_watermark, told
    return found


def busy(found: Leader) -> Leader:
    found.pending = PendingVoterChange(voter=voter(2), reply_to=None, deadline_ms=0)
    return found


def latest(kraft_version: int = DYNAMIC_QUORUM) -> VoterEntry:
    return VoterEntry(WRITTEN_AT, kraft_version, VOTERS)


def error_of(found: VoterSet | Refusal | None) -> ErrorCode:
    return found.error if isinstance(found, Refusal) else ErrorCode.NONE


CHANGES: dict[str, Check] = {
    "add": lambda leader, latest: check_addition(
        AddVoterRequest(voter=voter(4)), leader, latest, LISTENER, twins=None
    ),
    "remove": lambda leader, latest: check_removal(
        RemoveVoterRequest(voter=voter(2).key), leader, latest, twins=None
    ),
    "update": lambda leader, latest: check_update(UPDATE, leader, latest, LISTENER),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_waits_until_the_one_before_and_the_election_are_committed(name: str) -> None:
    """Two sets of voters that may both elect a leader would else differ by more than one voter."""
    check = CHANGES[name]
    assert error_of(check(leader(), latest())) is ErrorCode.NONE
    assert error_of(check(busy(leader()), latest())) is ErrorCode.REQUEST_TIMED_OUT
    assert (
        error_of(check(leader(high_watermark=UNKNOWN_OFFSET), latest()))
        is ErrorCode.REQUEST_TIMED_OUT
    )
    assert (
        error_of(check(leader(high_watermark=WRITTEN_AT), latest())) is ErrorCode.REQUEST_TIMED_OUT
    )


def test_what_a_voter_of_the_configuration_tells_waits_for_the_election_alone() -> None:
    static = latest(STATIC_QUORUM)
    assert check_update(UPDATE, leader(told=VOTERS), static, LISTENER) == VOTERS
    assert (
        error_of(
            check_update(
                UPDATE, leader(told=VOTERS, high_watermark=UNKNOWN_OFFSET), static, LISTENER
            )
        )
        is ErrorCode.REQUEST_TIMED_OUT
    )
    assert (
        error_of(check_update(UPDATE, leader(), static, LISTENER)) is ErrorCode.REQUEST_TIMED_OUT
    ), "they are just becoming records"


def test_a_voter_of_the_configuration_may_tell_of_a_new_disk_and_one_that_is_a_record_may_not() -> (
    None
):
    moved = replace(UPDATE, voter=voter(2, 9))
    assert check_update(
        moved, leader(told=VOTERS), latest(STATIC_QUORUM), LISTENER
    ) == VOTERS.with_voter(voter(2, 9))
    assert error_of(check_update(moved, leader(), latest(), LISTENER)) is ErrorCode.VOTER_NOT_FOUND


def test_the_last_voter_stays() -> None:
    only = VoterEntry(WRITTEN_AT, DYNAMIC_QUORUM, VoterSet((voter(1),)))
    assert (
        error_of(check_removal(RemoveVoterRequest(voter=OWN), leader(), only, twins=None))
        is ErrorCode.VOTER_NOT_FOUND
    )


def test_node_0_may_vote_like_any_other() -> None:
    first = VoterSet(tuple(voter(each) for each in (0, 1)))
    assert (
        check_addition(AddVoterRequest(voter=voter(0)), leader(), latest(), LISTENER, twins=None)
        is None
    )
    removed = check_removal(
        RemoveVoterRequest(voter=voter(0).key),
        leader(),
        latest()._replace(voters=first),
        twins=None,
    )
    assert removed == VoterSet((voter(1),))


def test_kraft_version_is_raised_once_nothing_else_is_under_way() -> None:
    static = latest(STATIC_QUORUM)
    assert check_upgrade(UPGRADE, leader(told=VOTERS), static) == VOTERS
    assert (
        error_of(check_upgrade(UPGRADE, busy(leader(told=VOTERS)), static))
        is ErrorCode.REQUEST_TIMED_OUT
    )
    waiting = leader(told=VOTERS, high_watermark=UNKNOWN_OFFSET)
    assert error_of(check_upgrade(UPGRADE, waiting, static)) is ErrorCode.REQUEST_TIMED_OUT
    assert check_upgrade(UPGRADE, leader(), static) is None, "its record is on its way"
    assert check_upgrade(UPGRADE, leader(), latest()) is None, "it is reached"
    assert (
        check_upgrade(UpgradeRequest(kraft_version=STATIC_QUORUM), leader(told=VOTERS), static)
        is None
    ), "so is this one"


@pytest.mark.parametrize(
    "other",
    [
        replace(voter(2), directory_id=NO_DIRECTORY),
        replace(voter(2), endpoints=()),
        replace(voter(2), max_kraft_version=0),
    ],
    ids=["no-directory", "no-endpoint", "too-old"],
)
def test_kraft_version_is_not_raised_where_one_voter_is_silent_or_too_old(other: Voter) -> None:
    refusal = check_upgrade(UPGRADE, leader(told=VOTERS.with_voter(other)), latest(STATIC_QUORUM))
    assert error_of(refusal) is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("least", "most", "error"),
    [
        (0, 1, ErrorCode.NONE),
        (1, 1, ErrorCode.NONE),
        (1, 2, ErrorCode.NONE),
        (-1, 1, ErrorCode.INVALID_REQUEST),
        (1, 0, ErrorCode.INVALID_REQUEST),
        (0, 0, ErrorCode.INVALID_REQUEST),
        (2, 3, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_voter_is_updated_only_to_a_range_of_kraft_version_that_holds_the_present_one(
    least: int, most: int, error: ErrorCode
) -> None:
    updated = replace(voter(2), min_kraft_version=least, max_kraft_version=most)
    found = check_update(replace(UPDATE, voter=updated), leader(), latest(), LISTENER)
    assert error_of(found) is error
    if isinstance(found, VoterSet):
        assert found.get(NodeId(2)) == updated
        assert len(found) == len(VOTERS)


def test_a_control_batch_says_who_votes_and_at_which_level() -> None:
    """Each record holds from its own offset on; what the leader itself is, is no change."""
    written = VoterSet((replace(voter(1), min_kraft_version=1, max_kraft_version=2), voter(2)))
    values = [
        leader_change(NodeId(1), [NodeId(1)], [NodeId(1)]),
        kraft_version(DYNAMIC_QUORUM),
        voters_record(written),
    ]
    batches = list(
        decode_batches(encode_control(values, base_offset=5, epoch=3, timestamp_ms=0), "the test")
    )
    assert voter_changes(batches) == (
        VoterChange(offset=6, kraft_version=DYNAMIC_QUORUM),
        VoterChange(offset=7, voters=written),
    )
