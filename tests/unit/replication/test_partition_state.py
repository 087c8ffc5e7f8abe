"""A leader and its followers are values.

They say who is in sync, how far records are safe, and when an append is acknowledged.
"""

from typing import Any

import pytest

from log_service.common.errors import ErrorCode
from log_service.replication.partition_state import Change, Isolation, IsrProposal, PartitionState
from log_service.storage.unstable_transactions import UnstableTransactions
from tests.unit.replication.partition_group import (
    BROKER_EPOCHS,
    LAG_MS,
    LEADER,
    SECOND,
    THIRD,
    Group,
)

# The high watermark


def test_alone_what_is_appended_is_safe() -> None:
    group = Group(replicas=(1,), isr=(1,))
    assert group.change == Change.LED
    assert group.state.is_safe_at_once
    assert group.append(3)
    assert group.high_watermark == 3


def test_alone_and_synced_first_what_is_synced_is_safe() -> None:
    group = Group(replicas=(1,), isr=(1,), is_synced_first=True)
    assert not group.append(3)
    assert group.high_watermark == 0
    assert group.state.note_sync(2)
    assert group.high_watermark == 2


def test_a_leader_that_had_records_before_its_epoch_begins_with_all_of_them_safe_when_it_is_alone() -> (
    None
):
    group = Group(end=7, high_watermark=4, replicas=(1,), isr=(1,))
    assert group.change == Change.LED | Change.HIGH_WATERMARK
    assert group.high_watermark == 7


def test_the_high_watermark_is_what_every_in_sync_replica_has() -> None:
    group = Group()
    group.append(10)
    assert group.fetch(SECOND, 10) == Change.NOTHING
    assert group.high_watermark == 0
    assert group.fetch(THIRD, 4) == Change.HIGH_WATERMARK
    assert group.high_watermark == 4
    group.fetch(THIRD, 10)
    assert group.high_watermark == 10


def test_the_leader_itself_counts_with_what_is_synced() -> None:
    group = Group(is_synced_first=True)
    group.append(10)
    group.fetch(SECOND, 10)
    group.fetch(THIRD, 10)
    assert group.high_watermark == 0
    group.state.note_sync(6)
    assert group.high_watermark == 6


def test_the_high_watermark_never_goes_back() -> None:
    group = Group(isr=(1, 2), replicas=(1, 2))
    group.append(10)
    group.fetch(SECOND, 10)
    assert group.fetch(SECOND, 3) == Change.NOTHING
    assert group.high_watermark == 10


def test_a_lagging_follower_outside_the_isr_holds_nothing_up() -> None:
    group = Group(isr=(1, 2))
    group.append(10)
    group.fetch(SECOND, 10)
    assert group.high_watermark == 10


def test_a_follower_that_is_about_to_join_is_waited_for() -> None:
    """Otherwise the high watermark could run ahead of it for ever."""
    group = Group(isr=(1, 2))
    group.fetch(THIRD, 0)
    group.append(10)
    group.fetch(SECOND, 10)
    assert group.high_watermark == 0
    group.fetch(THIRD, 10)
    assert group.high_watermark == 10


def test_a_follower_that_gave_up_joining_is_not_waited_for() -> None:
    group = Group(isr=(1, 2))
    group.fetch(THIRD, 0)
    group.append(10)
    group.after(LAG_MS + 1)
    assert group.fetch(SECOND, 10) == Change.HIGH_WATERMARK
    assert group.high_watermark == 10


def test_a_follower_that_may_not_join_is_not_waited_for() -> None:
    """A follower may not join if it is fenced or shuts down (KIP-841).

    Nor may an earlier broker of the same id that fetched (KIP-903).
    """
    for eligible in ({LEADER: 101, SECOND: 102}, {**BROKER_EPOCHS, THIRD: 999}):
        group = Group(isr=(1, 2))
        group.state.eligible_brokers = eligible
        group.fetch(THIRD, 0)
        group.append(10)
        group.fetch(SECOND, 10)
        assert group.high_watermark == 10


