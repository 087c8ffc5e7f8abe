"""The table of reconciliation is a matrix.

It has each state of a member, the partitions that it says it owns, and its next assignment.
"""

from collections.abc import Mapping
from uuid import UUID

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.group.consumer.reconciliation import Target, reconcile
from log_service.coordinator.group.values.consumer_member import CurrentAssignment, MemberState

ORDERS, BILLS = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState
Held = Mapping[UUID, Mapping[int, int]]


def current(
    state: MemberState, epoch: int, assigned: Held, pending: Held | None = None
) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned=assigned,
        pending_revocation=pending or {},
    )


def target(
    epoch: int,
    *indexes: int,
    wanted: tuple[UUID, ...] = (ORDERS,),
    has_new_subscription: bool = False,
) -> Target:
    partitions = {ORDERS: frozenset(indexes)} if indexes else {}
    return Target(
        epoch=epoch,
        partitions=partitions,
        wanted_topics=wanted,
        has_new_subscription=has_new_subscription,
    )


def nothing_held(_topic_id: UUID, _index: int) -> bool:
    return False


def everything_held(_topic_id: UUID, _index: int) -> bool:
    return True


OWNS_BOTH = {ORDERS: frozenset({0, 1})}
OWNS_FIRST = {ORDERS: frozenset({0})}


def test_member_at_the_target_stays() -> None:
    member = current(STABLE, 5, {ORDERS: {0: 5}})
    assert reconcile(member, target(5, 0), OWNS_FIRST, nothing_held) is member


@pytest.mark.parametrize("state", [STABLE, UNRELEASED])
@pytest.mark.parametrize("owned", [None, OWNS_BOTH])
def test_member_that_still_owns_what_it_loses_stays_in_its_epoch(
    state: MemberState, owned: Mapping[UUID, frozenset[int]] | None
) -> None:
    after = reconcile(current(state, 5, {ORDERS: {0: 3, 1: 5}}), target(6, 0), owned, nothing_held)
    assert (after.state, after.epoch) == (UNREVOKED, 5)
    assert (after.assigned, after.pending_revocation) == ({ORDERS: {0: 3}}, {ORDERS: {1: 5}})


@pytest.mark.parametrize("state", [STABLE, UNRELEASED])
def test_member_that_gave_up_what_it_loses_enters_the_epoch_at_once(state: MemberState) -> None:
    after = reconcile(
        current(state, 5, {ORDERS: {0: 3, 1: 5}}), target(6, 0, 2), OWNS_FIRST, nothing_held
    )
    assert (after.state, after.epoch, after.previous_epoch) == (STABLE, 6, 5)
    assert (after.assigned, after.pending_revocation) == ({ORDERS: {0: 3, 2: 6}}, {})


@pytest.mark.parametrize("owned", [None, OWNS_BOTH, {ORDERS: frozenset({1})}])
def test_revoking_member_stays_until_it_says_that_it_gave_everything_up(
    owned: Mapping[UUID, frozenset[int]] | None,
) -> None:
    member = current(UNREVOKED, 5, {ORDERS: {0: 3}}, {ORDERS: {1: 5}})
    assert reconcile(member, target(6, 0), owned, nothing_held) is member


@pytest.mark.parametrize("owned", [OWNS_FIRST, {}])
def test_revoking_member_enters_the_epoch_when_it_gave_everything_up(
    owned: Mapping[UUID, frozenset[int]],
) -> None:
    after = reconcile(
        current(UNREVOKED, 5, {ORDERS: {0: 3}}, {ORDERS: {1: 5}}),
        target(7, 0, 2),
        owned,
        nothing_held,
    )
    assert (after.state, after.epoch, after.previous_epoch) == (STABLE, 7, 5)
    assert (after.assigned, after.pending_revocation) == ({ORDERS: {0: 3, 2: 7}}, {})


def test_revoking_member_may_have_to_give_up_more() -> None:
    after = reconcile(
        current(UNREVOKED, 5, {ORDERS: {0: 3}}, {ORDERS: {1: 5}}),
        target(7),
        OWNS_FIRST,
        nothing_held,
    )
    assert (after.state, after.epoch) == (UNREVOKED, 5)
    assert (after.assigned, after.pending_revocation) == ({}, {ORDERS: {0: 3}})


