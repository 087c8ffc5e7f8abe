"""A leader and a follower carry state through moves, truncations and late responses.

Followers fall silent, too.
"""

from log_service.common.errors import ErrorCode
from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch
from log_service.metadata.observers import Observers
from log_service.metadata.partition import PartitionRegistration
from log_service.replication.follower_state import UNKNOWN_OFFSET
from log_service.replication.partition_state import Change, PartitionState
from tests.unit.replication.partition_group import (
    BROKER_EPOCHS,
    LAG_MS,
    LEADER,
    SECOND,
    THIRD,
    Group,
    ids,
)

# Responses and metadata


def test_metadata_of_the_partition_epoch_that_a_response_told_brings_what_the_response_did_not() -> (
    None
):
    """The response names the new set alone; a move that ended with it takes replicas away."""
    group = Group(isr=(1, 2))
    group.fetch(THIRD, 0)
    proposal = group.state.propose_expansion(THIRD)
    assert proposal is not None
    group.accept(proposal, partition_epoch=5)
    group.apply(replicas=(1, 3), isr=(1, 3), partition_epoch=5)
    assert group.state.replicas == (1, 3)
    assert set(group.state.followers) == {THIRD}


def test_a_response_that_changed_nothing_ends_the_proposal() -> None:
    """A controller that has such a set already responds with its present epoch.

    A leader that waited on could never propose again.
    """
    group = Group(isr=(1, 2))
    group.fetch(THIRD, 0)
    proposal = group.state.propose_expansion(THIRD)
    assert proposal is not None
    group.accept(proposal, partition_epoch=0)
    assert group.state.proposal is None
    assert group.state.isr == (1, 2, 3)


def test_nothing_is_proposed_while_a_proposal_is_on_its_way() -> None:
    group = Group(isr=(1, 2))
    group.append(10)
    group.fetch(THIRD, 10)
    proposal = group.state.propose_expansion(THIRD)
    group.after(LAG_MS + 1)
    assert group.shrink() is None
    assert group.state.proposal is proposal


# Replicas that go


def test_a_leader_that_is_left_alone_waits_for_no_follower() -> None:
    group = Group()
    group.append(10)
    group.fetch(SECOND, 10)
    group.fetch(THIRD, 10)
    group.apply(replicas=(1,), isr=(1,), partition_epoch=1)
    assert group.state.followers == {}
    assert group.append(5)
    assert group.high_watermark == 15


def test_a_replica_that_was_retired_acknowledges_nothing_and_remembers_no_follower() -> None:
    group = Group()
    group.append(10)
    assert group.state.retire() is Change.LOST
    assert group.state.acknowledgement(0, 10, needs_all=False) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert group.state.followers == {}
    assert group.state.retire() is Change.NOTHING


def test_moves_are_told_by_the_replicas_that_come_and_go() -> None:
    group = Group()
    assert (group.state.adding_replicas, group.state.removing_replicas) == ((), ())
    moving = PartitionRegistration(
        replicas=ids(1, 2, 3),
        isr=ids(1, 2),
        leader=NodeId(LEADER),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(1),
        adding_replicas=ids(3),
        removing_replicas=ids(2),
    )
    group.state.apply(moving, is_online=True, now_ms=group.now_ms)
    assert (group.state.adding_replicas, group.state.removing_replicas) == ((3,), (2,))
    fresh = PartitionState(LEADER)
    assert (fresh.replicas, fresh.adding_replicas, fresh.removing_replicas) == ((), (), ())


# Followers


def test_a_follower_that_caught_up_beside_the_isr_is_waited_for_from_its_fetch_on() -> None:
    """Else it would never be far enough to join: the high watermark moves with each append."""
    group = Group(isr=(1, 2))
    group.append(10)
    group.fetch(SECOND, 10)
    group.fetch(THIRD, 10)
    group.append(5)
    group.fetch(SECOND, 15)
    assert group.high_watermark == 10
    assert group.fetch(THIRD, 15) == Change.HIGH_WATERMARK
    assert group.high_watermark == 15


def test_a_follower_beside_the_isr_that_fell_silent_is_not_waited_for_once_a_member_fetches() -> (
    None
):
    group = Group(isr=(1, 2))
    group.append(10)
    group.fetch(SECOND, 10)
    group.fetch(THIRD, 10)
    group.append(5)
    group.after(LAG_MS + 1)
    assert group.fetch(SECOND, 15) == Change.HIGH_WATERMARK
    assert group.high_watermark == 15


def test_where_a_followers_log_begins_is_not_known_before_it_fetches() -> None:
    group = Group()
    assert group.state.low_watermark == UNKNOWN_OFFSET
    for broker_id in (SECOND, THIRD):
        assert group.state.low_watermark == UNKNOWN_OFFSET
        group.state.note_fetch(
            broker_id,
            10,
            log_start_offset=broker_id,
            broker_epoch=BROKER_EPOCHS[broker_id],
            now_ms=group.now_ms,
        )
    assert group.state.low_watermark == SECOND


def test_an_observer_that_the_set_needs_is_not_proposed_out() -> None:
    group = Group(min_isr=2, isr=(1, 3))
    group.state.observers = Observers(node_ids=frozenset({NodeId(THIRD)}), is_promoting=True)
    assert group.shrink() is None, "without it the partition would be under min ISR"
    group.fetch(SECOND, 0)
    group.apply(isr=(1, 2, 3), partition_epoch=1)
    proposal = group.shrink()
    assert proposal is not None
    assert proposal.isr == (1, 2)


# This replica as a follower


def follower(*, end: int, high_watermark: int) -> PartitionState:
    return PartitionState(
        SECOND,
        log_end_offset=end,
        synced_end_offset=end,
        high_watermark=high_watermark,
        is_synced_first=True,
    )


def test_what_a_follower_cut_off_is_neither_safe_nor_synced() -> None:
    """An unclean election may take away safe records.

    Readers at this replica, and a leader's own end, go by the present log.
    """
    state = follower(end=10, high_watermark=8)
    state.note_truncation(6)
    assert (
        state.log_end_offset,
        state.high_watermark,
        state.last_stable_offset,
        state.own_end_offset,
    ) == (6, 6, 6, 6)


def test_a_truncation_above_what_is_safe_leaves_it() -> None:
    state = PartitionState(
        SECOND, log_end_offset=10, synced_end_offset=3, high_watermark=4, is_synced_first=True
    )
    state.note_truncation(6)
    assert (state.log_end_offset, state.high_watermark, state.own_end_offset) == (6, 4, 3)