def test_too_small_an_isr_holds_the_high_watermark_for_every_acks() -> None:
    """Eligible leader replicas outside the ISR hold all that is below it (KIP-966)."""
    group = Group(min_isr=2, isr=(1,))
    assert group.state.is_under_min_isr
    assert not group.append(5)
    assert group.high_watermark == 0
    assert group.apply(isr=(1, 2), partition_epoch=1) == Change.NOTHING
    assert group.fetch(SECOND, 5) == Change.HIGH_WATERMARK
    assert group.high_watermark == 5


def test_no_partition_is_asked_for_more_replicas_than_it_has() -> None:
    group = Group(min_isr=2, replicas=(1,), isr=(1,))
    assert group.append()
    assert not group.state.is_under_min_isr


def test_a_change_of_configuration_takes_effect_on_what_waits() -> None:
    group = Group(min_isr=2, isr=(1,), is_synced_first=True)
    group.append(5)
    reconfigure = group.state.reconfigure
    assert (
        reconfigure(min_insync_replicas=1, is_synced_first=True, now_ms=group.now_ms)
        == Change.NOTHING
    )
    assert (
        reconfigure(min_insync_replicas=1, is_synced_first=False, now_ms=group.now_ms)
        == Change.HIGH_WATERMARK
    )
    assert group.high_watermark == 5


# How far consumers read


def test_read_committed_ends_at_the_first_open_transaction() -> None:
    group = Group(replicas=(1,), isr=(1,))
    group.append(10)
    unstable = UnstableTransactions()
    unstable.begin(7, 4)
    group.state.hold_stable_by(unstable)
    assert group.state.read_limit(Isolation.READ_COMMITTED) == group.state.last_stable_offset == 4
    assert group.state.read_limit(Isolation.READ_UNCOMMITTED) == 10
    group.append(2)
    assert group.state.last_stable_offset == 4
    unstable.end(7, 11)
    unstable.begin(8, 12)
    group.append(1)
    assert group.state.last_stable_offset == 12, "the first one ended below the high watermark"
    group.state.hold_stable_by(None)
    assert group.state.read_limit(Isolation.READ_COMMITTED) == 13


def test_a_transaction_is_not_read_before_its_marker_is_safe() -> None:
    group = Group(replicas=(1, 2), isr=(1, 2))
    unstable = UnstableTransactions()
    unstable.begin(7, 2)
    group.state.hold_stable_by(unstable)
    group.append(6)
    unstable.end(7, 5)
    for offset, stable in ((2, 2), (4, 2), (5, 2), (6, 6)):
        group.fetch(2, offset)
        assert (group.high_watermark, group.state.last_stable_offset) == (offset, stable)


@pytest.mark.parametrize(
    ("level", "isolation"),
    [
        (0, Isolation.READ_UNCOMMITTED),
        (1, Isolation.READ_COMMITTED),
        (7, Isolation.READ_UNCOMMITTED),
    ],
)
def test_isolation_levels_of_requests(level: int, isolation: Isolation) -> None:
    assert Isolation.of(level) is isolation


def test_the_end_is_known_once_the_high_watermark_reaches_what_the_epoch_began_with() -> None:
    """An earlier leader may have shown that much (KIP-207)."""
    group = Group(end=10, high_watermark=4)
    assert not group.state.is_end_known
    group.fetch(SECOND, 10)
    group.fetch(THIRD, 10)
    assert group.state.is_end_known


# Leading and following


def test_a_new_epoch_under_the_same_leader_is_led_anew() -> None:
    group = Group(replicas=(1,), isr=(1,))
    group.append(5)
    assert group.apply(replicas=(1,), isr=(1,), leader_epoch=1, partition_epoch=1) == Change.LED
    assert (group.state.epoch_start_offset, group.high_watermark) == (5, 5)


def test_a_change_of_the_isr_alone_is_not_led_anew() -> None:
    group = Group()
    assert group.apply(isr=(1, 2), partition_epoch=1) == Change.NOTHING
    assert group.state.isr == (1, 2)