@pytest.mark.parametrize("state", [STABLE, UNRELEASED])
def test_member_waits_for_what_another_one_holds(state: MemberState) -> None:
    after = reconcile(
        current(state, 5, {ORDERS: {0: 3}}), target(6, 0, 1), OWNS_FIRST, everything_held
    )
    assert (after.state, after.epoch, after.assigned) == (UNRELEASED, 6, {ORDERS: {0: 3}})


def test_member_waits_for_one_topic_whatever_it_has_of_the_others() -> None:
    wanted = Target(
        epoch=6,
        partitions={ORDERS: frozenset({0}), BILLS: frozenset({0})},
        wanted_topics=(ORDERS, BILLS),
    )
    for held in (ORDERS, BILLS):
        after = reconcile(
            current(STABLE, 5, {}),
            wanted,
            {},
            lambda topic_id, _, held=held: topic_id == held,  # type: ignore[misc]
        )
        assert (after.state, after.epoch, list(after.assigned)) == (
            UNRELEASED,
            6,
            [ORDERS if held == BILLS else BILLS],
        )


def test_waiting_member_gets_what_becomes_free_one_by_one() -> None:
    member = current(UNRELEASED, 6, {ORDERS: {0: 3}})
    one = reconcile(member, target(6, 0, 1, 2), None, lambda _, index: index == 2)
    assert (one.state, one.assigned) == (UNRELEASED, {ORDERS: {0: 3, 1: 6}})
    both = reconcile(one, target(6, 0, 1, 2), None, nothing_held)
    assert (both.state, both.assigned) == (STABLE, {ORDERS: {0: 3, 1: 6, 2: 6}})


@pytest.mark.parametrize("owned", [None, OWNS_FIRST])
def test_member_in_an_unknown_state_is_fenced_while_it_may_own_something(
    owned: Mapping[UUID, frozenset[int]] | None,
) -> None:
    with pytest.raises(KafkaError) as caught:
        reconcile(current(UNKNOWN, 5, {ORDERS: {0: 3}}), target(6, 0), owned, nothing_held)
    assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_member_in_an_unknown_state_that_owns_nothing_begins_anew() -> None:
    after = reconcile(current(UNKNOWN, 5, {ORDERS: {0: 3}}), target(6, 0), {}, nothing_held)
    assert (after.state, after.epoch) == (STABLE, 6)


@pytest.mark.parametrize("state", [STABLE, UNREVOKED])
def test_partitions_of_a_topic_that_is_not_wanted_any_more_are_taken_back_in_the_same_epoch(
    state: MemberState,
) -> None:
    pending = {ORDERS: {1: 5}} if state is UNREVOKED else {}
    member = current(state, 5, {ORDERS: {0: 5}, BILLS: {0: 4}}, pending)
    owned = {ORDERS: frozenset({0, 1}), BILLS: frozenset({0})}
    after = reconcile(
        member,
        target(5 if state is STABLE else 6, 0, has_new_subscription=True),
        owned,
        nothing_held,
    )
    assert (after.state, after.epoch, after.assigned) == (UNREVOKED, 5, {ORDERS: {0: 5}})
    assert after.pending_revocation == {**pending, BILLS: {0: 4}}


def test_partitions_of_a_topic_that_is_not_wanted_and_not_owned_any_more_vanish() -> None:
    member = current(STABLE, 5, {ORDERS: {0: 5}, BILLS: {0: 4}})
    after = reconcile(member, target(5, 0, has_new_subscription=True), OWNS_FIRST, nothing_held)
    assert (after.state, after.epoch, after.assigned, after.pending_revocation) == (
        STABLE,
        5,
        {ORDERS: {0: 5}},
        {},
    )


def test_target_counts_only_for_topics_that_are_wanted() -> None:
    after = reconcile(current(STABLE, 5, {}), target(6, 0, wanted=(BILLS,)), {}, nothing_held)
    assert (after.state, after.epoch, after.assigned) == (STABLE, 6, {})