def test_metadata_that_the_controllers_response_overtook_changes_nothing() -> None:
    group = Group(isr=(1, 2), partition_epoch=5)
    assert group.apply(isr=(1, 2, 3), partition_epoch=4) == Change.NOTHING
    assert (group.state.isr, group.state.partition_epoch) == ((1, 2), 5)


def test_leadership_goes_with_the_metadata_and_with_the_log() -> None:
    assert Group().apply(leader=SECOND, leader_epoch=1, partition_epoch=1) == Change.LOST
    assert Group().apply(is_online=False, partition_epoch=1) == Change.LOST
    assert Group().state.retire() == Change.LOST
    assert Group(leader=SECOND).change == Change.NOTHING
    assert Group(leader=SECOND).state.retire() == Change.NOTHING


def test_a_follower_keeps_its_high_watermark_and_moves_it_no_more() -> None:
    group = Group(replicas=(1,), isr=(1,))
    group.append(5)
    group.apply(leader=SECOND, isr=(2,), leader_epoch=1, partition_epoch=1)
    assert not group.state.note_sync(5)
    assert not group.state.is_safe_at_once
    assert group.high_watermark == 5


def test_a_follower_believes_no_leader_that_knows_less_than_the_one_before() -> None:
    """A new leader's high watermark begins below safe records.

    Readers of this follower may have read them (KIP-392).
    """
    state = PartitionState(1, log_end_offset=9)
    assert state.follow_high_watermark(6)
    assert not state.follow_high_watermark(4)
    assert state.high_watermark == 6
    assert state.follow_high_watermark(20)
    assert state.high_watermark == 9, "and none that knows more than this follower has"


def test_a_new_leader_knows_no_followers_end_and_a_leader_of_a_new_epoch_keeps_what_it_knows() -> (
    None
):
    group = Group(isr=(1, 2), replicas=(1, 2))
    group.append(5)
    group.fetch(SECOND, 5)
    group.apply(isr=(1, 2), replicas=(1, 2), leader_epoch=1, partition_epoch=1)
    assert group.state.followers[SECOND].log_end_offset == 5
    group.apply(isr=(1, 2), replicas=(1, 2), leader=SECOND, leader_epoch=2, partition_epoch=2)
    group.apply(isr=(1, 2), replicas=(1, 2), leader_epoch=3, partition_epoch=3)
    assert group.state.followers[SECOND].log_end_offset == -1


def test_a_reassignment_brings_replicas_and_takes_them() -> None:
    group = Group(replicas=(1, 2), isr=(1, 2))
    group.fetch(SECOND, 0)
    group.apply(replicas=(1, 2, 3), isr=(1, 2), partition_epoch=1)
    assert list(group.state.followers) == [SECOND, THIRD]
    assert group.state.followers[SECOND].broker_epoch == 102
    group.apply(replicas=(1, 3), isr=(1, 3), partition_epoch=2)
    assert list(group.state.followers) == [THIRD]


# Acknowledgements


def acknowledged(
    group: Group, offset: int, *, epoch: int = 0, needs_all: bool = True
) -> ErrorCode | None:
    return group.state.acknowledgement(epoch, offset, needs_all=needs_all)


def test_acks_all_is_met_below_the_high_watermark_and_acks_1_on_this_replica() -> None:
    group = Group(replicas=(1, 2), isr=(1, 2))
    group.append(5)
    assert acknowledged(group, 5, needs_all=False) is ErrorCode.NONE
    assert acknowledged(group, 5) is None
    group.fetch(SECOND, 4)
    assert acknowledged(group, 5) is None
    group.fetch(SECOND, 5)
    assert acknowledged(group, 5) is ErrorCode.NONE


def test_acks_1_waits_for_the_sync_where_that_comes_first_and_for_no_follower() -> None:
    group = Group(is_synced_first=True)
    group.append(5)
    assert acknowledged(group, 5, needs_all=False) is None
    assert group.state.note_sync(5)
    assert acknowledged(group, 5, needs_all=False) is ErrorCode.NONE
    assert acknowledged(group, 5) is None


def test_an_isr_that_shrank_below_the_minimum_after_the_append_is_told() -> None:
    group = Group(replicas=(1, 2), isr=(1, 2), min_isr=2)
    group.append(5)
    group.fetch(SECOND, 5)
    group.apply(replicas=(1, 2), isr=(1,), partition_epoch=1)
    assert acknowledged(group, 5) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert acknowledged(group, 5, needs_all=False) is ErrorCode.NONE


@pytest.mark.parametrize(
    "metadata",
    [{"leader": SECOND, "leader_epoch": 1}, {"leader_epoch": 1}, {"is_online": False}],
    ids=["led elsewhere", "led anew", "offline"],
)
def test_an_append_whose_leader_epoch_ended_is_refused_whichever_broker_leads_now(
    metadata: dict[str, Any],
) -> None:
    """Another leader may have put another record at that offset."""
    group = Group()
    group.append(5)
    group.apply(partition_epoch=1, **metadata)
    assert acknowledged(group, 5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acknowledged(group, 5, needs_all=False) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# The in-sync replicas


def test_a_follower_that_has_all_that_is_safe_is_proposed() -> None:
    group = Group(isr=(1, 2))
    group.append(10)
    group.fetch(SECOND, 8)
    group.fetch(THIRD, 7)
    assert group.state.propose_expansion(THIRD) is None
    group.fetch(THIRD, 8)
    proposal = group.state.propose_expansion(THIRD)
    assert proposal == IsrProposal(
        members=((1, -1), (2, 102), (3, 103)), leader_epoch=0, partition_epoch=0, is_expansion=True
    )


def test_a_follower_needs_what_the_epoch_began_with() -> None:
    """The high watermark may be behind what an earlier leader had committed."""
    group = Group(end=10, high_watermark=4, isr=(1, 2))
    group.fetch(THIRD, 9)
    assert group.state.propose_expansion(THIRD) is None
    group.fetch(THIRD, 10)
    assert group.state.propose_expansion(THIRD) is not None


def test_a_broker_that_is_fenced_stopping_or_of_another_epoch_is_not_proposed() -> None:
    group = Group(isr=(1, 2))
    group.fetch(THIRD, 0, broker_epoch=99)
    assert group.state.propose_expansion(THIRD) is None
    group.state.eligible_brokers = {LEADER: 101, SECOND: 102}
    group.fetch(THIRD, 0)
    assert group.state.propose_expansion(THIRD) is None


def test_a_member_a_stranger_and_a_second_change_are_not_proposed() -> None:
    group = Group(replicas=(1, 2, 3), isr=(1,))
    group.fetch(SECOND, 0)
    group.fetch(THIRD, 0)
    assert group.state.propose_expansion(LEADER) is None
    assert group.state.propose_expansion(9) is None
    assert group.state.propose_expansion(SECOND) is not None
    assert group.state.propose_expansion(THIRD) is None
    group.after(LAG_MS + 1)
    assert group.shrink() is None


def test_a_proposed_member_counts_before_the_controller_responds() -> None:
    """The controller may have taken the proposal, and elect it."""
    group = Group(isr=(1, 2))
    group.append(10)
    group.fetch(SECOND, 8)
    group.after(LAG_MS + 1)
    group.fetch(THIRD, 8)
    assert group.state.propose_expansion(THIRD) is not None
    assert group.state.maximal_isr == {1, 2, 3}
    group.fetch(SECOND, 10)
    assert group.high_watermark == 8


def test_a_leader_alone_waits_from_the_proposal_on() -> None:
    group = Group(replicas=(1, 2), isr=(1,))
    group.append(10)
    group.state.eligible_brokers = {}
    group.fetch(SECOND, 10)
    was_safe_at_once = group.state.is_safe_at_once
    group.state.eligible_brokers = BROKER_EPOCHS
    assert group.state.propose_expansion(SECOND) is not None
    assert (was_safe_at_once, group.state.is_safe_at_once) == (True, False)
    assert not group.append()


def test_a_follower_that_lags_too_long_is_proposed_out_and_counts_until_the_controller_agrees() -> (
    None
):
    group = Group()
    group.append(10)
    group.fetch(SECOND, 10)
    group.after(LAG_MS)
    assert group.shrink() is None
    group.after(1)
    group.fetch(SECOND, 10)
    proposal = group.shrink()
    assert proposal is not None
    assert proposal.isr == (1, 2)
    assert group.high_watermark == 0
    assert group.accept(proposal) == Change.HIGH_WATERMARK
    assert (group.state.isr, group.state.partition_epoch, group.high_watermark) == ((1, 2), 1, 10)


def test_a_follower_that_has_everything_stays_however_long_nothing_happens() -> None:
    group = Group()
    group.fetch(SECOND, 0)
    group.fetch(THIRD, 0)
    group.after(10 * LAG_MS)
    assert group.shrink() is None


def test_a_follower_that_is_always_one_fetch_behind_is_caught_up() -> None:
    group = Group(replicas=(1, 2), isr=(1, 2))
    for _ in range(10):
        end = group.state.log_end_offset
        group.append(5)
        group.fetch(SECOND, end)
        group.after(LAG_MS // 2)
    assert group.shrink() is None


def test_a_member_that_never_fetched_is_proposed_out_and_one_that_did_not_fetch_in_this_epoch_has_no_broker_epoch() -> (
    None
):
    group = Group()
    group.append()
    group.after(LAG_MS + 1)
    group.fetch(SECOND, 1)
    proposal = group.shrink()
    assert proposal is not None
    assert proposal.members == ((1, -1), (2, 102))
    other = Group(isr=(1, 2))
    other.fetch(THIRD, 0)
    expansion = other.state.propose_expansion(THIRD)
    assert expansion is not None
    assert expansion.members == ((1, -1), (2, -1), (3, 103))


def proposed() -> tuple[Group, IsrProposal]:
    group = Group(isr=(1, 2))
    group.fetch(THIRD, 0)
    proposal = group.state.propose_expansion(THIRD)
    assert proposal is not None
    return group, proposal


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refusal_of_the_members_takes_the_proposal_back(code: ErrorCode) -> None:
    group, proposal = proposed()
    assert group.refuse(proposal, code) == Change.NOTHING
    assert group.state.proposal is None
    assert group.state.maximal_isr == {1, 2}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    ],
)
def test_a_refusal_that_tells_of_newer_metadata_waits_for_it(code: ErrorCode) -> None:
    """Asked again, the controller would say the same; and it may have taken the proposal."""
    group, proposal = proposed()
    assert group.refuse(proposal, code) == Change.NOTHING
    assert group.state.maximal_isr == {1, 2, 3}
    assert group.state.propose_expansion(THIRD) is None
    group.apply(isr=(1, 2), partition_epoch=1)
    assert group.state.maximal_isr == {1, 2}


def test_late_metadata_of_the_epoch_that_a_proposal_was_made_against_leaves_it() -> None:
    """The controller's response brought that epoch already.

    The controller may still take the later proposal.
    """
    group, proposal = proposed()
    group.apply(isr=(1, 2))
    assert group.state.proposal is proposal
    assert group.state.maximal_isr == {1, 2, 3}


@pytest.mark.parametrize(
    "code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT]
)
def test_any_other_refusal_is_sent_again(code: ErrorCode) -> None:
    group, proposal = proposed()
    assert group.refuse(proposal, code) == Change.MUST_RESEND
    assert group.state.proposal is proposal


def test_a_response_that_metadata_overtook_changes_nothing() -> None:
    group, proposal = proposed()
    group.apply(isr=(1, 2), partition_epoch=2)
    assert group.accept(proposal) == Change.NOTHING
    assert group.refuse(proposal, ErrorCode.NOT_CONTROLLER) == Change.NOTHING
    assert group.state.isr == (1, 2)


@pytest.mark.parametrize("epochs", [{"leader_epoch": 7}, {"partition_epoch": -1}])
def test_a_response_of_other_epochs_leaves_the_proposal(epochs: dict[str, int]) -> None:
    group, proposal = proposed()
    assert group.accept(proposal, **epochs) == Change.NOTHING
    assert group.state.proposal is proposal
